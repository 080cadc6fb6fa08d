// SPDX-License-Identifier: MIT
//
// Tests of Algorithms 2 and 4 (HMalloc 2020, Figs. 6 and 9) and of section 3.2's text where it says more:
// VacantObjects, the probe of one block, Index and its wrap, SSL, the flag, the block cache list.
#include "papers/hmalloc/shared_superblock.h"

#include <gtest/gtest.h>

#include <set>

#include "heap_world.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

using test::TestEnv;
using World = HeapWorld<TestEnv>;
using S = PaperSizes;
constexpr std::size_t kHalfMost = kMaxShared;  // two blocks in a superblock of 64 KiB

class SharedTest : public ::testing::Test {
 protected:
  World world;
  World::Heap& heap = *world.heaps.join(world);

  SharedSuperblock<TestEnv, S>& of(uptr block) { return world.shared_of(block); }
  uptr allocate(std::size_t bytes) {
    const uptr block = heap.allocate_shared(bytes);
    EXPECT_NE(block, 0u);
    EXPECT_EQ(world.flag(block), 1u);
    return block;
  }
  // As a thread whose cache list is full.
  void reset(uptr block) { EXPECT_EQ(world.free_shared(nullptr, block), Freed::kYes); }
  // All blocks of the class's first superblock.
  std::vector<uptr> first_superblock(std::size_t bytes) {
    std::vector<uptr> blocks{allocate(bytes)};
    const u32 total = of(blocks[0]).total_objects.get();
    while (blocks.size() < total) blocks.push_back(allocate(bytes));
    return blocks;
  }
};

TEST_F(SharedTest, TheFirstSuperblockOfAClassHas64KiBTheNext4MiB) {
  for (std::size_t bytes : {std::size_t{40}, std::size_t{100}, kMaxShared}) {
    auto blocks = first_superblock(bytes);
    EXPECT_EQ(of(blocks[0]).size.get(), 65536u);
    EXPECT_EQ(of(allocate(bytes)).size.get(), 4194304u);
  }
}

// Fig. 4, lines 10-13, 28-30.
TEST_F(SharedTest, VacantBlocksAreHandedOutInOrder) {
  const uptr first = allocate(40);
  auto& sb = of(first);
  EXPECT_EQ(sb.object_size.get(), 64u);
  EXPECT_EQ(sb.total_objects.get(), (65536 - (sb.start_addr.get() - reinterpret_cast<uptr>(&sb))) / 64);
  EXPECT_EQ(first, sb.start_addr.get() + S::kFlagArea);
  for (u32 n = 1; n < sb.total_objects.get(); ++n) {
    EXPECT_EQ(sb.vacant_objects.get(), sb.total_objects.get() - n);
    const uptr block = allocate(40);
    ASSERT_EQ(block, first + n * 64);
    ASSERT_EQ(block % 16, 0u);
  }
  EXPECT_EQ(sb.vacant_objects.get(), 0u);
  EXPECT_EQ(world.superblocks.size(), 1u);
}

TEST_F(SharedTest, OneSuperblockHasBlocksOfOneSize) {
  EXPECT_EQ(&of(allocate(1)), &of(allocate(48)));
  EXPECT_NE(&of(allocate(48)), &of(allocate(49)));
  EXPECT_EQ(&of(allocate(49)), &of(allocate(112)));
}

// "VacantObjects will not be increased by 1 when a block in the superblock is freed."
TEST_F(SharedTest, AFreedBlockIsNotVacant) {
  const uptr a = allocate(40), b = allocate(40);
  const u32 vacant = of(a).vacant_objects.get();
  reset(b);
  EXPECT_EQ(of(a).vacant_objects.get(), vacant);
  EXPECT_EQ(allocate(40), b + 64);
}

