// SPDX-License-Identifier: MIT
//
// Tests of cache/claimed_slabs.h: a slab has one user at a time, a handler takes another than its thread has, and what
// a fork left behind is taken over.
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

using process::Claimant;
using Slabs = ClaimedSlabs<TestEnv>;
constexpr unsigned kNone = Slabs::kSlabs;

// Thread `thread` of a process of epoch `epoch` that began with thread `first`.
constexpr Claimant who(u64 thread, u64 epoch = 1, u64 first = 1) {
  return {Claimant::name(thread, epoch), Claimant::name(first, epoch)};
}

TEST(ClaimedSlabs, BeforeInitialisationThereAreNone) {
  Slabs slabs;
  EXPECT_EQ(slabs.claim(0, who(1)), kNone);
}

TEST(ClaimedSlabs, ThereAreAsManyAsSaidWithinTheBounds) {
  for (unsigned count : {0u, 1u, 3u, 31u, 32u, 33u, 1000u}) {
    Slabs slabs;
    slabs.init(count);
    std::set<unsigned> claimed;
    for (u64 hash = 0; hash < 200; ++hash)
      if (const unsigned n = slabs.claim(hash, who(1)); n != kNone) {
        EXPECT_TRUE(claimed.insert(n).second);
      }
    EXPECT_EQ(claimed.size(), clamp(count, 1, Slabs::kSlabs));
    EXPECT_LT(*claimed.rbegin(), clamp(count, 1, Slabs::kSlabs));
  }
}

TEST(ClaimedSlabs, AClaimBeginsAtItsHashAndTriesFour) {
  Slabs slabs;
  slabs.init(8);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(slabs.claim(6, who(1)), (6 + i) % 8);
  EXPECT_EQ(slabs.claim(6, who(1)), kNone) << "though others are free";
  EXPECT_EQ(slabs.claim(2, who(1)), 2u);
  slabs.release(7);
  EXPECT_EQ(slabs.claim(~u64{0}, who(1)), 7u) << "a hash may be anything";
}

TEST(ClaimedSlabs, AThreadStaysWithItsSlabAndMovesOnForGoodWhereItFindsAnother) {
  Slabs slabs;
  slabs.init(8);
  u32 place = 0, others = 0;
  const auto claim_and_release = [&](u64 hash) {
    const unsigned n = slabs.claim_again(place, hash, who(1));
    if (n != kNone) slabs.release(n);
    return n;
  };
  EXPECT_EQ(claim_and_release(5 + 8 * 1000), 5u) << "at first the hash decides";
  EXPECT_EQ(claim_and_release(2), 5u) << "then it does not";
  EXPECT_EQ(slabs.claim_again(others, 5, who(2)), 5u);
  EXPECT_EQ(claim_and_release(5), 6u);
  slabs.release(5);
  EXPECT_EQ(claim_and_release(5), 6u) << "though the old one is free again";
  for (unsigned n : {6u, 7u, 0u, 1u}) EXPECT_TRUE(slabs.take(n, who(3)));
  EXPECT_EQ(claim_and_release(5), kNone);
  slabs.release(6);
  EXPECT_EQ(claim_and_release(5), 6u) << "in vain, nothing is forgotten";
}

TEST(ClaimedSlabs, AReleasedSlabCanBeClaimedAgain) {
  Slabs slabs;
  slabs.init(1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(slabs.claim(0, who(1)), 0u);
    ASSERT_EQ(slabs.claim(0, who(1)), kNone);
    slabs.release(0);
  }
}

TEST(ClaimedSlabs, AHandlerTakesAnotherThanItsThreadHas) {
  Slabs slabs;
  slabs.init(4);
  unsigned of_handler = kNone;
  const unsigned of_thread = slabs.claim(0, who(1));
  TestEnv::at_step("claimed.release", [&] { of_handler = slabs.claim(0, who(1)); });
  slabs.release(of_thread);
  EXPECT_NE(of_handler, kNone);
  EXPECT_NE(of_handler, of_thread);
}

