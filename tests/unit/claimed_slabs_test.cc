// SPDX-License-Identifier: MIT
//
// Tests of cache/claimed_slabs.h: a slab has one user at a time, a handler takes another than its thread has, and what a
// fork left behind is taken over.
#include "cache/claimed_slabs.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "differential/random.h"
#include "unit/test_env.h"
#include "unit/test_slab.h"

namespace freeway::test {
namespace {

using Slabs = ClaimedSlabs<TestEnv>;
constexpr unsigned kNone = Slabs::kSlabs;

TEST(ClaimedSlabs, BeforeInitialisationThereAreNone) {
  Slabs slabs;
  EXPECT_EQ(slabs.claim(0, 1), kNone);
}

TEST(ClaimedSlabs, ThereAreAsManyAsSaidWithinTheBounds) {
  for (unsigned count : {0u, 1u, 3u, 31u, 32u, 33u, 1000u}) {
    Slabs slabs;
    slabs.init(count);
    std::set<unsigned> claimed;
    for (u64 hash = 0; hash < 200; ++hash)
      if (const unsigned n = slabs.claim(hash, 1); n != kNone) {
        EXPECT_TRUE(claimed.insert(n).second);
      }
    EXPECT_EQ(claimed.size(), clamp(count, 1, Slabs::kSlabs));
    EXPECT_LT(*claimed.rbegin(), clamp(count, 1, Slabs::kSlabs));
  }
}

TEST(ClaimedSlabs, AClaimBeginsAtItsHashAndTriesFour) {
  Slabs slabs;
  slabs.init(8);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(slabs.claim(6, 1), (6 + i) % 8);
  EXPECT_EQ(slabs.claim(6, 1), kNone) << "though others are free";
  EXPECT_EQ(slabs.claim(2, 1), 2u);
  slabs.release(7);
  EXPECT_EQ(slabs.claim(~u64{0}, 1), 7u) << "a hash may be anything";
}

TEST(ClaimedSlabs, AReleasedSlabCanBeClaimedAgain) {
  Slabs slabs;
  slabs.init(1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(slabs.claim(0, 1), 0u);
    ASSERT_EQ(slabs.claim(0, 1), kNone);
    slabs.release(0);
  }
}

TEST(ClaimedSlabs, AHandlerTakesAnotherThanItsThreadHas) {
  Slabs slabs;
  slabs.init(4);
  for (const char* step : {"claimed.taken", "claimed.release"}) {
    unsigned of_handler = kNone;
    TestEnv::at_step(step, [&] { of_handler = slabs.claim(0, 1); });
    const unsigned of_thread = slabs.claim(0, 1);
    slabs.release(of_thread);
    EXPECT_FALSE(TestEnv::step_left());
    EXPECT_NE(of_handler, kNone);
    EXPECT_NE(of_handler, of_thread) << step;
    slabs.release(of_handler);
  }
}

TEST(ClaimedSlabs, ASlabOfAThreadThatEndedIsLostInItsOwnProcessOnly) {
  Slabs slabs;
  slabs.init(2);
  EXPECT_TRUE(ended_at("claimed.taken", [&] { slabs.claim(0, 1); }));
  EXPECT_EQ(slabs.claim(0, 1), 1u);
  slabs.release(1);
  EXPECT_EQ(slabs.claim(0, 2), 0u) << "a forked child takes it over";
  EXPECT_EQ(slabs.claim(0, 2), 1u);
  EXPECT_EQ(slabs.claim(0, 2), kNone);
  slabs.release(0);
  EXPECT_EQ(slabs.claim(0, 2), 0u);
}

TEST(ClaimedSlabs, OfTwoThreadsOfAChildThatTakeOverASlabOneDoes) {
  Slabs slabs;
  slabs.init(1);
  ASSERT_EQ(slabs.claim(0, 1), 0u);
  TestEnv::at_step("claimed.taken", [&] { EXPECT_FALSE(slabs.take(0, 2)); });
  EXPECT_TRUE(slabs.take(0, 2));
  EXPECT_FALSE(slabs.take(0, 2));
  EXPECT_TRUE(slabs.take(0, 3)) << "the child's child";
}

TEST(ClaimedSlabs, TakeTakesTheSlabThatIsNamed) {
  Slabs slabs;
  slabs.init(32);
  for (unsigned n = 0; n < 32; ++n) {
    EXPECT_TRUE(slabs.take(n, 1));
    EXPECT_FALSE(slabs.take(n, 1));
  }
  EXPECT_EQ(slabs.claim(9, 1), kNone);
  slabs.release(11);
  EXPECT_EQ(slabs.claim(9, 1), 11u);
}

TEST(ClaimedSlabs, ASlabIsMadeOnceAndStays) {
  Slabs slabs;
  slabs.init(3);
  TestSlab memory;
  EXPECT_EQ(slabs.slab(1), nullptr);
  slabs.set_slab(1, &memory.slab());
  slabs.take(1, 1);
  slabs.release(1);
  EXPECT_EQ(slabs.slab(1), &memory.slab());
  EXPECT_EQ(slabs.slab(0), nullptr);
}

TEST(ClaimedSlab, AnswersAsAnAccessMust) {
  TestSlab memory;
  const ClaimedSlab access(memory.slab());
  const unsigned c = 20;
  void* blocks[3] = {};
  EXPECT_EQ(access.pop(c), 0u);
  EXPECT_FALSE(access.push(c, 16));
  EXPECT_TRUE(access.open(c, offset_of_small(c), kMagazines[c].small * 8, memory.closed()));
  EXPECT_FALSE(access.open(c, offset_of_small(c), kMagazines[c].small * 8, memory.closed()));
  EXPECT_TRUE(access.push(c, block(c, 1)));
  EXPECT_EQ(access.pop_batch(c, blocks, 3), 1u);
  EXPECT_EQ(access.push_batch(c, blocks, 1), 1u);
  EXPECT_EQ(access.pop(c), block(c, 1));
  EXPECT_EQ(access.take_current(c), 0u);
  EXPECT_TRUE(access.put_current(c, 7));
  EXPECT_FALSE(access.put_current(c, 8)) << "it has one";
  EXPECT_EQ(access.take_current(c), 7u);
  EXPECT_EQ(access.take_current(c), 0u);
  const u64 capacity = kMagazines[c].small + 4;
  EXPECT_TRUE(access.move(c, offset_of_small(c), kMagazines[c].small * 8, offset_of_big(c) - offset_of_small(c), capacity * 8));
  EXPECT_TRUE(access.replace(offset_of_capacity(c), kMagazines[c].small, capacity));
  EXPECT_FALSE(access.replace(offset_of_capacity(c), kMagazines[c].small, capacity));
  EXPECT_EQ(access.grow(offset_of_capacity(c), capacity, offset_of_big(c) + capacity * 8, 16), 1u);
  EXPECT_EQ(memory.room(c), capacity + 2);
}

TEST(ClaimedSlabs, BetweenThreadsASlabHasOneUser) {
  constexpr u32 kThreads = 4, kRounds = 30000;
  Slabs slabs;
  slabs.init(3);
  Atomic<u32> users[3];
  std::vector<std::thread> threads;
  for (u32 t = 1; t <= kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(test_seed() + t);
      for (u32 i = 0; i < kRounds; ++i) {
        const unsigned n = slabs.claim(random.next(), 1);
        if (n == kNone) continue;
        ASSERT_EQ(users[n].exchange_relaxed(t), 0u);
        ASSERT_EQ(users[n].exchange_relaxed(0), t);
        slabs.release(n);
      }
    });
  for (auto& thread : threads) thread.join();
}

}  // namespace
}  // namespace freeway::test