// Line 15 and the text: with VacantObjects 0 the Index-th block, and Index + 1 after it was taken.
TEST_F(SharedTest, TheIndexthBlockIsProbed) {
  auto blocks = first_superblock(1000);
  auto& sb = of(blocks[0]);
  EXPECT_EQ(sb.index.get(), 0u);
  for (u32 i = 0; i < 3; ++i) reset(blocks[i]);
  for (u32 i = 0; i < 3; ++i) {
    EXPECT_EQ(allocate(1000), blocks[i]);
    EXPECT_EQ(sb.index.get(), i + 1);
  }
}

// One block is probed, not all of them: the design's growth.
TEST_F(SharedTest, WithTheIndexthBlockInUseTheSuperblockCountsAsExhausted) {
  auto blocks = first_superblock(1000);
  auto& sb = of(blocks[0]);
  for (std::size_t i = 1; i < blocks.size(); ++i) reset(blocks[i]);
  EXPECT_NE(&of(allocate(1000)), &sb);
  EXPECT_EQ(sb.index.get(), 0u) << "Index stays where it is";
  EXPECT_EQ(world.superblocks.size(), 2u);
}

TEST_F(SharedTest, IndexStartsAgainAtTotalObjects) {
  auto blocks = first_superblock(kHalfMost);
  ASSERT_EQ(blocks.size(), 2u);
  auto& sb = of(blocks[0]);
  for (int round = 0; round < 3; ++round)
    for (u32 i = 0; i < 2; ++i) {
      EXPECT_EQ(sb.index.get(), i);
      reset(blocks[i]);
      EXPECT_EQ(allocate(kHalfMost), blocks[i]);
    }
  EXPECT_EQ(world.superblocks.size(), 1u);
}

// Lines 17-21: SSL is traversed, by one probe each, and what is found becomes current.
TEST_F(SharedTest, ASuperblockOfTheListBecomesCurrentWhenItsIndexthBlockIsFree) {
  auto first = first_superblock(kHalfMost);
  std::vector<uptr> second{allocate(kHalfMost)};
  auto& sb2 = of(second[0]);
  while (second.size() < sb2.total_objects.get()) second.push_back(allocate(kHalfMost));
  reset(first[0]);
  reset(first[1]);
  EXPECT_EQ(allocate(kHalfMost), first[0]);
  EXPECT_EQ(of(first[0]).index.get(), 1u) << "Index moves on for a superblock of the list too";
  EXPECT_EQ(sb2.index.get(), 0u);
  EXPECT_EQ(allocate(kHalfMost), first[1]) << "now the current one";
  reset(second[5]);
  const uptr third = allocate(kHalfMost);
  EXPECT_NE(&of(third), &sb2) << "its Index-th block is in use";
  EXPECT_EQ(world.superblocks.size(), 3u);
}

TEST_F(SharedTest, TheListIsLookedThroughFromTheOldestOn) {
  std::vector<std::vector<uptr>> of_superblock(3);
  for (auto& blocks : of_superblock) {
    blocks.push_back(allocate(kHalfMost));
    while (blocks.size() < of(blocks[0]).total_objects.get()) blocks.push_back(allocate(kHalfMost));
  }
  reset(of_superblock[1][0]);
  reset(of_superblock[0][0]);
  EXPECT_EQ(allocate(kHalfMost), of_superblock[0][0]);
  EXPECT_EQ(allocate(kHalfMost), of_superblock[1][0]);
}

// Algorithm 4 --------------------------------------------------------------------------------------------------------