TEST(ClaimedSlabs, WhoIsOvertakenBetweenHisStepsTakesAnother) {
  Slabs slabs;
  slabs.init(4);
  unsigned of_handler = kNone;
  TestEnv::at_step("claimed.seen", [&] { of_handler = slabs.claim(0, who(1)); });
  EXPECT_EQ(slabs.claim(0, who(1)), 1u);
  EXPECT_EQ(of_handler, 0u);
}

TEST(ClaimedSlabs, ASlabOfAThreadThatEndedIsLostInItsOwnProcessAndTakenOverInAChildThatDoesNotHaveIt) {
  Slabs slabs;
  slabs.init(3);
  EXPECT_EQ(slabs.claim(0, who(7)), 0u);  // never released
  EXPECT_EQ(slabs.claim(0, who(8)), 1u);  // held while a handler of this thread forks
  EXPECT_EQ(slabs.claim(0, who(9)), 2u);
  slabs.release(2);
  // In the child, thread 8 is there, within the handler; thread 7 is not.
  const Claimant child = who(8, 2, 8);
  EXPECT_FALSE(slabs.take(1, child)) << "its own slab, which it will go on with";
  EXPECT_EQ(slabs.claim(0, child), 0u);
  EXPECT_EQ(slabs.claim(0, child), 2u);
  EXPECT_EQ(slabs.claim(0, child), kNone);
  slabs.release(1);  // the interrupted call returns
  EXPECT_EQ(slabs.claim(0, child), 1u);
}

TEST(ClaimedSlabs, OfTwoThreadsOfAChildThatTakeOverASlabOneDoes) {
  Slabs slabs;
  slabs.init(1);
  ASSERT_EQ(slabs.claim(0, who(7)), 0u);
  TestEnv::at_step("claimed.seen", [&] { EXPECT_TRUE(slabs.take(0, who(2, 2))); });
  EXPECT_FALSE(slabs.take(0, who(1, 2)));
  EXPECT_FALSE(slabs.take(0, who(2, 2)));
  EXPECT_TRUE(slabs.take(0, who(1, 3))) << "the child's child";
}

TEST(ClaimedSlabs, TakeTakesTheSlabThatIsNamed) {
  Slabs slabs;
  slabs.init(32);
  for (unsigned n = 0; n < 32; ++n) {
    EXPECT_TRUE(slabs.take(n, who(1)));
    EXPECT_FALSE(slabs.take(n, who(1)));
  }
  EXPECT_EQ(slabs.claim(9, who(1)), kNone);
  slabs.release(11);
  EXPECT_EQ(slabs.claim(9, who(1)), 11u);
}

TEST(ClaimedSlabs, ASlabIsMadeOnceAndStays) {
  Slabs slabs;
  slabs.init(3);
  TestSlab memory;
  EXPECT_EQ(slabs.slab(1), nullptr);
  slabs.set_slab(1, &memory.slab());
  slabs.take(1, who(1));
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
  EXPECT_EQ(access.push_run(c, 64, 16, 2), 2u);
  EXPECT_EQ(access.pop(c), 64u);
  EXPECT_EQ(access.pop(c), 80u);
  EXPECT_EQ(access.take_current(c), 0u);
  EXPECT_TRUE(access.put_current(c, 7));
  EXPECT_FALSE(access.put_current(c, 8)) << "it has one";
  EXPECT_EQ(access.take_current(c), 7u);
  EXPECT_EQ(access.take_current(c), 0u);
  const u64 capacity = kMagazines[c].small + 4;
  EXPECT_TRUE(
      access.move(c, offset_of_small(c), kMagazines[c].small * 8, offset_of_big(c) - offset_of_small(c), capacity * 8));
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
        const unsigned n = slabs.claim(random.next(), who(t));
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
