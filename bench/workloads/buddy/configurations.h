// SPDX-License-Identifier: MIT
//
// configurations.h: the three configurations of Scarselli 2017, Table 4.1.
#ifndef FREEWAY_BENCH_BUDDY_CONFIGURATIONS_H
#define FREEWAY_BENCH_BUDDY_CONFIGURATIONS_H

#include <cstddef>

namespace bench {

// Sizes are 2^i * min_block with i in [0, kSizes).
inline constexpr unsigned kSizes = 12;
inline constexpr long kOperations = 10'000'000;  // of all threads together

struct Configuration {
  unsigned levels;        // of the tree
  std::size_t min_block;  // bytes

  constexpr std::size_t max_block() const { return min_block << (kSizes - 1); }
  constexpr std::size_t managed() const { return min_block << (levels - 1); }
};

inline constexpr Configuration kConfigurations[] = {{28, 8}, {20, 2048}, {16, 128}};

static_assert(kConfigurations[0].managed() == std::size_t{1} << 30 && kConfigurations[0].max_block() == 16u << 10);
static_assert(kConfigurations[1].managed() == std::size_t{1} << 30 && kConfigurations[1].max_block() == 4u << 20);
static_assert(kConfigurations[2].managed() == std::size_t{4} << 20 && kConfigurations[2].max_block() == 256u << 10);

}  // namespace bench

#endif  // FREEWAY_BENCH_BUDDY_CONFIGURATIONS_H
