// SPDX-License-Identifier: MIT
//
// latencies.h: the processor's own clock, and how often something took how long.
#ifndef FREEWAY_BENCH_SINGLE_CALLS_LATENCIES_H
#define FREEWAY_BENCH_SINGLE_CALLS_LATENCIES_H

#include <bit>
#include <cstdint>
#include <ctime>

#include "support/measure.h"

namespace bench {

// Ticks of a counter that all CPUs share; nanoseconds where there is none such.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  std::uint32_t low, high, processor;
  asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(processor) : : "memory");
  return std::uint64_t{high} << 32 | low;
#else
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
#endif
}

// What a tick is, found between its birth and the call.
class TickLength {
 public:
  TickLength() : ticks_(ticks()), seconds_(clock_seconds(CLOCK_MONOTONIC)) {}
  double us() const {
    return (clock_seconds(CLOCK_MONOTONIC) - seconds_) * 1e6 / static_cast<double>(ticks() - ticks_);
  }

 private:
  std::uint64_t ticks_;
  double seconds_;
};

// Counts of durations: exact below 32 ticks, then 16 bins for each power of two (6 %); and the longest.
class Latencies {
 public:
  void add(std::uint64_t duration) {
    ++bins_[bin_of(duration)];
    if (duration > longest_) longest_ = duration;
  }
  void add(const Latencies& other) {
    for (unsigned i = 0; i < kBins; ++i) bins_[i] += other.bins_[i];
    if (other.longest_ > longest_) longest_ = other.longest_;
  }
  std::uint64_t longest() const { return longest_; }
  std::uint64_t count() const {
    std::uint64_t all = 0;
    for (const std::uint64_t bin : bins_) all += bin;
    return all;
  }
  // At least `part` of all durations are no longer: the end of the bin in which that many are reached.
  std::uint64_t quantile(double part) const {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(count()));
    std::uint64_t seen = 0;
    for (unsigned i = 0; i < kBins; ++i)
      if ((seen += bins_[i]) >= wanted && seen != 0) return end_of(i) < longest_ ? end_of(i) : longest_;
    return longest_;
  }

  static constexpr unsigned kSplit = 4, kExact = 2u << kSplit;
  static constexpr unsigned bin_of(std::uint64_t duration) {
    if (duration < kExact) return static_cast<unsigned>(duration);
    const unsigned shift = static_cast<unsigned>(std::bit_width(duration)) - kSplit - 1;
    return (shift << kSplit) + static_cast<unsigned>(duration >> shift);
  }
  // The longest duration of the bin.
  static constexpr std::uint64_t end_of(unsigned bin) {
    if (bin < kExact) return bin;
    const unsigned shift = (bin >> kSplit) - 1;
    const std::uint64_t first = (bin & ((1u << kSplit) - 1)) | 1u << kSplit;
    return ((first + 1) << shift) - 1;
  }

 private:
  static constexpr unsigned kBins = (64 - kSplit + 1) << kSplit;
  std::uint64_t bins_[kBins] = {};
  std::uint64_t longest_ = 0;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SINGLE_CALLS_LATENCIES_H
