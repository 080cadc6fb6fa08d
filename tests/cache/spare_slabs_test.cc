// SPDX-License-Identifier: MIT
//
// Tests of cache/spare_slabs.h. For calls: a slab has one user at a time, a handler takes another than its thread has,
// and what a fork left behind is taken over. Kept: a slab stays its thread's between calls, is lost to a thread that
// asks while its own is out, and never while it is in.
#include "cache/spare_slabs.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <vector>

#include "tests/cache/test_slab.h"
#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway::test {
namespace {

using Slabs = SpareSlabs<TestEnv>;

constexpr unsigned kNone = ~0U;

// Thread `thread` of a process of epoch `epoch` that began with thread `first`.
constexpr Claimant who(u64 thread, u64 epoch = 1, u64 first = 1) {
  return {Claimant::name(thread, epoch), Claimant::name(first, epoch)};
}

// The seats for calls, by number.
class Calls {
 public:
  explicit Calls(unsigned count) {
    slabs_.init(count);
    Slabs::Own own;
    first_ = slabs_.claim(own, 0, who(1));
    release(0);
  }
  unsigned claim(u64 hash, const Claimant& caller, Slabs::Own& own) {
    const Slabs::Seat* seat = slabs_.claim(own, hash, caller);
    return seat == nullptr ? kNone : static_cast<unsigned>(seat - first_);
  }
  unsigned claim(u64 hash, const Claimant& caller) {  // by a thread that was in none yet
    Slabs::Own own;
    return claim(hash, caller, own);
  }
  bool take(unsigned n, const Claimant& caller) { return first_[n].claim.take(caller); }
  void release(unsigned n) { first_[n].claim.release(); }

 private:
  Slabs slabs_;
  Slabs::Seat* first_;
};

TEST(SpareSlabsForCalls, BeforeInitialisationThereAreNone) {
  Slabs slabs;
  Slabs::Own own;
  EXPECT_EQ(slabs.claim(own, 0, who(1)), nullptr);
}

TEST(SpareSlabsForCalls, ThereAreAsManyAsSaidWithinTheBounds) {
  for (unsigned count : {0u, 1u, 3u, 31u, 32u, 33u, 1000u}) {
    Calls slabs(count);
    std::set<unsigned> claimed;
    for (u64 hash = 0; hash < 200; ++hash)
      if (const unsigned n = slabs.claim(hash, who(1)); n != kNone) { EXPECT_TRUE(claimed.insert(n).second); }
    EXPECT_EQ(claimed.size(), clamp(count, 1, Slabs::kMostForCalls));
    EXPECT_LT(*claimed.rbegin(), clamp(count, 1, Slabs::kMostForCalls));
  }
}

TEST(SpareSlabsForCalls, AClaimBeginsAtItsHashAndTriesFour) {
  Calls slabs(8);
  for (unsigned i = 0; i < 4; ++i) EXPECT_EQ(slabs.claim(6, who(1)), (6 + i) % 8);
  EXPECT_EQ(slabs.claim(6, who(1)), kNone) << "though others are free";
  EXPECT_EQ(slabs.claim(2, who(1)), 2u);
  slabs.release(7);
  EXPECT_EQ(slabs.claim(~u64{0}, who(1)), 7u) << "a hash may be anything";
}

TEST(SpareSlabsForCalls, AThreadStaysWithItsSlabAndMovesOnForGoodWhereItFindsAnother) {
  Calls slabs(8);
  Slabs::Own own, others;
  const auto claim_and_release = [&](u64 hash) {
    const unsigned n = slabs.claim(hash, who(1), own);
    if (n != kNone) slabs.release(n);
    return n;
  };
  EXPECT_EQ(claim_and_release(5 + 8 * 1000), 5u) << "at first the hash decides";
  EXPECT_EQ(claim_and_release(2), 5u) << "then it does not";
  EXPECT_EQ(slabs.claim(5, who(2), others), 5u);
  EXPECT_EQ(claim_and_release(5), 6u);
  slabs.release(5);
  EXPECT_EQ(claim_and_release(5), 6u) << "though the old one is free again";
  for (unsigned n : {6u, 7u, 0u, 1u}) EXPECT_TRUE(slabs.take(n, who(3)));
  EXPECT_EQ(claim_and_release(5), kNone);
  slabs.release(6);
  EXPECT_EQ(claim_and_release(5), 6u) << "in vain, nothing is forgotten";
}

TEST(SpareSlabsForCalls, AReleasedSlabCanBeClaimedAgain) {
  Calls slabs(1);
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(slabs.claim(0, who(1)), 0u);
    ASSERT_EQ(slabs.claim(0, who(1)), kNone);
    slabs.release(0);
  }
}

