// SPDX-License-Identifier: MIT
//
// guard_slots_test.cc: the slots of guarded blocks, one thread at a time (guard_slots_model.cc has the interleavings).
#include "harden/guard_slots.h"

#include <gtest/gtest.h>

#include "tests/support/test_env.h"

namespace freeway::guard {
namespace {

using test::TestEnv;
using Eight = Slots<TestEnv, 8, 2>;

TEST(SlotWord, EachTransitionKeepsTheStampButTheLast) {
  const u64 idle = slot_word::rested(5);
  EXPECT_TRUE(slot_word::is_idle(idle) && slot_word::was_used(idle));
  EXPECT_FALSE(slot_word::was_used(0));
  const u64 taken = slot_word::taken(idle);
  EXPECT_FALSE(slot_word::is_idle(taken) || slot_word::is_live(taken));
  EXPECT_EQ(slot_word::abandoned(taken), idle);
  const u64 live = slot_word::published(taken);
  EXPECT_TRUE(slot_word::is_live(live));
  const u64 retiring = slot_word::retired(live);
  EXPECT_FALSE(slot_word::is_idle(retiring) || slot_word::is_live(retiring));
  EXPECT_EQ(slot_word::stamp(retiring), 5u);
  EXPECT_GT(slot_word::rested(6), idle);
}

TEST(GuardSlots, SomeAlwaysRest) {
  Eight slots{};
  for (unsigned i = 0; i < 6; ++i) EXPECT_EQ(slots.take(), i);
  EXPECT_EQ(slots.take(), Eight::kNone);
  slots.abandon(3);
  EXPECT_EQ(slots.take(), 3u);
  EXPECT_EQ(slots.counts().taken, 6u);
  EXPECT_EQ(slots.counts().idle, 2u);
}

TEST(GuardSlots, AreUsedInTheOrderInWhichTheyCameToRest) {
  Eight slots{};
  unsigned taken[6];
  for (unsigned& slot : taken) slots.publish(slot = slots.take(), {1, 1, {}});
  for (unsigned i : {4u, 0u, 5u, 2u}) {
    EXPECT_TRUE(slots.retire(i, slots.word(i), {}));
    slots.rest(i);
  }
  for (unsigned expected : {6u, 7u, 4u, 0u}) {  // those that were never used first
    EXPECT_EQ(slots.take(), expected);
  }
}

TEST(GuardSlots, TheSecondFreeOfABlockIsRefused) {
  Eight slots{};
  const unsigned i = slots.take();
  EXPECT_FALSE(slots.retire(i, slots.word(i), {1, 1})) << "not live yet";
  slots.publish(i, {0x1000, 16, {1, 2}});
  EXPECT_TRUE(slots.retire(i, slots.word(i), {3, 4}));
  EXPECT_FALSE(slots.retire(i, slots.word(i), {5, 6}));
  slots.rest(i);
  EXPECT_FALSE(slots.retire(i, slots.word(i), {5, 6}));
  const auto seen = slots.look(i);
  EXPECT_TRUE(seen.stable);
  EXPECT_EQ(seen.birth.address, 0x1000u);
  EXPECT_EQ(seen.birth.by.caller, 1u);
  EXPECT_EQ(seen.death.caller, 3u);
  EXPECT_EQ(seen.death.thread, 4u);
}

TEST(GuardSlots, ASlotInTheHandsOfAThreadThatVanishedIsLostAndNoOther) {
  Eight slots{};
  slots.take();
  for (int round = 0; round < 100; ++round) {
    const unsigned i = slots.take();
    ASSERT_NE(i, 0u);
    ASSERT_NE(i, Eight::kNone);
    slots.publish(i, {1, 1, {}});
    ASSERT_TRUE(slots.retire(i, slots.word(i), {}));
    slots.rest(i);
  }
  EXPECT_EQ(slots.counts().taken, 1u);
}

}  // namespace
}  // namespace freeway::guard