TEST_F(SharedTest, FreesGoToTheFreeingThreadsListUntilItHas100) {
  World::Heap& other = *world.heaps.join(world);
  std::vector<uptr> blocks;
  for (int i = 0; i < 101; ++i) blocks.push_back(allocate(40));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(world.free_shared(&other, blocks[i]), Freed::kYes);
    EXPECT_EQ(other.cached(0), static_cast<u32>(i + 1));
    EXPECT_NE(world.flag(blocks[i]), 0u) << "cached, so not free to its owner";
  }
  EXPECT_EQ(heap.cached(0), 0u);
  EXPECT_EQ(world.free_shared(&other, blocks[100]), Freed::kYes);
  EXPECT_EQ(other.cached(0), 100u);
  EXPECT_EQ(world.flag(blocks[100]), 0u) << "line 6";
  for (int i = 99; i >= 0; --i) {
    EXPECT_EQ(other.allocate_shared(40), blocks[i]) << "Algorithm 2, lines 6-9";
    EXPECT_EQ(world.flag(blocks[i]), 1u);
  }
  EXPECT_EQ(other.cached(0), 0u);
  EXPECT_EQ(world.superblocks.size(), 1u);
}

TEST_F(SharedTest, TheListComesBeforeTheSuperblock) {
  const uptr a = allocate(40);
  allocate(40);
  EXPECT_EQ(world.free_shared(&heap, a), Freed::kYes);
  EXPECT_EQ(allocate(40), a);
}

TEST_F(SharedTest, EachClassHasItsList) {
  const uptr small = allocate(40), large = allocate(400);
  world.free_shared(&heap, small);
  EXPECT_EQ(heap.cached(0), 1u);
  EXPECT_EQ(heap.cached(size_to_class<S>(shared_size<S>(400))), 0u);
  EXPECT_NE(allocate(400), small);
  world.free_shared(&heap, large);
  EXPECT_EQ(allocate(400), large);
}

// Ours ----------------------------------------------------------------------------------------------------------------

TEST_F(SharedTest, WhatIsNoBlockIsSeen) {
  const uptr a = allocate(200);
  const uptr sb = reinterpret_cast<uptr>(&of(a));
  for (uptr p : {a - 16, a - 1, a + 1, a + 16, a + 48, a + 64, sb, sb + 64, sb + 127})
    EXPECT_EQ(world.free_shared(&heap, p), Freed::kNoBlock) << p - sb;
  for (uptr p : {sb + 65535, sb + 65536 - 16}) EXPECT_EQ(world.free_shared(&heap, p), Freed::kNoBlock) << p - sb;
  EXPECT_EQ(of(a).usable(a), 256 - S::kFlagArea);
  EXPECT_EQ(of(a).usable(a + 16), 0u);
  EXPECT_EQ(world.free_shared(&heap, a), Freed::kYes);
  EXPECT_EQ(world.free_shared(&heap, a), Freed::kTwice) << "in the cache list";
  EXPECT_EQ(of(a).usable(a), 0u);
  EXPECT_EQ(allocate(200), a);
  reset(a);
  EXPECT_EQ(world.free_shared(&heap, a), Freed::kTwice) << "by its flag";
}

TEST_F(SharedTest, EveryAddressFindsItsBlock) {
  for (std::size_t bytes : {40u, 100u, 1000u, 5000u, 32000u}) {
    auto blocks = first_superblock(bytes);
    for (uptr extra = allocate(bytes); blocks.size() < 300; extra = allocate(bytes)) blocks.push_back(extra);
    for (uptr p : blocks)
      for (std::size_t at : {std::size_t{0}, std::size_t{1}, bytes / 2, shared_size<S>(bytes) - 1})
        ASSERT_EQ(of(p).block_of(p - S::kFlagArea + at), p - S::kFlagArea);
  }
}

TEST(SharedReciprocal, DividesEveryOffsetBySizesOfEveryClass) {
  for (u32 object = 1; object <= S::kClasses; ++object) {
    const u64 reciprocal = SharedSuperblock<TestEnv, S>::reciprocal_of(object);
    for (u64 line = 0; line < S::kLater / 64; ++line) ASSERT_EQ((line * reciprocal) >> 32, line / object);
  }
}