TEST(SpareSlabsForCalls, AHandlerTakesAnotherThanItsThreadHas) {
  Calls slabs(4);
  unsigned of_handler = kNone;
  const unsigned of_thread = slabs.claim(0, who(1));
  TestEnv::at_step("claim.release", [&] { of_handler = slabs.claim(0, who(1)); });
  slabs.release(of_thread);
  EXPECT_NE(of_handler, kNone);
  EXPECT_NE(of_handler, of_thread);
}

TEST(SpareSlabsForCalls, WhoIsOvertakenBetweenHisStepsTakesAnother) {
  Calls slabs(4);
  unsigned of_handler = kNone;
  TestEnv::at_step("claim.seen", [&] { of_handler = slabs.claim(0, who(1)); });
  EXPECT_EQ(slabs.claim(0, who(1)), 1u);
  EXPECT_EQ(of_handler, 0u);
}

TEST(SpareSlabsForCalls, ASlabOfAThreadThatEndedIsLostInItsOwnProcessAndTakenOverInAChildThatDoesNotHaveIt) {
  Calls slabs(3);
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

TEST(SpareSlabsForCalls, OfTwoThreadsOfAChildThatTakeOverASlabOneDoes) {
  Calls slabs(1);
  ASSERT_EQ(slabs.claim(0, who(7)), 0u);
  TestEnv::at_step("claim.seen", [&] { EXPECT_TRUE(slabs.take(0, who(2, 2))); });
  EXPECT_FALSE(slabs.take(0, who(1, 2)));
  EXPECT_FALSE(slabs.take(0, who(2, 2)));
  EXPECT_TRUE(slabs.take(0, who(1, 3))) << "the child's child";
}

TEST(SpareSlabsForCalls, TakeTakesTheSlabThatIsNamed) {
  Calls slabs(32);
  for (unsigned n = 0; n < 32; ++n) {
    EXPECT_TRUE(slabs.take(n, who(1)));
    EXPECT_FALSE(slabs.take(n, who(1)));
  }
  EXPECT_EQ(slabs.claim(9, who(1)), kNone);
  slabs.release(11);
  EXPECT_EQ(slabs.claim(9, who(1)), 11u);
}

TEST(SpareSlabsForCalls, BetweenThreadsASlabHasOneUser) {
  constexpr u32 kThreads = 4, kRounds = 30000;
  Calls slabs(3);
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

// --- Kept ------------------------------------------------------------------------------------------------------------

constexpr u64 kThreads = 8;

// Threads as they look to each other: thread n's own words, in a process of epoch 1 that began with thread 1.
struct World {
  Slabs slabs;
  Slabs::Own own[kThreads];
  TestSlab memory[kThreads];
  u32 made = 0;
  u64 epoch = 1, survivor = 1;
  mutable u32 barriers = 0;
  bool refuses = false;

  explicit World(unsigned count) { slabs.init_kept(count); }  // and none for calls
  bool barrier() const { return ++barriers, !refuses; }
  bool is_inside(u64 name) const { return own[Claimant::thread(name)].inside.load_relaxed() == name; }

  Claimant who(u64 thread) const { return {Claimant::name(thread, epoch), Claimant::name(survivor, epoch)}; }
  // A slab that the thread is in from now on, if it can have one; `asks`: it has waited long enough.
  Slab* enter(u64 thread, bool asks = false, bool no_memory = false) {
    if (asks) own[thread].calls.set(Slabs::kPatience);
    const auto make = [&] { return no_memory ? nullptr : &memory[made++].slab(); };
    return slabs.take(own[thread], 0, [&] { return who(thread); }, make, *this).slab;
  }
  void leave(u64 thread) { slabs.leave(own[thread]); }
  // One call.
  Slab* call(u64 thread, bool asks = false) {
    Slab* slab = enter(thread, asks);
    if (slab != nullptr) leave(thread);
    return slab;
  }
  // Whether somebody is in the n-th slab that there is.
  bool taken(unsigned n) const {
    std::vector<bool> all;
    slabs.each(
        who(1), [this](u64 name) { return is_inside(name); }, [&](Slab&, auto is_taken) { all.push_back(is_taken()); });
    return all.at(n);
  }
  template <class F> void drain(u64 thread, F&& f) {
    slabs.drain(own[thread], who(thread), *this, [](Slab&) { return true; }, f);
  }
};

TEST(SpareSlabsKept, WithoutSeatsNobodyOwnsOne) {
  World world(0);
  EXPECT_EQ(world.call(1), nullptr);
}

TEST(SpareSlabsKept, AThreadKeepsItsSlabAndOthersHaveOthers) {
  World world(2);
  Slab* first = world.call(1);
  ASSERT_NE(first, nullptr);
  Slab* second = world.call(2);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(world.slabs.enter(world.own[1]), first);
    world.leave(1);
    EXPECT_EQ(world.call(2), second);
  }
  EXPECT_EQ(world.made, 2u);
  EXPECT_EQ(world.barriers, 0u);
}

TEST(SpareSlabsKept, AHandlerDoesNotEnterWhatItMayHaveInterrupted) {
  World world(4);
  ASSERT_NE(world.enter(1), nullptr);
  EXPECT_EQ(world.enter(1, /*asks=*/true), nullptr);
  world.leave(1);
  EXPECT_NE(world.enter(1), nullptr);
}

TEST(SpareSlabsKept, AHandlerInTheMiddleOfLookingForOneDoesWithout) {
  World world(4);
  Slab* of_handler = nullptr;
  TestEnv::at_step("spare.settled", [&] { of_handler = world.enter(1, true); });
  EXPECT_NE(world.enter(1), nullptr);
  EXPECT_EQ(of_handler, nullptr);
}

TEST(SpareSlabsKept, AThreadThatFoundNoneAsksAgainAfterItsPatienceOnly) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  for (u32 i = 0; i < Slabs::kPatience; ++i) ASSERT_EQ(world.call(2), nullptr);
  EXPECT_EQ(world.barriers, 0u);
  EXPECT_NE(world.call(2), nullptr);
  EXPECT_EQ(world.barriers, 1u);
}

