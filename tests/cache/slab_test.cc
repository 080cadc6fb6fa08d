// SPDX-License-Identifier: MIT
//
// Tests of cache/slab.h: where the magazines lie, and each operation against a plain stack of bounded size; and of
// cache/slots.h: what a slot says of its block.
#include "cache/slab.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "cache/slots.h"
#include "tests/cache/test_slab.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

TEST(Magazines, ShapesAreWhatTheCommentsSay) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const MagazineShape& shape = kMagazines[c];
    const u64 size = kSizeClasses[c].size;
    EXPECT_GE(shape.small, 4u);
    EXPECT_LE(shape.small, 128u);
    EXPECT_TRUE(shape.small * size <= 64 * kKiB || shape.small == 4) << "class " << c;
    EXPECT_GE(shape.big, 4 * shape.small) << "each class can grow";
    EXPECT_LE(shape.big, 8192u);
    EXPECT_LE(shape.big * size, 512 * kKiB) << "class " << c;
  }
  EXPECT_EQ(kMagazines[1].small, 128u);
  EXPECT_EQ(kMagazines[1].big, 8192u);
}

TEST(Magazines, AreasLieApartWithAZeroBelowAndAboveEach) {
  std::map<u64, u64> areas;  // start -> end, bytes from the slab's start
  for (unsigned c = 1; c < kClassCount; ++c) {
    areas[offset_of_small(c)] = offset_of_small(c) + kMagazines[c].small * 8;
    areas[offset_of_big(c)] = offset_of_big(c) + kMagazines[c].big * 8;
  }
  u64 reached = offsetof(Slab, small);
  for (auto [start, end] : areas) {
    EXPECT_GE(start, reached + 8) << "room for a zero below";
    EXPECT_TRUE(start >= offsetof(Slab, small) && end + 8 <= sizeof(Slab));
    EXPECT_TRUE(end + 8 <= offsetof(Slab, big) || start >= offsetof(Slab, big) + 8) << "in one of the two arrays";
    reached = end;
  }
}

TEST(Magazines, TheWordsOfAClassAreItsOwn) {
  for (unsigned c = 0; c + 1 < Slab::kClasses; ++c) {
    EXPECT_EQ(offset_of_current(c + 1), offset_of_current(c) + 8);
    EXPECT_EQ(offset_of_capacity(c + 1), offset_of_capacity(c) + 8);
  }
  EXPECT_GE(offset_of_current(0), Slab::kClasses * 8u);
  EXPECT_GE(offset_of_capacity(0), offset_of_current(0) + Slab::kClasses * 8u);
  EXPECT_GE(Slab::kClasses, kClassCount);
}

TEST(Slots, AFarBlockIsNegativeAndEachSlotLeadsToItsBlock) {
  for (const u64 address : {u64{16}, u64{0x7ffffffffff0}, (u64{1} << 48) - 16, (u64{1} << 56) - 16}) {
    void* const block = reinterpret_cast<void*>(address);
    EXPECT_EQ(slots::of(block, false), address);
    EXPECT_LT(static_cast<i64>(slots::of(block, true)), 0);
    EXPECT_EQ(slots::block_of(slots::of(block, true)), block);
    EXPECT_EQ(slots::block_of(slots::of(block, false)), block);
  }
}

TEST(Slots, ABatchIsTurnedInPlace) {
  void* const blocks[] = {reinterpret_cast<void*>(16), reinterpret_cast<void*>(32), reinterpret_cast<void*>(48)};
  void* slots[] = {blocks[0], blocks[1], blocks[2]};
  slots::to_far(slots, 2);
  EXPECT_EQ(reinterpret_cast<u64>(slots[0]), slots::kFar | 16);
  EXPECT_EQ(reinterpret_cast<u64>(slots[1]), slots::kFar | 32);
  EXPECT_EQ(slots[2], blocks[2]) << "beyond the batch";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(slots::block_of(slots[i]), blocks[i]);
}

class SlabTest : public testing::Test {
 protected:
  TestSlab memory_;
  Slab& slab_ = memory_.slab();
};

