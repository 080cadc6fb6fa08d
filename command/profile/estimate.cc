// SPDX-License-Identifier: MIT
#include "estimate.h"

#include <algorithm>
#include <cmath>

namespace freeway_profile {
namespace {

void add(Estimate& sum, const Tally& sampled, std::uint64_t interval, Measure objects, Measure space) {
  if (sampled.blocks == 0 || sampled.bytes == 0) return;
  const double count = static_cast<double>(sampled.blocks), bytes = static_cast<double>(sampled.bytes);
  const double size = bytes / count, probability = sampling_probability(sampled, interval);
  const double variance = count * (1 - probability) / (probability * probability);
  sum.value[objects] += count / probability;
  sum.value[space] += bytes / probability;
  sum.variance[objects] += variance;
  sum.variance[space] += variance * size * size;
}

// A line says how many bytes it had at the peak, and its blocks are of one size.
Tally at_peak(const Sample& sample) {
  if (sample.peak_bytes == 0 || sample.all.bytes == 0) return {};
  const double size = static_cast<double>(sample.all.bytes) / static_cast<double>(sample.all.blocks);
  const auto blocks = static_cast<std::uint64_t>(std::llround(static_cast<double>(sample.peak_bytes) / size));
  return {std::max<std::uint64_t>(blocks, 1), sample.peak_bytes};
}

}  // namespace

double sampling_probability(const Tally& sampled, std::uint64_t interval) {
  const double size = static_cast<double>(sampled.bytes) / static_cast<double>(sampled.blocks);
  // expm1: for blocks that are small beside the interval 1 - exp() would be a difference of nearly equal numbers.
  return interval <= 1 ? 1 : -std::expm1(-size / static_cast<double>(interval));
}

std::optional<Measure> measure_of(const std::string& name) {
  for (unsigned i = 0; i < kMeasures; ++i)
    if (name == kMeasureNames[i]) return static_cast<Measure>(i);
  return {};
}

Estimate& Estimate::operator+=(const Estimate& other) {
  for (unsigned i = 0; i < kMeasures; ++i) {
    value[i] += other.value[i];
    variance[i] += other.variance[i];
  }
  return *this;
}

double Estimate::deviation(Measure measure) const { return std::sqrt(variance[measure]); }

Estimate estimate(const Sample& sample, std::uint64_t interval) {
  Estimate sum;
  add(sum, sample.all, interval, kAllocObjects, kAllocSpace);
  add(sum, sample.live, interval, kInuseObjects, kInuseSpace);
  add(sum, at_peak(sample), interval, kPeakObjects, kPeakSpace);
  sum.value[kWaste] = sample.waste;
  sum.variance[kWaste] = sample.waste_variance;
  return sum;
}

std::uint64_t block_size(const Sample& sample) {
  const Tally& tally = sample.live.blocks != 0 ? sample.live : sample.all;
  return tally.blocks == 0 ? 0 : tally.bytes / tally.blocks;
}

}  // namespace freeway_profile