TEST(SpareSlabsKept, AThreadThatIsOutLosesItsSlabAndNoticesAtItsNextCall) {
  World world(1);
  Slab* slab = world.call(1);
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(world.call(2, true), slab);
  EXPECT_EQ(world.call(1), nullptr);
  EXPECT_EQ(world.own[1].inside.load_relaxed(), 0u);
  EXPECT_EQ(world.call(1, true), slab) << "and back";
  EXPECT_EQ(world.made, 1u);
}

TEST(SpareSlabsKept, AThreadThatLostItsSlabLooksForAFreeOneAtOnceAndThenHasPatience) {
  World world(2);
  Slab* first = world.call(1);
  Slab* second = world.call(2);
  world.drain(2, [](Slab&) {});  // gives its own up
  EXPECT_EQ(world.call(3), second);
  EXPECT_EQ(world.call(2, true), second) << "of thread 3";
  EXPECT_EQ(world.call(3), nullptr);
  EXPECT_EQ(world.own[3].calls.get(), 1u);
  world.drain(1, [](Slab&) {});
  for (u32 i = 1; i < Slabs::kPatience; ++i) ASSERT_EQ(world.call(3), nullptr);
  EXPECT_EQ(world.call(3), first);
}

TEST(SpareSlabsKept, AThreadThatIsInKeepsIt) {
  World world(1);
  Slab* slab = world.enter(1);
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(world.call(2, true), nullptr);
  EXPECT_EQ(world.barriers, 1u);
  EXPECT_EQ(world.own[2].inside.load_relaxed(), 0u);
  world.leave(1);
  EXPECT_EQ(world.enter(1), slab) << "also afterwards";
}

