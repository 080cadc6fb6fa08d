// SPDX-License-Identifier: MIT
//
// A small random generator with all its state in one word: a signal handler that interrupts it at any instruction, or
// a jump out of it, leaves a state that is still a good one.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_RANDOM_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_RANDOM_H

#include <cstdint>

namespace freeway_test {

class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(seed) {}
  // splitmix64: any state is as good as any other.
  uint64_t next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // Uniform in [0, bound) for the small bounds of tests.
  uint64_t below(uint64_t bound) { return ((next() >> 32) * bound) >> 32; }
  uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
  bool one_in(uint64_t n) { return below(n) == 0; }

 private:
  uint64_t state_;
};

}  // namespace freeway_test
#endif
