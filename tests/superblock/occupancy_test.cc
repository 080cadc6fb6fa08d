// SPDX-License-Identifier: MIT
//
// Tests of superblock/occupancy.h and superblock/class_usage.h: which tenth, which superblocks are worth leaving, and
// that a walk that many go on with together counts what is there.
#include "superblock/occupancy.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "superblock/class_usage.h"
#include "tests/support/test_env.h"

namespace freeway::test {
namespace {

using occupancy::is_worth_leaving;
using occupancy::Usage;

TEST(Occupancy, EveryCountOfEveryClassIsInTheTenthThatItsShareSays) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 blocks = kSizeClasses[c].blocks;
    for (u32 taken = 0; taken <= blocks; ++taken) {
      const unsigned tenth = occupancy::tenth_of(taken, blocks);
      ASSERT_LT(tenth, 10u);
      EXPECT_LE(tenth * blocks, taken * 10) << c;
      EXPECT_TRUE(tenth == 9 || taken * 10 < (tenth + 1) * blocks) << c;
    }
    EXPECT_EQ(occupancy::tenth_of(blocks, blocks), 9u);
  }
}

TEST(Occupancy, AUsageIsTheSameWhenItIsUnpacked) {
  for (const u64 superblocks : {u64{0}, u64{1}, u64{77}, (u64{1} << 24) - 1})
    for (const u64 taken : {u64{0}, u64{1}, u64{123456789}, (u64{1} << 40) - 1}) {
      const Usage usage = Usage::of(Usage::packed(superblocks, taken));
      EXPECT_EQ(usage.superblocks, superblocks);
      EXPECT_EQ(usage.taken, taken);
    }
}

TEST(Occupancy, PermilleIsTheAverageOfAllBlocks) {
  EXPECT_EQ(occupancy::permille({4, 100}, 100), 250u);
  EXPECT_EQ(occupancy::permille({1, 0}, 100), 0u);
  EXPECT_EQ(occupancy::permille({}, 100), 1000u);
}

TEST(Occupancy, NothingIsLeftWhereOneLessWouldNotHoldAll) {
  for (u64 superblocks = 0; superblocks < 20; ++superblocks)
    for (u64 taken = 0; taken <= superblocks * 64; ++taken) {
      const bool fits = superblocks > 1 && taken <= (superblocks - 1) * 64;
      EXPECT_EQ(is_worth_leaving(1, 64, {superblocks, taken}), fits) << superblocks << " " << taken;
    }
}

TEST(Occupancy, SomeSuperblockIsWorthLeavingWheneverOneLessWouldHoldAll) {
  // However the blocks are spread, the emptiest is no fuller than the average.
  for (u64 superblocks = 2; superblocks < 50; ++superblocks)
    for (u64 taken = 0; taken <= (superblocks - 1) * 51; ++taken)
      EXPECT_TRUE(is_worth_leaving(static_cast<u32>(taken / superblocks), 51, {superblocks, taken}));
}

TEST(Occupancy, FullerOnesThanTheAverageStay) {
  EXPECT_TRUE(is_worth_leaving(40, 1000, {10, 400}));
  EXPECT_TRUE(is_worth_leaving(450, 1000, {10, 4000})) << "as full as the average and an eighth";
  EXPECT_FALSE(is_worth_leaving(451, 1000, {10, 4000}));
  EXPECT_TRUE(is_worth_leaving(125, 1000, {10, 100})) << "an eighth full: whatever the average is";
  EXPECT_FALSE(is_worth_leaving(126, 1000, {10, 100}));
}

// A heap of so many places, at each of which a superblock of some class has something taken.
struct Places {
  u64 end;

  static unsigned class_at(u64 place) { return static_cast<unsigned>(1 + place % (kClassCount - 1)); }
  static u32 taken_at(u64 place) { return static_cast<u32>(place * 7 % 50); }
  bool is_end(u64 place) const { return place >= end; }
  static u64 behind(u64 place) { return place + 1; }
  template <class F> static void count(u64 place, F&& f) { f(class_at(place), taken_at(place)); }
};

void expect_exact(const ClassUsage<TestEnv>& usage, const Places& places) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    Usage truth;
    for (u64 place = 0; place < places.end; ++place)
      if (Places::class_at(place) == c) ++truth.superblocks, truth.taken += Places::taken_at(place);
    EXPECT_EQ(usage.of(c).superblocks, truth.superblocks) << c;
    EXPECT_EQ(usage.of(c).taken, truth.taken) << c;
  }
}

TEST(ClassUsage, TheFirstToAskWalksTheWholeHeap) {
  ClassUsage<TestEnv> usage;
  const Places places{1000};
  usage.advance(places);
  expect_exact(usage, places);
}

TEST(ClassUsage, WhatHasChangedIsKnownAfterAsManyCallsAsThereArePlaces) {
  ClassUsage<TestEnv> usage;
  Places places{1000};
  usage.advance(places);
  places.end = 300;
  for (int i = 0; i < 301; ++i) usage.advance(places);
  expect_exact(usage, places);
  places.end = 0;
  usage.advance(places);
  expect_exact(usage, places);
}

TEST(ClassUsage, ManyThreadsCountEachPlaceOnce) {
  ClassUsage<TestEnv> usage;
  const Places places{100};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20000; ++i) usage.advance(places);
    });
  for (std::thread& thread : threads) thread.join();
  // What came late in the last walk is in the sums of this one: two whole ones more.
  for (u64 i = 0; i < 3 * (places.end + 1); ++i) usage.advance(places);
  expect_exact(usage, places);
}

TEST(ClassUsage, WhoEndsForEverBetweenTheEndAndThePublishingSpoilsOneWalk) {
  ClassUsage<TestEnv> usage;
  const Places places{10};
  usage.advance(places);
  for (int i = 0; i < 10; ++i) usage.advance(places);
  EXPECT_TRUE(ended_at("usage.stepped", [&] { usage.advance(places); }));  // it was at the end
  for (int i = 0; i < 2 * 11; ++i) usage.advance(places);
  expect_exact(usage, places);
}

}  // namespace
}  // namespace freeway::test