TEST(SpareSlabsKept, AThreadThatEntersBetweenMarkAndBarrierKeepsOut) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  Slab* entered = nullptr;
  TestEnv::at_step("spare.marked", [&] { entered = world.call(1); });
  EXPECT_NE(world.call(2, true), nullptr);
  EXPECT_EQ(entered, nullptr);
}

TEST(SpareSlabsKept, WhereTheKernelRefusesBarriersNothingIsRevoked) {
  World world(1);
  Slab* slab = world.call(1);
  world.refuses = true;
  EXPECT_EQ(world.call(2, true), nullptr);
  EXPECT_EQ(world.call(1), slab);
}

TEST(SpareSlabsKept, WhoStopsWhileHeRevokesHoldsUpNobody) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  ASSERT_TRUE(ended_at("spare.marked", [&] { world.call(2, true); }));
  EXPECT_EQ(world.call(1, true), nullptr);
  EXPECT_EQ(world.call(3, true), nullptr);
  EXPECT_TRUE(world.taken(0));
}

TEST(SpareSlabsKept, ANewThreadWithTheNameOfOneThatEndedGoesOnWithItsSlab) {
  World world(2);
  Slab* slab = world.call(1);
  world.own[1].name.set(0);  // as new thread-local storage is
  world.own[1].seat.set(nullptr);
  world.own[1].calls.set(0);
  EXPECT_EQ(world.call(1), slab);
  EXPECT_EQ(world.made, 1u);
}

TEST(SpareSlabsKept, AThreadThatNeverCameBackFromACallLosesItsSlabAndNothingElse) {
  World world(2);
  ASSERT_NE(world.enter(1), nullptr);
  EXPECT_TRUE(world.taken(0));
  EXPECT_NE(world.call(2), nullptr);
  EXPECT_FALSE(world.taken(1));
  world.own[3].calls.set(2 * Slabs::kPatience);
  EXPECT_EQ(world.call(3), nullptr) << "this victim is in for ever";
  for (u32 i = 0; i < Slabs::kPatience - 1; ++i) ASSERT_EQ(world.call(3), nullptr);
  EXPECT_NE(world.call(3), nullptr) << "the next one is not";
}

TEST(SpareSlabsKept, AChildTakesOverWhatStayedBehindButNotWhatItsOwnThreadIsIn) {
  World world(2);
  Slab* left = world.enter(2);  // inside while thread 1 forks
  Slab* own = world.enter(1);   // forks in a handler
  ASSERT_NE(own, nullptr);
  world.epoch = 2;
  EXPECT_EQ(world.enter(3), left) << "a thread of the child";
  EXPECT_EQ(world.call(4, true), nullptr);
  world.leave(1);
  EXPECT_EQ(world.call(1), own) << "under the name that it always had";
  EXPECT_EQ(world.barriers, 1u);
}

TEST(SpareSlabsKept, AMarkThatStayedBehindIsTakenOverAndItsMarkerInTheChildNotices) {
  World world(1);
  ASSERT_NE(world.call(2), nullptr);
  Slab* of_child = nullptr;
  TestEnv::at_step("spare.judged", [&] {  // thread 1 forks in a handler, which starts thread 3
    world.epoch = 2;
    of_child = world.enter(3);
  });
  EXPECT_EQ(world.call(1, true), nullptr);
  EXPECT_NE(of_child, nullptr);
  EXPECT_EQ(world.call(1, true), nullptr) << "it is inside";
}

