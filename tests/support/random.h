// SPDX-License-Identifier: MIT
//
// random.h: random numbers that a failed test can be repeated with. A test takes its seed from FREEWAY_TEST_SEED, or
// from the clock, and prints it.
#ifndef FREEWAY_TESTS_SUPPORT_RANDOM_H
#define FREEWAY_TESTS_SUPPORT_RANDOM_H

#include <time.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace freeway::test {

// SplitMix64 (Steele, Lea, Flood 2014): every seed is a good one, so threads may use seed + thread number. All its
// state is in one word: a signal handler that interrupts it at any instruction, or a jump out of it, leaves a good one.
class Random {
 public:
  explicit constexpr Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // In [0, bound), bound > 0; the bias does not matter here.
  uint64_t below(uint64_t bound) { return static_cast<uint64_t>((__uint128_t{next()} * bound) >> 64); }
  uint64_t between(uint64_t least, uint64_t most) { return least + below(most - least + 1); }
  bool one_in(uint64_t n) { return n != 0 && below(n) == 0; }
  bool chance(unsigned percent) { return below(100) < percent; }

 private:
  uint64_t state_;
};

// The number in environment variable `name`, or `otherwise`.
inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* text = getenv(name);
  return text == nullptr || *text == 0 ? otherwise : strtoull(text, nullptr, 0);
}

// The seed of this run; printed once, so that it stands above whatever fails.
inline uint64_t test_seed() {
  static const uint64_t seed = [] {
    timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const uint64_t chosen = number_from_environment(
        "FREEWAY_TEST_SEED", Random(uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec)).next() & 0xffffffff);
    printf("FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    fflush(stdout);
    return chosen;
  }();
  return seed;
}

}  // namespace freeway::test

namespace freeway_test {
using freeway::test::Random;
}

#endif  // FREEWAY_TESTS_SUPPORT_RANDOM_H
