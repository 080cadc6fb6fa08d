// SPDX-License-Identifier: MIT
//
// Tests of heap/cell.h, heap/strip.h and heap/shapes.h: each move from each kind of state, runs of items against a plain search,
// and that slices fit what they are for.
#include "heap/cell.h"

#include <gtest/gtest.h>

#include "differential/random.h"
#include "heap/shapes.h"

namespace freeway {
namespace {

using test::Random;

TEST(Cell, WhoFreesTheFirstItemListsIt) {
  for (unsigned item = 0; item < cell::kItems; ++item) {
    const u64 bit = u64{1} << item;
    const cell::Next first = cell::freed(0, bit);
    EXPECT_EQ(first.word, bit | cell::kListed);
    EXPECT_EQ(first.duty, cell::Duty::kList);
    for (const u64 state : {cell::kHeld, cell::kListed}) {
      const cell::Next other = cell::freed(state, bit);
      EXPECT_EQ(other.word, state | bit);
      EXPECT_EQ(other.duty, cell::Duty::kNone);
    }
  }
}

TEST(Cell, OneIsHeldOrListedOrNeither) {
  Random random(test::test_seed());
  for (int i = 0; i < 20000; ++i) {
    u64 word = cell::born(1 + static_cast<unsigned>(random.below(cell::kItems)));
    for (int moves = 0; moves < 20; ++moves) {
      const u64 items = random.next() & cell::kFree & ~word;
      switch (random.below(4)) {
        case 0: word = cell::freed(word, items).word; break;
        case 1: word = cell::is_listed(word) ? cell::popped(word) : word; break;
        case 2: word = cell::is_held(word) ? cell::taken(word, cell::free_of(word) & random.next()) : word; break;
        default: word = cell::is_held(word) ? cell::let_go(word).word : word; break;
      }
      ASSERT_FALSE(cell::is_held(word) && cell::is_listed(word));
      ASSERT_TRUE(cell::is_held(word) || cell::is_listed(word) || cell::free_of(word) == 0 || items == 0);
    }
  }
}

TEST(Cell, LettingGoListsWhatHasFreeItems) {
  EXPECT_EQ(cell::let_go(cell::kHeld).word, 0u);
  EXPECT_EQ(cell::let_go(cell::kHeld).duty, cell::Duty::kNone);
  EXPECT_EQ(cell::let_go(cell::kHeld | 5).word, cell::kListed | 5);
  EXPECT_EQ(cell::let_go(cell::kHeld | 5).duty, cell::Duty::kList);
}

TEST(Cell, WholeIsWhereEveryItemIsFree) {
  for (unsigned items = 1; items <= cell::kItems; ++items) {
    EXPECT_TRUE(cell::is_whole(cell::born(items), items));
    for (unsigned item = 0; item < items; ++item)
      EXPECT_FALSE(cell::is_whole(cell::taken(cell::born(items), u64{1} << item), items));
  }
}

u64 run_by_hand(u64 free, unsigned count, unsigned step) {
  for (unsigned first = 0; first + count <= cell::kItems; ++first)
    if (first % step == 0 && (free >> first & low_bits(count)) == low_bits(count)) return low_bits(count) << first;
  return 0;
}

TEST(Cell, RunsAreTheLowestThatFit) {
  Random random(test::test_seed());
  for (int i = 0; i < 50000; ++i) {
    const u64 free = (random.next() | (random.chance(50) ? random.next() : 0)) & cell::kFree;
    const auto count = static_cast<unsigned>(1 + random.below(random.chance(50) ? 6 : cell::kItems));
    const unsigned step = 1u << random.below(6);
    ASSERT_EQ(cell::run(free, count, step), run_by_hand(free, count, step)) << free << " " << count << " " << step;
  }
  EXPECT_EQ(cell::run(cell::kFree, cell::kItems), cell::kFree);
  EXPECT_EQ(cell::run(cell::kFree, cell::kItems, 32), cell::kFree);
}

// How many granules a strip has, and how many of them are marked, beside its word.
TEST(Strip, WhoMakesAQuarterFreeListsIt) {
  constexpr u64 kLength = 100;
  const u64 closed = strip::closed(strip::born(), kLength).word;
  EXPECT_FALSE(cell::is_listed(closed));
  u64 word = closed;
  for (u64 marked = 1; marked <= kLength; ++marked) {
    const cell::Next next = strip::marked(word, 1);
    EXPECT_EQ(next.duty, marked == kLength / 4 ? cell::Duty::kList : cell::Duty::kNone) << marked;
    word = next.word;
    EXPECT_EQ(strip::marked_of(word), marked);
    EXPECT_EQ(strip::length_of(word), kLength);
    EXPECT_EQ(strip::is_whole(word), marked == kLength);
  }
}

TEST(Strip, NobodyListsOneThatIsOpen) {
  u64 word = strip::born();
  for (int i = 0; i < 50; ++i) {
    const cell::Next next = strip::marked(word, 2);
    EXPECT_EQ(next.duty, cell::Duty::kNone);
    EXPECT_FALSE(strip::is_whole(next.word));
    word = next.word;
  }
  EXPECT_EQ(strip::closed(word, 200).duty, cell::Duty::kList);
  EXPECT_EQ(strip::closed(word, 1000).duty, cell::Duty::kNone);
  EXPECT_EQ(strip::closed(word, 100).duty, cell::Duty::kRetire);
  EXPECT_EQ(strip::closed(strip::born(), 0).duty, cell::Duty::kRetire) << "that had no blocks";
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
      } else if (cell::is_listed(word)) {
        word = cell::popped(word);
        const u64 taken = random.below(marked);
        word = strip::taken(word, taken);
        marked -= taken;
        const cell::Next next = strip::let_go(word);
        ASSERT_EQ(next.duty == cell::Duty::kRetire, marked == length);
        if (next.duty == cell::Duty::kRetire) break;
        word = next.word;
      }
      ASSERT_EQ(strip::marked_of(word), marked);
      ASSERT_EQ(strip::length_of(word), length);
      ASSERT_EQ(cell::is_listed(word), strip::is_worth_it(word));
      ASSERT_FALSE(cell::is_held(word));
    }
  }
}