TEST(SpareSlabsKept, DrainingVisitsAllButThoseThatSomebodyIsInAndGivesThemBack) {
  World world(4);
  Slab* slabs[5];
  for (u64 thread = 1; thread <= 4; ++thread) slabs[thread] = world.call(thread);
  ASSERT_EQ(world.enter(3), slabs[3]);
  std::vector<Slab*> seen;
  world.drain(1, [&](Slab& slab) { seen.push_back(&slab); });
  EXPECT_EQ(seen, (std::vector<Slab*>{slabs[1], slabs[2], slabs[4]}));
  world.leave(3);
  for (u64 thread = 2; thread <= 4; ++thread) EXPECT_EQ(world.call(thread), slabs[thread]);
  EXPECT_EQ(world.call(1), slabs[1]) << "given up, and found again";
}

TEST(SpareSlabsKept, AHandlerThatDrainsLeavesTheInterruptedCallsSlabAlone) {
  World world(2);
  Slab* mine = world.enter(1);
  Slab* others = world.call(2);
  std::vector<Slab*> seen;
  world.drain(1, [&](Slab& slab) { seen.push_back(&slab); });
  EXPECT_EQ(seen, std::vector<Slab*>{others});
  EXPECT_TRUE(world.is_inside(world.who(1).self | Slabs::kKept));
  world.leave(1);
  EXPECT_EQ(world.call(1), mine);
}

TEST(SpareSlabsKept, WhoEndsWhileDrainingTakesOneSlab) {
  World world(3);
  for (u64 thread = 1; thread <= 3; ++thread) ASSERT_NE(world.call(thread), nullptr);
  const auto drain = [&] { world.drain(1, [](Slab&) {}); };
  ASSERT_TRUE(ended_at("spare.drained", drain, 1));
  EXPECT_FALSE(world.taken(0));
  EXPECT_TRUE(world.taken(1));
  EXPECT_FALSE(world.taken(2));
}

TEST(SpareSlabsKept, WithoutMemoryForASlabTheThreadDoesWithoutAndFindsItsSeatLater) {
  World world(1);
  EXPECT_EQ(world.enter(1, false, /*no_memory=*/true), nullptr);
  EXPECT_EQ(world.own[1].inside.load_relaxed(), 0u);
  EXPECT_NE(world.call(1, true), nullptr);
}

// On this processor, with this kernel's barriers: the proof in the header, tried.
TEST(SpareSlabsKept, BetweenThreadsASlabHasOneUser) {
  constexpr u64 kRunning = 4;
  constexpr u64 kChanges = 2000;
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0) GTEST_SKIP() << "no membarrier";
  World world(2);
  struct Real {
    const World& world;
    static bool barrier() { return syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; }
    bool is_inside(u64 name) const { return world.is_inside(name); }
  } const real{world};
  Atomic<u32> made;
  Atomic<u64> changes;
  std::vector<std::thread> threads;
  for (u64 t = 1; t <= kRunning; ++t)
    threads.emplace_back([&, t] {
      Slabs::Own& own = world.own[t];
      const unsigned c = 20;
      for (u32 i = 0; changes.load_relaxed() < kChanges; ++i) {
        if (i % 256 == 0) std::this_thread::yield();  // while it is out
        Slab* slab = world.slabs.enter(own);
        if (slab == nullptr) {
          if (i % 16 == 0) own.calls.set(Slabs::kPatience * static_cast<u32>(1 + i / 16 % 2));
          const auto make = [&] { return &world.memory[made.fetch_add_relaxed(1)].slab(); };
          slab = world.slabs.take(own, 0, [&] { return world.who(t); }, make, real).slab;
          if (slab == nullptr) continue;
          changes.fetch_add_relaxed(1);
        }
        const u64 before = slab->capacity[c].load_relaxed();
        slab->current[c].store_relaxed(t);
        slab->capacity[c].store_relaxed(before + 1);
        ASSERT_EQ(slab->current[c].load_relaxed(), t);
        ASSERT_EQ(slab->capacity[c].load_relaxed(), before + 1);
        slab->current[c].store_relaxed(0);
        world.slabs.leave(own);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_LE(made.load_relaxed(), 2u);
}

}  // namespace
}  // namespace freeway::test