TEST_F(SlabTest, AClosedMagazineIsEmptyAndFullAtOnce) {
  for (unsigned c = 0; c < kClassCount; ++c) {
    void* blocks[2] = {};
    EXPECT_EQ(PlainSlab(slab_).pop(c), 0u);
    EXPECT_EQ(PlainSlab(slab_).push(c, 64), 0u);
    EXPECT_EQ(PlainSlab(slab_).pop_batch(c, blocks, 2), 0u);
    EXPECT_EQ(PlainSlab(slab_).push_batch(c, blocks, 2), 0u);
    EXPECT_EQ(PlainSlab(slab_).push_run(c, 64, 64, 2), 0u);
    EXPECT_EQ(slab_.top[c].load_relaxed(), memory_.closed());
  }
}

TEST_F(SlabTest, AnOpenedMagazineHasItsRoomAndIsOpenedOnce) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    EXPECT_EQ(memory_.open(c), 1u);
    EXPECT_EQ(memory_.open(c), 0u);
    EXPECT_EQ(memory_.contents(c), std::vector<u64>());
    EXPECT_EQ(memory_.room(c), kMagazines[c].small);
  }
  // All of them are full, and each still has its own blocks.
  for (unsigned c = 1; c < kClassCount; ++c)
    for (u64 i = 0; i < kMagazines[c].small; ++i) ASSERT_EQ(PlainSlab(slab_).push(c, block(c, i)), 1u);
  for (unsigned c = 1; c < kClassCount; ++c) {
    EXPECT_EQ(PlainSlab(slab_).push(c, 16), 0u) << "full";
    for (u64 i = kMagazines[c].small; i-- > 0;) ASSERT_EQ(PlainSlab(slab_).pop(c), block(c, i));
    EXPECT_EQ(PlainSlab(slab_).pop(c), 0u) << "empty";
  }
}

TEST_F(SlabTest, ABatchIsPushedSoThatItsFirstIsPoppedFirst) {
  memory_.open(9);
  void* in[3] = {reinterpret_cast<void*>(16), reinterpret_cast<void*>(32), reinterpret_cast<void*>(48)};
  EXPECT_EQ(PlainSlab(slab_).push_batch(9, in, 3), 3u);
  EXPECT_EQ(PlainSlab(slab_).pop(9), 16u);
  void* out[5] = {};
  EXPECT_EQ(PlainSlab(slab_).pop_batch(9, out, 5), 2u);
  EXPECT_EQ(out[0], in[1]);
  EXPECT_EQ(out[1], in[2]);
  EXPECT_EQ(out[2], nullptr);
}

TEST_F(SlabTest, WhatLiesOnTopIsNotPushedOnceMore) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    EXPECT_EQ(PlainSlab(slab_).push_once(c, block(c, 0)), 0u) << "closed";
    memory_.open(c);
    ASSERT_EQ(PlainSlab(slab_).push_once(c, block(c, 0)), 1u) << "below the first slot lies nobody's block";
    EXPECT_EQ(PlainSlab(slab_).push_once(c, block(c, 0)), 0u);
    ASSERT_EQ(PlainSlab(slab_).push_once(c, block(c, 1)), 1u);
    EXPECT_EQ(PlainSlab(slab_).push_once(c, block(c, 0)), 1u) << "what lies deeper is not looked for";
    EXPECT_EQ(memory_.contents(c), (std::vector<u64>{block(c, 0), block(c, 1), block(c, 0)}));
    while (PlainSlab(slab_).push_once(c, block(c, 2 + memory_.contents(c).size())) == 1) {}
    EXPECT_EQ(memory_.contents(c).size(), kMagazines[c].small) << "full";
  }
}

// What was popped has left its address in the slot above the top: it may be pushed again.
TEST_F(SlabTest, WhatWasPoppedMayBePushedOnceMore) {
  memory_.open(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(PlainSlab(slab_).push_once(1, 64), 1u);
    ASSERT_EQ(PlainSlab(slab_).pop(1), 64u);
  }
}

