// SPDX-License-Identifier: MIT
//
// random.h: the numbers of one seed.
#ifndef FREEWAY_SIMULATOR_RANDOM_H
#define FREEWAY_SIMULATOR_RANDOM_H

#include <cstdint>

#include "tests/support/random.h"

namespace freeway::sim {

class Random : public test::Random {
 public:
  explicit Random(std::uint64_t seed = 0) : test::Random(seed * 0xd1342543de82ef95 + 1) {}

  // Of about this size: 0 to 2 * mean, evenly in the logarithm.
  std::uint64_t about(std::uint64_t mean) { return below((2 * mean >> below(4)) + 1); }
};

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_RANDOM_H
