// SPDX-License-Identifier: MIT
//
// The two words of a superblock (local_word.h, remote_word.h): every move from every state of a small superblock, and
// the widths at the largest one.
#include <gtest/gtest.h>

#include "papers/lfmalloc/superblock.h"

namespace freeway::lfmalloc {
namespace {

constexpr u32 kMostUnits = 4095;

TEST(LocalWord, FieldsDoNotTouchEachOther) {
  const u64 full = local::opened(local::with_list(0, kMostUnits, kMostUnits), kClassCount - 1) | ~u64{0} << 30;
  EXPECT_EQ(local::head(full), kMostUnits);
  EXPECT_EQ(local::count(full), kMostUnits);
  EXPECT_TRUE(local::is_open_for(full, kClassCount - 1));
  EXPECT_FALSE(local::is_open_for(full, 0));
  EXPECT_EQ(local::gate(local::shut(full)), 0U);
  EXPECT_EQ(local::count(local::shut(full)), kMostUnits);
  EXPECT_EQ(local::head(local::shut(full)), kMostUnits) << "the tag wraps around without touching the list";
}

TEST(LocalWord, PopUndoesPushAndOnlyCasMovesTheTag) {
  for (const u32 count : {0U, 1U, 7U, 4094U})
    for (const u32 head : {1U, 2U, kMostUnits})
      for (const u64 tag : {u64{0}, local::kTagOne * 5, ~u64{0} << 30}) {
        const u64 w = local::opened(local::with_list(tag, head, count), 9);
        const u64 pushed = local::pushed(w, 77);
        EXPECT_EQ(local::head(pushed), 77U);
        EXPECT_EQ(local::count(pushed), count + 1);
        EXPECT_EQ(pushed >> 24, w >> 24);
        EXPECT_EQ(local::popped(pushed, head), w);
        EXPECT_EQ(local::popped_by_cas(pushed, head), w + local::kTagOne);
        // A link that is no link any more (its block was taken and written to) does not reach beyond the head.
        EXPECT_EQ(local::popped(pushed, u64{0xdead} << 40 | head), w);
      }
}

// A superblock of `blocks` blocks off line, by what is in its lists.
u64 off_line(u32 blocks, u32 local, u32 count) {
  const u64 held = remote::make(remote::kHeld, 0, count != 0, count);
  return remote::let_go(held, blocks, local).word;
}

TEST(RemoteWord, LettingGoSaysWhereItBelongs) {
  for (u32 blocks = 2; blocks <= 5; ++blocks)
    for (u32 local = 0; local <= blocks; ++local)
      for (u32 count = 0; count + local <= blocks; ++count) {
        const remote::Next next = remote::let_go(remote::make(remote::kHeld, 0, count != 0, count), blocks, local);
        const u32 free = local + count;
        const remote::State expected = free == blocks ? remote::kNone : free == 0 ? remote::kFull : remote::kListed;
        EXPECT_EQ(remote::state(next.word), expected);
        EXPECT_EQ(next.duty, free == blocks ? remote::Duty::kSettle
                             : free == 0    ? remote::Duty::kNothing
                                            : remote::Duty::kList);
        if (free == blocks) continue;
        EXPECT_EQ(remote::missing(next.word), blocks - local);
        EXPECT_EQ(remote::count(next.word), count);
      }
}

TEST(RemoteWord, EachFreeHasTheDutyOfItsStateOnce) {
  for (u32 blocks = 2; blocks <= 5; ++blocks)
    for (u32 local = 0; local < blocks; ++local)
      for (u32 count = 0; count + local < blocks; ++count) {
        u64 w = off_line(blocks, local, count);
        int listed = remote::state(w) == remote::kListed, settled = 0;
        for (u32 in_use = blocks - local - count; in_use > 0; --in_use) {
          const remote::Next next = remote::freed(w, 10 + in_use);
          listed += next.duty == remote::Duty::kList;
          settled += next.duty == remote::Duty::kSettle;
          w = next.word;
          if (in_use == 1) break;
          EXPECT_EQ(remote::head(w), 10 + in_use);
        }
        EXPECT_EQ(listed, 1) << "listed once, when it went off line or with its first free block";
        EXPECT_EQ(settled, 1) << "settled by the last free";
        EXPECT_EQ(w, 0U);
      }
}

TEST(RemoteWord, WhileHeldFreesHaveNoDutyAndTakingTakesAll) {
  u64 w = remote::make(remote::kHeld, 0, 0, 0);
  for (u32 i = 1; i <= kMostUnits; ++i) {
    const remote::Next next = remote::freed(w, i);
    ASSERT_EQ(next.duty, remote::Duty::kNothing);
    ASSERT_EQ(remote::state(next.word), remote::kHeld);
    ASSERT_EQ(remote::count(next.word), i);
    w = next.word;
  }
  EXPECT_EQ(remote::taken(off_line(5, 1, 2)), remote::make(remote::kHeld, 0, 0, 0));
  EXPECT_EQ(remote::taken(0), 0U) << "a tombstone stays one";
  EXPECT_EQ(remote::state(remote::kKept), remote::kNone);
}

TEST(Superblock, BlocksAreNamedByTheirOffset) {
  const uptr base = 0x7f1200340000;
  for (const BlockClass& k : kClasses)
    for (u32 i = 0; i < k.blocks; ++i) {
      const uptr block = base + kFirstData + u64{i} * k.stride;
      ASSERT_NE(unit_of(block), 0U);
      ASSERT_EQ(block_at(base, unit_of(block)), block);
    }
}

}  // namespace
}  // namespace freeway::lfmalloc