TEST(Strip, FitIntoRegions) {
  unsigned units = 0;
  for (u32 number = 0; number < heap::kMostStrips; ++number) {
    units += heap::units_of_strip(number);
    EXPECT_LE(heap::units_of_strip(number), heap::kUnits);
    if (units >= heap::kUnits) units = 0;
  }
  EXPECT_EQ(units, 0u) << "the last region is not full";
  for (unsigned c = 1; c < kClassCount; ++c) EXPECT_EQ(heap::has_strips(c), kSizeClasses[c].size <= 2 * kKiB);
}

TEST(Shapes, EachSliceFitsARegionAndWastesLittle) {
  unsigned of_all = 0;
  for (unsigned c = 1; c < kClassCount; ++c) {
    const heap::Shape shape = heap::kShapes[c];
    EXPECT_GE(shape.next, shape.first) << c;
    EXPECT_LE(shape.next, 32u) << c;
    for (const unsigned units : {unsigned{shape.first}, unsigned{shape.next}}) {
      const u32 blocks = heap::blocks_in(c, units);
      EXPECT_GE(blocks, 1u);
      EXPECT_LE(blocks, cell::kItems);
      EXPECT_LE(u64{blocks} * kSizeClasses[c].size, units * heap::kUnitSize);
      EXPECT_GE(u64{blocks} * kSizeClasses[c].size * 8, units * heap::kUnitSize * 5) << c;
    }
    if (kSizeClasses[c].size <= 1024) of_all += shape.first;
  }
  EXPECT_LE(of_all, heap::kUnits) << "a first slice of each class up to 1 KiB fits into one region";
}

}  // namespace
}  // namespace freeway
