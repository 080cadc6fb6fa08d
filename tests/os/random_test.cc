// SPDX-License-Identifier: MIT
//
// Tests of os/random.h: the hash is SipHash-1-3, numbers differ from each other and in each life of a process, and what
// is made of them is even.
#include "os/random.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "os/machine.h"

namespace freeway::test {
namespace {

// As another implementation of SipHash-1-3 has it (Python 3.11, hash of 8 bytes with PYTHONHASHSEED=0).
TEST(Random, TheHashIsSipHash) {
  EXPECT_EQ(random::hash(0, 0, 0), 0xbd60acb658c79e45u);
  EXPECT_EQ(random::hash(0, 0, 1), 0x1e9f734161d62dd9u);
  EXPECT_EQ(random::hash(0, 0, 0x0123456789abcdef), 0x8662046e52264db8u);
}

TEST(Random, LivesGoWaysOfTheirOwn) {
  Random<Machine> parent;
  std::set<u64> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(parent.stream(7).next());
  EXPECT_EQ(seen.size(), 1000u);
  // As a fork leaves it: the same words, another life.
  alignas(Random<Machine>) unsigned char copies[2][sizeof(Random<Machine>)];
  for (auto& copy : copies) memcpy(copy, &parent, sizeof(parent));
  auto& first = *reinterpret_cast<Random<Machine>*>(copies[0]);
  auto& second = *reinterpret_cast<Random<Machine>*>(copies[1]);
  EXPECT_EQ(first.stream(7).next(), second.stream(7).next()) << "copies of one life are the same";
  if (random::kernel_bits() == 0) GTEST_SKIP() << "this process asked for the same numbers in each run";
  EXPECT_NE(first.stream(8).next(), second.stream(8).next());
}

TEST(Random, NumbersBelowABoundAreBelowItAndAllComeUp) {
  random::Stream stream(1);
  for (const u32 bound : {1u, 2u, 3u, 64u, 1000u}) {
    std::set<u32> seen;
    for (u32 i = 0; i < bound * 40; ++i) {
      const u32 n = stream.below(bound);
      ASSERT_LT(n, bound);
      seen.insert(n);
    }
    EXPECT_EQ(seen.size(), bound);
  }
}

TEST(Random, SomeOfBitsAreOfThemAndAnyOfThem) {
  random::Stream stream(2);
  for (const u64 bits : {~u64{0}, u64{0xff}, u64{0x8000000000000001}, u64{0x5555555555555555}})
    for (unsigned n = 1; n < popcount(bits); ++n) {
      u64 all = 0;
      for (int i = 0; i < 2000; ++i) {
        const u64 some = stream.some_of(bits, n);
        ASSERT_EQ(some & ~bits, 0u);
        ASSERT_EQ(popcount(some), n);
        all |= some;
      }
      EXPECT_EQ(all, bits) << n;
    }
}

}  // namespace
}  // namespace freeway::test