TEST_F(SlabTest, ARunIsPushedAsTheBatchOfItsAddresses) {
  for (unsigned c : {1u, 9u, 40u})
    for (unsigned count : {1u, 3u, 5u, 64u, 200u}) {
      TestSlab one, other;
      one.open(c), other.open(c);
      PlainSlab(one.slab()).push(c, 16), PlainSlab(other.slab()).push(c, 16);
      std::vector<void*> run;
      for (u64 i = 0; i < count; ++i) run.push_back(reinterpret_cast<void*>(block(c, i)));
      const u64 size = block(c, 1) - block(c, 0);
      EXPECT_EQ(PlainSlab(one.slab()).push_run(c, block(c, 0), size, count),
                PlainSlab(other.slab()).push_batch(c, run.data(), count));
      EXPECT_EQ(one.contents(c), other.contents(c)) << count << " of class " << c;
      EXPECT_EQ(one.room(c), other.room(c));
    }
}

TEST_F(SlabTest, OfABatchThatDoesNotFitTheFirstOnesAreLeft) {
  const unsigned c = 40;  // four slots
  memory_.open(c);
  void* in[6];
  for (u64 i = 0; i < 6; ++i) in[i] = reinterpret_cast<void*>(block(c, i));
  EXPECT_EQ(PlainSlab(slab_).push_batch(c, in, 6), 4u);
  EXPECT_EQ(memory_.contents(c), (std::vector<u64>{block(c, 5), block(c, 4), block(c, 3), block(c, 2)}));
}

TEST_F(SlabTest, AMovedMagazineHasItsBlocksAndItsNewRoom) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const MagazineShape& shape = kMagazines[c];
    for (u64 filled : {u64{0}, u64{1}, u64{shape.small} - 1, u64{shape.small}}) {
      TestSlab other;
      other.open(c);
      for (u64 i = 0; i < filled; ++i) PlainSlab(other.slab()).push(c, block(c, i));
      const auto before = other.contents(c);
      ASSERT_EQ(other.move(c, shape.small + 3), 1u);
      EXPECT_EQ(other.contents(c), before);
      EXPECT_EQ(other.room(c), shape.small + 3 - filled);
      EXPECT_EQ(other.move(c, shape.small + 3), 0u) << "it does not lie there any more";
    }
  }
}

TEST_F(SlabTest, AMagazineThatIsClosedDoesNotMove) {
  EXPECT_EQ(memory_.move(1, 200), 0u);
  EXPECT_EQ(slab_.top[1].load_relaxed(), memory_.closed());
}

TEST_F(SlabTest, AGrowingMagazineKeepsItsBlocks) {
  for (unsigned c : {1u, 8u, 12u, 20u}) {
    const MagazineShape& shape = kMagazines[c];
    memory_.open(c);
    for (u64 i = 0; i < shape.small; ++i) PlainSlab(slab_).push(c, block(c, i));
    u64 capacity = shape.small + 1;
    ASSERT_EQ(memory_.move(c, capacity), 1u);
    slab_.capacity[c].store_relaxed(capacity);
    while (capacity < shape.big) {
      const u64 step = clamp(shape.big - capacity, 1, 61);
      const auto before = memory_.contents(c);
      ASSERT_EQ(memory_.grow(c, capacity, step), 1u);
      EXPECT_EQ(memory_.contents(c), before);
      EXPECT_EQ(memory_.room(c), capacity + step - before.size());
      ASSERT_EQ(memory_.grow(c, capacity, step), 2u) << "the sentinel has moved, the capacity has not";
      capacity += step;
      slab_.capacity[c].store_relaxed(capacity);
      ASSERT_EQ(memory_.grow(c, capacity - step, step), 0u) << "an old capacity";
      while (PlainSlab(slab_).push(c, block(c, memory_.contents(c).size())) == 1) {}
      EXPECT_EQ(memory_.contents(c).size(), capacity);
    }
  }
}

