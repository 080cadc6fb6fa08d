// SPDX-License-Identifier: MIT
//
// Tests of heap/strip.h: each move from each kind of state; and of heap/heap_slab.h: which sizes strips have.
#include "heap/strip.h"

#include <gtest/gtest.h>

#include "heap/heap_slab.h"
#include "tests/support/random.h"

namespace freeway {
namespace {

using test::Random;

TEST(Strip, WhoMakesAQuarterFreeListsIt) {
  constexpr u64 kLength = 100;
  const u64 closed = strip::closed(strip::born(), kLength).word;
  EXPECT_FALSE(strip::is_listed(closed));
  u64 word = closed;
  for (u64 marked = 1; marked <= kLength; ++marked) {
    const strip::Next next = strip::marked(word, 1);
    EXPECT_EQ(next.duty, marked == kLength / 4 ? strip::Duty::kList : strip::Duty::kNone) << marked;
    word = next.word;
    EXPECT_EQ(strip::marked_of(word), marked);
    EXPECT_EQ(strip::length_of(word), kLength);
    EXPECT_EQ(strip::is_whole(word), marked == kLength);
  }
}

TEST(Strip, NobodyListsOneThatIsOpen) {
  u64 word = strip::born();
  for (int i = 0; i < 50; ++i) {
    const strip::Next next = strip::marked(word, 2);
    EXPECT_EQ(next.duty, strip::Duty::kNone);
    EXPECT_FALSE(strip::is_whole(next.word));
    word = next.word;
  }
  EXPECT_EQ(strip::closed(word, 200).duty, strip::Duty::kList);
  EXPECT_EQ(strip::closed(word, 1000).duty, strip::Duty::kNone);
  EXPECT_EQ(strip::closed(word, 100).duty, strip::Duty::kRetire);
  EXPECT_EQ(strip::closed(strip::born(), 0).duty, strip::Duty::kRetire) << "that had no blocks";
}

TEST(Strip, AListedOneIsWorthLookingThrough) {
  Random random(test::test_seed());
  for (int i = 0; i < 20000; ++i) {
    const u64 length = 4 + random.below(strip::kCount - 3);
    u64 word = strip::closed(strip::born(), length).word, marked = 0;
    for (int moves = 0; moves < 20; ++moves) {
      if (random.chance(50) && marked < length) {
        const u64 more = 1 + random.below(length - marked);
        word = strip::marked(word, more).word;
        marked += more;
      } else if (strip::is_listed(word)) {
        word = strip::popped(word);
        const u64 taken = random.below(marked);
        word = strip::taken(word, taken);
        marked -= taken;
        const strip::Next next = strip::let_go(word);
        ASSERT_EQ(next.duty == strip::Duty::kRetire, marked == length);
        if (next.duty == strip::Duty::kRetire) break;
        word = next.word;
      }
      ASSERT_EQ(strip::marked_of(word), marked);
      ASSERT_EQ(strip::length_of(word), length);
      ASSERT_EQ(strip::is_listed(word), strip::is_worth_it(word));
      ASSERT_FALSE(strip::is_held(word));
    }
  }
}

TEST(Strip, TheWordHoldsAWholeFrame) {
  constexpr u64 kAll = kFrameSize / strip::kGranule;
  const u64 word = strip::closed(strip::born(), kAll).word;
  EXPECT_EQ(strip::length_of(word), kAll);
  EXPECT_EQ(strip::marked_of(strip::marked(word, kAll).word), kAll);
  EXPECT_TRUE(strip::is_whole(strip::marked(word, kAll).word));
}

TEST(HeapSlab, ItsWordsAreASlabsAndItsStripLiesBehind) {
  EXPECT_GE(heap::kStripBase, offsetof(Slab, big));
  for (unsigned c = 1; c < kClassCount; ++c) {
    EXPECT_LE(heap::HeapShapes::offset_of_small(c) + heap::HeapShapes::small(c) * 8, offsetof(Slab, big)) << c;
    EXPECT_EQ(heap::HeapShapes::big(c), heap::HeapShapes::small(c)) << c;
  }
}

}  // namespace
}  // namespace freeway
