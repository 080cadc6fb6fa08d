// SPDX-License-Identifier: MIT
//
// size_bins.h: the bins of a histogram of request sizes: every multiple of 8 up to 256 bytes, then eight bins for each
// doubling (at most 12.5 % wide), up to 1 GiB. Size 0 belongs to the first one, anything larger to the last.
#ifndef FREEWAY_BENCH_TODAY_SIZE_BINS_H
#define FREEWAY_BENCH_TODAY_SIZE_BINS_H

#include <bit>
#include <cstddef>

namespace bench {

inline constexpr std::size_t kFineBins = 32;  // of 8 bytes each
inline constexpr std::size_t kBins = kFineBins + 8 * 22;

// The largest size in bin `bin`.
constexpr std::size_t bin_last(std::size_t bin) {
  if (bin < kFineBins) return 8 * (bin + 1);
  const std::size_t doubling = (bin - kFineBins) / 8;
  const std::size_t part = (bin - kFineBins) % 8 + 1;
  return (std::size_t{256} << doubling) + part * (std::size_t{32} << doubling);
}

constexpr std::size_t bin_first(std::size_t bin) { return bin == 0 ? 1 : bin_last(bin - 1) + 1; }

constexpr std::size_t bin_of(std::size_t size) {
  if (size <= 8 * kFineBins) return size == 0 ? 0 : (size - 1) / 8;
  const std::size_t doubling = static_cast<std::size_t>(std::bit_width(size - 1)) - 9;
  const std::size_t part = (size - 1 - (std::size_t{256} << doubling)) / (std::size_t{32} << doubling);
  const std::size_t bin = kFineBins + 8 * doubling + part;
  return bin < kBins ? bin : kBins - 1;
}

static_assert(bin_last(kFineBins) == 288 && bin_last(kBins - 1) == std::size_t{1} << 30);
static_assert(bin_of(256) == 31 && bin_of(257) == 32 && bin_of(288) == 32 && bin_of(289) == 33 && bin_of(512) == 39);

}  // namespace bench

#endif  // FREEWAY_BENCH_TODAY_SIZE_BINS_H