TEST_F(SlabTest, AClassHasOneCurrentSuperblock) {
  const PlainSlab access(slab_);
  const u64 at = offset_of_current(3);
  EXPECT_EQ(access.take_current(3), 0u);
  EXPECT_TRUE(access.put_current(3, 8));
  EXPECT_FALSE(access.put_current(3, 7));
  EXPECT_FALSE(access.replace(at, 7, 9));
  EXPECT_EQ(slab_.current[3].load_relaxed(), 8u);
  EXPECT_TRUE(access.replace(at, 8, 9));
  EXPECT_EQ(slab_.current[3].load_relaxed(), 9u);
  EXPECT_EQ(access.take_current(3), 9u);
  EXPECT_EQ(access.take_current(3), 0u);
  EXPECT_EQ(slab_.current[2].load_relaxed() + slab_.current[4].load_relaxed(), 0u);
}

TEST_F(SlabTest, RandomOperationsDoWhatABoundedStackDoes) {
  Random random(test_seed());
  struct Oracle {
    std::vector<u64> stack;
    u64 room = 0, grown = 0;  // room for so many; grown: slots in `big`, 0 = not there
  };
  std::vector<Oracle> oracle(kClassCount);
  u64 serial = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto c = static_cast<unsigned>(random.chance(80) ? 1 + random.below(3) : 1 + random.below(kClassCount - 1));
    Oracle& o = oracle[c];
    const MagazineShape& shape = kMagazines[c];
    void* blocks[64];
    const auto count = static_cast<unsigned>(random.below(65));
    switch (random.below(7)) {
      case 0: {
        const u64 got = PlainSlab(slab_).pop(c);
        ASSERT_EQ(got, o.stack.empty() ? 0 : o.stack.back());
        if (got != 0) o.stack.pop_back();
        break;
      }
      case 1: {
        const u64 b = block(c, ++serial);
        ASSERT_EQ(PlainSlab(slab_).push(c, b), o.stack.size() < o.room);
        if (o.stack.size() < o.room) o.stack.push_back(b);
        break;
      }
      case 2: {
        const unsigned n = PlainSlab(slab_).pop_batch(c, blocks, count);
        ASSERT_EQ(n, std::min<u64>(count, o.stack.size()));
        for (unsigned k = 0; k < n; ++k) {
          ASSERT_EQ(reinterpret_cast<u64>(blocks[k]), o.stack.back());
          o.stack.pop_back();
        }
        break;
      }
      case 3: {
        for (unsigned k = 0; k < count; ++k) blocks[k] = reinterpret_cast<void*>(block(c, ++serial));
        const unsigned n = PlainSlab(slab_).push_batch(c, blocks, count);
        ASSERT_EQ(n, std::min<u64>(count, o.room - o.stack.size()));
        for (unsigned k = 0; k < n; ++k) o.stack.push_back(reinterpret_cast<u64>(blocks[count - 1 - k]));
        break;
      }
      case 4:
        ASSERT_EQ(memory_.open(c), o.room == 0);
        if (o.room == 0) o.room = shape.small;
        break;
      case 5: {
        if (!random.chance(2)) break;
        const u64 to = shape.small + 1 + random.below(shape.big - shape.small);
        ASSERT_EQ(memory_.move(c, to), o.room != 0 && o.grown == 0);
        if (o.room == 0 || o.grown != 0) break;
        o.room = o.grown = to;
        slab_.capacity[c].store_relaxed(to);
        break;
      }
      case 6: {
        if (o.grown == 0 || o.grown == shape.big || !random.chance(2)) break;
        const u64 step = 1 + random.below(shape.big - o.grown);
        ASSERT_EQ(memory_.grow(c, o.grown, step), 1u);
        o.room = o.grown += step;
        slab_.capacity[c].store_relaxed(o.grown);
        break;
      }
    }
    if (i % 1000 == 0)
      for (unsigned each = 1; each < kClassCount; ++each) {
        ASSERT_EQ(memory_.contents(each), oracle[each].stack);
        ASSERT_EQ(memory_.room(each), oracle[each].room - oracle[each].stack.size());
      }
  }
}

TEST(PlainSlab, AnswersAsAnAccessMust) {
  TestSlab memory;
  const PlainSlab access(memory.slab());
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

}  // namespace
}  // namespace freeway::test
