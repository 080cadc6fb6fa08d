// SPDX-License-Identifier: MIT
// estimate.h: from sampled blocks to what they stand for.
//
// A block of s bytes is sampled with the probability p = 1 - exp(-s / interval): so each sample stands for 1/p blocks,
// and the sum is right in the mean, for any interval. This needs blocks of one size in each line, which is what the
// library writes. The variance of n such samples' sum is estimated as n (1-p) / p² (times s² for bytes).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "dump.h"

namespace freeway_profile {

// What can be counted; in the order in which profiles of pprof's kind have them.
enum Measure : unsigned {
  kAllocObjects,
  kAllocSpace,
  kInuseObjects,
  kInuseSpace,
  kWaste,
  kPeakObjects,
  kPeakSpace,
  kMeasures
};

inline constexpr const char* kMeasureNames[kMeasures] = {
    "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "waste", "peak_objects", "peak_space"};
inline bool is_of_peak(Measure measure) { return measure == kPeakObjects || measure == kPeakSpace; }
inline bool is_space(Measure measure) {
  return measure != kAllocObjects && measure != kInuseObjects && measure != kPeakObjects;
}
// Whether it is about the blocks that are live, or were at the peak; else about all that were allocated.
inline bool is_of_live(Measure measure) { return measure >= kInuseObjects; }

std::optional<Measure> measure_of(const std::string& name);

struct Estimate {
  std::array<double, kMeasures> value = {};
  std::array<double, kMeasures> variance = {};

  Estimate& operator+=(const Estimate& other);
  // What the value may be off by, in the mean.
  double deviation(Measure measure) const;
};

// With what probability blocks as large as these were sampled; of a tally that is not empty.
double sampling_probability(const Tally& sampled, std::uint64_t interval);

// What the sampled blocks of one line stand for.
Estimate estimate(const Sample& sample, std::uint64_t interval);

// Bytes of a block of this line; 0 if it has none.
std::uint64_t block_size(const Sample& sample);

}  // namespace freeway_profile