TEST_F(SharedTest, AnAlignedBlockIsFreedWhereItWasHandedOut) {
  const uptr a = allocate(1000 + 512);
  const uptr aligned = align_up(a, 512);
  flag_of<TestEnv>(a - S::kFlagArea).store_relaxed(Flag<S>::occupied(aligned - (a - S::kFlagArea)));
  EXPECT_GE(of(a).usable(aligned), 1000u);
  EXPECT_EQ(world.free_shared(&heap, a), aligned == a ? Freed::kYes : Freed::kNoBlock);
  if (aligned != a) { EXPECT_EQ(world.free_shared(&heap, aligned), Freed::kYes); }
  EXPECT_EQ(allocate(1000 + 512), a);
  EXPECT_EQ(world.flag(a), 1u);
}

TEST_F(SharedTest, RefusedMemoryLeavesEverythingUsable) {
  auto blocks = first_superblock(kHalfMost);
  test::kernel().refuse_all(true);
  EXPECT_EQ(heap.allocate_shared(kHalfMost), 0u);
  EXPECT_EQ(heap.allocate_shared(kHalfMost), 0u);
  reset(blocks[0]);
  EXPECT_EQ(allocate(kHalfMost), blocks[0]);
  test::kernel().refuse_all(false);
  EXPECT_NE(allocate(kHalfMost), 0u);
}

TEST_F(SharedTest, Where4MiBAreRefused64KiBDo) {
  auto blocks = first_superblock(kHalfMost);
  test::kernel().refuse_over(kMiB);
  EXPECT_EQ(of(allocate(kHalfMost)).size.get(), S::kFirst);
  test::kernel().refuse_nothing();
}

TEST_F(SharedTest, TrimGivesBackWhatIsEmptyAndEmptiesTheCacheLists) {
  World::Heap& other = *world.heaps.join(world);
  auto blocks = first_superblock(kHalfMost);
  blocks.push_back(allocate(kHalfMost));  // another superblock
  world.free_shared(&other, blocks[0]);
  world.free_shared(&heap, blocks[1]);
  heap.empty_caches();
  EXPECT_EQ(heap.cached(size_to_class<S>(shared_size<S>(kHalfMost))), 0u);
  EXPECT_EQ(heap.trim(), 0u) << "the other heap's list has a block";
  other.empty_caches();
  EXPECT_EQ(other.trim(), 0u) << "its list's block is free now, and not of its superblock";
  EXPECT_EQ(heap.trim(), S::kFirst);
  reset(blocks[2]);
  EXPECT_EQ(heap.trim(), S::kLater);
  EXPECT_EQ(world.superblocks.size(), 0u);
  EXPECT_EQ(of(allocate(kHalfMost)).size.get(), S::kFirst);
}

TEST_F(SharedTest, TrimPurgesWholePagesWithoutABlockInUse) {
  std::vector<uptr> blocks = first_superblock(40), more;
  while (blocks.size() < 20000) blocks.push_back(allocate(40));
  for (uptr p : blocks) memset(reinterpret_cast<void*>(p), 0x77, 40);
  std::vector<uptr> kept;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    if (i % 1000 == 0) kept.push_back(blocks[i]);
    else reset(blocks[i]);
  }
  EXPECT_EQ(heap.trim(), 0u);
  EXPECT_EQ(world.superblocks.size(), 2u);
  const std::size_t purged = world.purged;
  heap.trim();
  EXPECT_EQ(world.purged, purged) << "nothing has changed";
  EXPECT_GE(purged, S::kFirst + S::kLater - (2 * kept.size() + 4) * 4096);
  for (uptr p : kept) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(p);
    for (int i = 0; i < 40; ++i) ASSERT_EQ(bytes[i], 0x77);
    ASSERT_EQ(world.flag(p), 1u);
  }
  std::set<uptr> all(kept.begin(), kept.end());
  for (int i = 0; i < 60000; ++i) ASSERT_TRUE(all.insert(allocate(40)).second) << "a block is handed out once";
}

}  // namespace
}  // namespace freeway::hmalloc
