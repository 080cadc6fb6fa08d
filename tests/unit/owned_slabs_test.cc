// SPDX-License-Identifier: MIT
//
// Tests of cache/owned_slabs.h: a slab stays its thread's between calls, is lost to who asks while the thread is out, and
// never while it is in.
#include "cache/owned_slabs.h"

#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "unit/test_env.h"
#include "unit/test_slab.h"

namespace freeway::test {
namespace {

using process::Claimant;
using Slabs = OwnedSlabs<TestEnv>;

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

  explicit World(unsigned count) { slabs.init(count); }
  bool barrier() const { return ++barriers, !refuses; }
  bool is_inside(u64 name) const { return own[Claimant::thread(name)].inside.load_relaxed() == name; }

  Claimant who(u64 thread) const { return {Claimant::name(thread, epoch), Claimant::name(survivor, epoch)}; }
  // A slab that the thread is in from now on, if it can have one; `asks`: it has waited long enough.
  Slab* enter(u64 thread, bool asks = false, bool no_memory = false) {
    if (Slab* slab = slabs.enter(own[thread])) return slab;
    if (asks) own[thread].calls.set(Slabs::kPatience);
    const auto make = [&] { return no_memory ? nullptr : &memory[made++].slab(); };
    return slabs.settle(own[thread], 0, [&] { return who(thread); }, make, *this);
  }
  void leave(u64 thread) { slabs.leave(own[thread]); }
  // One call.
  Slab* call(u64 thread, bool asks = false) {
    Slab* slab = enter(thread, asks);
    if (slab != nullptr) leave(thread);
    return slab;
  }
  bool taken(unsigned n) const { return slabs.is_taken(n, who(1), [this](u64 name) { return is_inside(name); }); }
};

TEST(OwnedSlabs, WithoutSeatsNobodyOwnsOne) {
  World world(0);
  EXPECT_EQ(world.call(1), nullptr);
}

TEST(OwnedSlabs, AThreadKeepsItsSlabAndOthersHaveOthers) {
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

TEST(OwnedSlabs, AHandlerDoesNotEnterWhatItMayHaveInterrupted) {
  World world(4);
  ASSERT_NE(world.enter(1), nullptr);
  EXPECT_EQ(world.enter(1, /*asks=*/true), nullptr);
  world.leave(1);
  EXPECT_NE(world.enter(1), nullptr);
}

TEST(OwnedSlabs, AHandlerInTheMiddleOfLookingForOneDoesWithout) {
  World world(4);
  Slab* of_handler = nullptr;
  TestEnv::at_step("owned.settled", [&] { of_handler = world.enter(1, true); });
  EXPECT_NE(world.enter(1), nullptr);
  EXPECT_EQ(of_handler, nullptr);
}

TEST(OwnedSlabs, AThreadThatFoundNoneAsksAgainAfterItsPatienceOnly) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  for (u32 i = 0; i < Slabs::kPatience; ++i) ASSERT_EQ(world.call(2), nullptr);
  EXPECT_EQ(world.barriers, 0u);
  EXPECT_NE(world.call(2), nullptr);
  EXPECT_EQ(world.barriers, 1u);
}

TEST(OwnedSlabs, AThreadThatIsOutLosesItsSlabAndNoticesAtItsNextCall) {
  World world(1);
  Slab* slab = world.call(1);
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(world.call(2, true), slab);
  EXPECT_EQ(world.call(1), nullptr);
  EXPECT_EQ(world.own[1].inside.load_relaxed(), 0u);
  EXPECT_EQ(world.call(1, true), slab) << "and back";
  EXPECT_EQ(world.made, 1u);
}

TEST(OwnedSlabs, AThreadThatLostItsSlabLooksForAFreeOneAtOnceAndThenHasPatience) {
  World world(2);
  Slab* first = world.call(1);
  Slab* second = world.call(2);
  world.slabs.drain(world.own[2], world.who(2), world, [](Slab&) {});  // gives its own up
  EXPECT_EQ(world.call(3), second);
  EXPECT_EQ(world.call(2, true), second) << "of thread 3";
  EXPECT_EQ(world.call(3), nullptr);
  EXPECT_EQ(world.own[3].calls.get(), 1u);
  world.slabs.drain(world.own[1], world.who(1), world, [](Slab&) {});
  for (u32 i = 1; i < Slabs::kPatience; ++i) ASSERT_EQ(world.call(3), nullptr);
  EXPECT_EQ(world.call(3), first);
}

TEST(OwnedSlabs, AThreadThatIsInKeepsIt) {
  World world(1);
  Slab* slab = world.enter(1);
  ASSERT_NE(slab, nullptr);
  EXPECT_EQ(world.call(2, true), nullptr);
  EXPECT_EQ(world.barriers, 1u);
  EXPECT_EQ(world.own[2].inside.load_relaxed(), 0u);
  world.leave(1);
  EXPECT_EQ(world.enter(1), slab) << "also afterwards";
}

TEST(OwnedSlabs, AThreadThatEntersBetweenMarkAndBarrierKeepsOut) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  Slab* entered = nullptr;
  TestEnv::at_step("owned.marked", [&] { entered = world.call(1); });
  EXPECT_NE(world.call(2, true), nullptr);
  EXPECT_EQ(entered, nullptr);
}

