// SPDX-License-Identifier: MIT
//
// random.h: the numbers of one seed.
#ifndef FREEWAY_SIMULATOR_RANDOM_H
#define FREEWAY_SIMULATOR_RANDOM_H

#include <cstdint>

namespace freeway::sim {

// splitmix64.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0) : state_(seed * 0xd1342543de82ef95 + 1) {}

  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }
  std::uint64_t below(std::uint64_t bound) { return static_cast<std::uint64_t>((__uint128_t{next()} * bound) >> 64); }
  std::uint64_t between(std::uint64_t least, std::uint64_t most) { return least + below(most - least + 1); }
  bool one_in(std::uint64_t n) { return n != 0 && below(n) == 0; }
  // Of about this size: 0 to 2 * mean, evenly in the logarithm.
  std::uint64_t about(std::uint64_t mean) { return below((2 * mean >> below(4)) + 1); }

 private:
  std::uint64_t state_;
};

}  // namespace freeway::sim

#endif  // FREEWAY_SIMULATOR_RANDOM_H
