// SPDX-License-Identifier: MIT
//
// profile_gap_test.cc: gaps between sampled bytes are exponential, so that a block of n bytes is sampled with the
// probability 1 - e^(-n / interval).
#include "profile/gap.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random.h"

namespace freeway::profile {
namespace {

using test::Random;

TEST(NaturalLog, IsTheCLibrarys) {
  Random random(test::test_seed());
  for (int i = 0; i < 1000000; ++i) {
    const double x = std::ldexp(1.0 + static_cast<double>(random.next() >> 12) / 4503599627370496.0,
                                static_cast<int>(random.next() % 200) - 100);
    const double error = natural_log(x) - std::log(x);
    ASSERT_LT(std::fabs(error), 1e-12 + 1e-14 * std::fabs(std::log(x))) << x;
  }
  EXPECT_EQ(natural_log(1.0), 0.0);
}

TEST(Gap, TheLongestAndTheShortestAreSensible) {
  EXPECT_GE(gap(~u64{0}, 512), 1u) << "the next byte";
  EXPECT_LT(gap(0, 512), u64{512} * 40) << "no gap is longer than 37 intervals";
  EXPECT_EQ(gap(0, u64{1} << 62), u64{1} << 62) << "none wraps";
}

TEST(Gap, WithAnIntervalOfOneEveryBlockIsSampled) {
  for (const u64 random : {u64{0}, u64{1} << 40, ~u64{0}}) EXPECT_EQ(gap(random, kEveryBlock), 0u);
}

// Of many blocks of n bytes as many are sampled as should be: to 5 standard deviations.
TEST(Gap, ABlockIsSampledWithItsProbability) {
  Random random(test::test_seed());
  constexpr u64 kInterval = 4096;
  constexpr int kBlocks = 1000000;
  for (const u64 bytes : {u64{1}, u64{16}, u64{100}, u64{1000}, u64{4096}, u64{20000}}) {
    int sampled = 0;
    for (int i = 0; i < kBlocks; ++i) sampled += gap(random.next(), kInterval) <= bytes;
    const double p = 1 - std::exp(-static_cast<double>(bytes) / kInterval);
    EXPECT_NEAR(sampled, kBlocks * p, 5 * std::sqrt(kBlocks * p * (1 - p)) + 1) << bytes;
  }
}

// What is left of a gap that blocks have eaten from is as good as a new one: counting down gives the same share as
// drawing.
TEST(Gap, CountingDownSamplesAsOftenAsDrawing) {
  Random random(test::test_seed() + 1);
  constexpr u64 kInterval = 4096;
  constexpr int kBlocks = 2000000;
  u64 left = gap(random.next(), kInterval);
  double expected = 0, variance = 0;
  int sampled = 0;
  for (int i = 0; i < kBlocks; ++i) {
    const u64 bytes = random.next() % 500;
    const double p = 1 - std::exp(-static_cast<double>(bytes) / kInterval);
    expected += p, variance += p * (1 - p);
    if (left > bytes) {
      left -= bytes;
      continue;
    }
    ++sampled;
    left = gap(random.next(), kInterval);
  }
  EXPECT_NEAR(sampled, expected, 5 * std::sqrt(variance));
}

TEST(SampledShare, IsTheCLibrarys) {
  for (u64 interval = 1; interval < u64{1} << 40; interval *= 3)
    for (u64 bytes = 1; bytes < u64{1} << 45; bytes *= 2) {
      const double x = static_cast<double>(bytes) / static_cast<double>(interval);
      const double share = interval == kEveryBlock ? 1 : -std::expm1(-x);
      ASSERT_NEAR(sampled_share(bytes, interval) / share, 1, 1e-12) << bytes << " of " << interval;
    }
}

}  // namespace
}  // namespace freeway::profile
