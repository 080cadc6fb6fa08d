// SPDX-License-Identifier: MIT
//
// Tests of background/pace.h: no stretch of time sees more than its rate, and what there is goes at that rate.
#include "background/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace freeway::background {
namespace {

constexpr u64 kSecond = 1'000'000'000, kLongestPiece = 4 * kMiB;

TEST(Pace, WithoutARateAnyNumberGoes) {
  Pace pace;
  EXPECT_EQ(pace.allowance(0), ~std::size_t{0});
  pace.spend(kGiB);
  EXPECT_EQ(pace.allowance(1), ~std::size_t{0});
}

// In any stretch between two looks, whenever these come and however long the pieces are.
TEST(Pace, NoStretchOfTimeSeesMore) {
  std::mt19937_64 random(7);
  for (const u64 rate : {u64{1000}, 100 * kKiB, kMiB, 64 * kMiB, kGiB, Pace::kMostRate}) {
    Pace pace(rate);
    struct Look {
      u64 at, before, after;  // bytes given back by then
    };
    std::vector<Look> looks;
    u64 now = 5 * kSecond, given = 0;
    for (int i = 0; i < 400; ++i) {
      now += random() % 10 == 0 ? random() % (5 * kSecond) : random() % (2 * kBeatNs);
      const std::size_t allowed = pace.allowance(now);
      const u64 piece = random() % 4 == 0 ? kLongestPiece : allowed;
      const u64 before = given;
      if (allowed >= kFrameSize) {
        given += std::max<u64>(piece, allowed);
        pace.spend(given - before);
      }
      looks.push_back({now, before, given});
    }
    const u64 kept = rate / 4 + kFrameSize;
    for (std::size_t a = 0; a < looks.size(); ++a)
      for (std::size_t b = a; b < looks.size(); ++b) {
        const double seconds = static_cast<double>(looks[b].at - looks[a].at) / 1e9;
        const double most = static_cast<double>(rate) * seconds * 1.000001 + static_cast<double>(kept + kLongestPiece);
        ASSERT_LE(static_cast<double>(looks[b].after - looks[a].before), most) << rate << " " << a << " " << b;
      }
  }
}

// A helper that always has something to give back, at each beat.
u64 given_in(u64 rate, u64 seconds) {
  Pace pace(rate);
  u64 given = 0;
  pace.allowance(kSecond);
  for (u64 now = kSecond; now <= (seconds + 1) * kSecond; now += kBeatNs) {
    const std::size_t frames = pace.allowance(now) / kFrameSize;
    pace.spend(frames * kFrameSize);
    given += frames * kFrameSize;
  }
  return given;
}

TEST(Pace, WhatThereIsGoesAtTheRate) {
  for (const u64 rate : {100 * kKiB, kMiB, 64 * kMiB, kGiB}) {
    const u64 expected = rate * 60;
    EXPECT_GE(given_in(rate, 60), expected - expected / 100) << rate;
    EXPECT_LE(given_in(rate, 60), expected + rate / 4 + kFrameSize) << rate;
  }
}

TEST(Pace, ALowRateReachesAFrameInTheEnd) { EXPECT_EQ(given_in(1000, 140), 2 * kFrameSize); }

TEST(Pace, OfALongSleepABeatIsKept) {
  Pace pace(64 * kMiB);
  EXPECT_EQ(pace.allowance(3600 * kSecond), 16 * kMiB + kFrameSize);
}

TEST(Pace, AClockThatGoesBackEarnsNothing) {
  Pace pace(64 * kMiB);
  const std::size_t first = pace.allowance(10 * kSecond);
  pace.spend(first);
  EXPECT_EQ(pace.allowance(9 * kSecond), 0u);
  EXPECT_EQ(pace.allowance(10 * kSecond), 0u);
}

}  // namespace
}  // namespace freeway::background