TEST(OwnedSlabs, WhereTheKernelRefusesBarriersNothingIsRevoked) {
  World world(1);
  Slab* slab = world.call(1);
  world.refuses = true;
  EXPECT_EQ(world.call(2, true), nullptr);
  EXPECT_EQ(world.call(1), slab);
}

TEST(OwnedSlabs, WhoStopsWhileHeRevokesHoldsUpNobody) {
  World world(1);
  ASSERT_NE(world.call(1), nullptr);
  ASSERT_TRUE(ended_at("owned.marked", [&] { world.call(2, true); }));
  EXPECT_EQ(world.call(1, true), nullptr);
  EXPECT_EQ(world.call(3, true), nullptr);
  EXPECT_TRUE(world.taken(0));
}

TEST(OwnedSlabs, ANewThreadWithTheNameOfOneThatEndedGoesOnWithItsSlab) {
  World world(2);
  Slab* slab = world.call(1);
  world.own[1].name.set(0);  // as new thread-local storage is
  world.own[1].seat.set(nullptr);
  world.own[1].calls.set(0);
  EXPECT_EQ(world.call(1), slab);
  EXPECT_EQ(world.made, 1u);
}

TEST(OwnedSlabs, AThreadThatNeverCameBackFromACallLosesItsSlabAndNothingElse) {
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

TEST(OwnedSlabs, AChildTakesOverWhatStayedBehindButNotWhatItsOwnThreadIsIn) {
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

TEST(OwnedSlabs, AMarkThatStayedBehindIsTakenOverAndItsMarkerInTheChildNotices) {
  World world(1);
  ASSERT_NE(world.call(2), nullptr);
  Slab* of_child = nullptr;
  TestEnv::at_step("owned.judged", [&] {  // thread 1 forks in a handler, which starts thread 3
    world.epoch = 2;
    of_child = world.enter(3);
  });
  EXPECT_EQ(world.call(1, true), nullptr);
  EXPECT_NE(of_child, nullptr);
  EXPECT_EQ(world.call(1, true), nullptr) << "it is inside";
}

TEST(OwnedSlabs, DrainingVisitsAllButThoseThatSomebodyIsInAndGivesThemBack) {
  World world(4);
  Slab* slabs[5];
  for (u64 thread = 1; thread <= 4; ++thread) slabs[thread] = world.call(thread);
  ASSERT_EQ(world.enter(3), slabs[3]);
  std::vector<Slab*> seen;
  world.slabs.drain(world.own[1], world.who(1), world, [&](Slab& slab) { seen.push_back(&slab); });
  EXPECT_EQ(seen, (std::vector<Slab*>{slabs[1], slabs[2], slabs[4]}));
  world.leave(3);
  for (u64 thread = 2; thread <= 4; ++thread) EXPECT_EQ(world.call(thread), slabs[thread]);
  EXPECT_EQ(world.call(1), slabs[1]) << "given up, and found again";
}

TEST(OwnedSlabs, AHandlerThatDrainsLeavesTheInterruptedCallsSlabAlone) {
  World world(2);
  Slab* mine = world.enter(1);
  Slab* others = world.call(2);
  std::vector<Slab*> seen;
  world.slabs.drain(world.own[1], world.who(1), world, [&](Slab& slab) { seen.push_back(&slab); });
  EXPECT_EQ(seen, std::vector<Slab*>{others});
  EXPECT_TRUE(world.is_inside(world.who(1).self));
  world.leave(1);
  EXPECT_EQ(world.call(1), mine);
}

TEST(OwnedSlabs, WhoEndsWhileDrainingTakesOneSlab) {
  World world(3);
  for (u64 thread = 1; thread <= 3; ++thread) ASSERT_NE(world.call(thread), nullptr);
  const auto drain = [&] { world.slabs.drain(world.own[1], world.who(1), world, [](Slab&) {}); };
  ASSERT_TRUE(ended_at("owned.drained", drain, 1));
  EXPECT_FALSE(world.taken(0));
  EXPECT_TRUE(world.taken(1));
  EXPECT_FALSE(world.taken(2));
}

TEST(OwnedSlabs, WithoutMemoryForASlabTheThreadDoesWithoutAndFindsItsSeatLater) {
  World world(1);
  EXPECT_EQ(world.enter(1, false, /*no_memory=*/true), nullptr);
  EXPECT_EQ(world.own[1].inside.load_relaxed(), 0u);
  EXPECT_NE(world.call(1, true), nullptr);
}

// On this processor, with this kernel's barriers: the proof in the header, tried.
TEST(OwnedSlabs, BetweenThreadsASlabHasOneUser) {
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
          slab = world.slabs.settle(own, 0, [&] { return world.who(t); }, make, real);
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
