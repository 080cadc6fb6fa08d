// SPDX-License-Identifier: MIT
//
// Tests of Algorithms 1 and 3 (HMalloc 2020, Figs. 5 and 8): the bump pointer, coalescence free, LSL, the limits; and
// of what is ours: a block freed twice or in its middle is seen, and frees that had to wait are made up for.
#include "papers/hmalloc/local_superblock.h"

#include <gtest/gtest.h>

#include <set>

#include "heap_world.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

using test::TestEnv;
using World = HeapWorld<TestEnv>;
using S = PaperSizes;

class LocalTest : public ::testing::Test {
 protected:
  World world;
  World::Heap& heap = *world.heaps.join(world);
  LocalSuperblock<TestEnv, S>& of(uptr block) { return *world.local_of(block); }
};

TEST_F(LocalTest, TheFirstSuperblockHas64KiBTheNext4MiB) {
  const uptr first = heap.allocate_local(100);
  ASSERT_EQ(world.superblocks.size(), 1u);
  EXPECT_EQ(of(first).size.get(), 65536u);
  uptr block = first;
  while (world.superblocks.size() == 1) block = heap.allocate_local(1000);
  EXPECT_EQ(of(block).size.get(), 4194304u);
  while (world.superblocks.size() == 2) block = heap.allocate_local(32000);
  EXPECT_EQ(of(block).size.get(), 4194304u);
}

// Lines 4-7.
TEST_F(LocalTest, BlocksLieOneBehindTheOtherWithoutHeaders) {
  const uptr a = heap.allocate_local(1), b = heap.allocate_local(17), c = heap.allocate_local(400);
  EXPECT_EQ(b, a + 16);
  EXPECT_EQ(c, b + 32);
  EXPECT_EQ(of(a).current_addr.load_relaxed(), c + 400);
  EXPECT_EQ(of(a).allocated_num.get(), 3u);
  EXPECT_EQ(of(a).freed_num.get(), 0u);
  for (uptr p : {a, b, c}) EXPECT_EQ(p % 16, 0u);
}

// Line 4 asks for more than sz: a superblock's last byte is never handed out.
TEST_F(LocalTest, ABlockMustBeSmallerThanWhatIsLeft) {
  const uptr first = heap.allocate_local(16);
  auto& sb = of(first);
  while (sb.available_space() > 8192) heap.allocate_local(4096);
  const std::size_t left = sb.available_space();
  heap.allocate_local(left - 16);
  EXPECT_EQ(world.superblocks.size(), 1u);
  EXPECT_EQ(sb.available_space(), 16u);
  EXPECT_NE(&of(heap.allocate_local(16)), &sb);
  EXPECT_EQ(world.superblocks.size(), 2u);
}

// Lines 3 and 17: half of the current superblock.
TEST_F(LocalTest, HalfOfTheCurrentSuperblockGoesToTheOS) {
  EXPECT_EQ(heap.allocate_local(32768 - 15), 0u);
  EXPECT_EQ(world.superblocks.size(), 0u);
  const uptr largest = heap.allocate_local(32768 - 16);
  EXPECT_NE(largest, 0u);
  EXPECT_EQ(heap.allocate_local(32768), 0u) << "though a superblock of 4 MiB would hold it";
  const uptr other = heap.allocate_local(32768 - 16);
  EXPECT_EQ(of(other).size.get(), S::kLater);
  EXPECT_NE(heap.allocate_local(32768), 0u);
  EXPECT_NE(heap.allocate_local(kMaxLocal), 0u);
  EXPECT_EQ(heap.allocate_local(kMaxLocal + 1), 0u);
}

// Algorithm 3, lines 5-9.
TEST_F(LocalTest, WhenAllAreFreedTheSuperblockStartsAgain) {
  uptr blocks[10];
  for (uptr& p : blocks) p = heap.allocate_local(100);
  auto& sb = of(blocks[0]);
  for (int i = 9; i > 0; --i) {
    EXPECT_EQ(world.free_local(blocks[i]), Freed::kYes);
    EXPECT_EQ(sb.freed_num.get(), static_cast<u32>(10 - i));
    EXPECT_EQ(sb.allocated_num.get(), 10u);
  }
  EXPECT_EQ(heap.allocate_local(100), blocks[9] + 112) << "a freed block is not used again by itself";
  EXPECT_EQ(world.free_local(blocks[9] + 112), Freed::kYes);
  EXPECT_EQ(world.free_local(blocks[0]), Freed::kYes);
  EXPECT_EQ(sb.allocated_num.get(), 0u);
  EXPECT_EQ(sb.freed_num.get(), 0u);
  EXPECT_EQ(sb.current_addr.load_relaxed(), sb.start_addr.get());
  EXPECT_EQ(heap.allocate_local(100), blocks[0]);
}

// Lines 9-10: an exhausted superblock is found again in LSL once it was cleared, the oldest first.
TEST_F(LocalTest, ClearedSuperblocksAreFoundInTheList) {
  std::vector<uptr> blocks;
  while (world.superblocks.size() < 4) blocks.push_back(heap.allocate_local(20000));
  for (uptr p : blocks)
    if (&of(p) != &of(blocks.back())) { EXPECT_EQ(world.free_local(p), Freed::kYes); }
  std::set<void*> seen;
  while (world.superblocks.size() < 5) seen.insert(&of(heap.allocate_local(20000)));
  EXPECT_EQ(seen.size(), 5u) << "the current one, the three cleared ones, then a new one";
}

TEST_F(LocalTest, ASuperblockWithOneLiveBlockIsNotFound) {
  std::vector<uptr> blocks;
  while (world.superblocks.size() < 2) blocks.push_back(heap.allocate_local(20000));
  const uptr kept = blocks[0];
  auto& first = of(kept);
  for (uptr p : blocks)
    if (p != kept) { EXPECT_EQ(world.free_local(p), Freed::kYes); }
  for (int i = 0; i < 1000; ++i) EXPECT_NE(&of(heap.allocate_local(20000)), &first);
  EXPECT_EQ(first.live_blocks(), 1u);
}

TEST_F(LocalTest, RefusedMemoryLeavesEverythingUsable) {
  std::vector<uptr> blocks;
  while (world.superblocks.size() < 2) blocks.push_back(heap.allocate_local(20000));
  test::kernel().refuse_all(true);
  int more = 0;
  while (heap.allocate_local(20000) != 0) ++more;
  EXPECT_GT(more, 100);
  EXPECT_EQ(heap.allocate_local(20000), 0u);
  test::kernel().refuse_nothing();
  test::kernel().refuse_all(false);
  for (uptr p : blocks) EXPECT_EQ(world.free_local(p), Freed::kYes);
  EXPECT_NE(heap.allocate_local(20000), 0u);
}

TEST_F(LocalTest, Where4MiBAreRefused64KiBDo) {
  heap.allocate_local(20000);
  test::kernel().refuse_over(kMiB);
  while (world.superblocks.size() < 3) ASSERT_NE(heap.allocate_local(20000), 0u);
  test::kernel().refuse_nothing();
  for (auto& [address, kind] : world.superblocks) EXPECT_EQ(kind, Kind::kLocalFirst);
}

// Ours ----------------------------------------------------------------------------------------------------------------

TEST_F(LocalTest, ABlockFreedTwiceIsSeenAndNothingIsCleared) {
  const uptr a = heap.allocate_local(100), b = heap.allocate_local(100);
  EXPECT_EQ(world.free_local(a), Freed::kYes);
  EXPECT_EQ(world.free_local(a), Freed::kTwice);
  EXPECT_EQ(world.free_local(b + 16), Freed::kTwice) << "what was a block once is not remembered";
  EXPECT_EQ(world.free_local(b + 8), Freed::kNoBlock);
  EXPECT_EQ(world.free_local(b + 112), Freed::kNoBlock) << "not handed out yet";
  EXPECT_EQ(of(b).live_blocks(), 1u);
  EXPECT_EQ(world.free_local(b), Freed::kYes);
  EXPECT_EQ(of(b).allocated_num.get(), 0u);
}

TEST_F(LocalTest, UsableBytesReachToTheNextLiveBlock) {
  const uptr a = heap.allocate_local(100), b = heap.allocate_local(2000), c = heap.allocate_local(1);
  EXPECT_EQ(of(a).usable(a), 112u);
  EXPECT_EQ(of(b).usable(b), 2000u);
  EXPECT_EQ(of(c).usable(c), 16u);
  world.free_local(b);
  EXPECT_EQ(of(a).usable(a), 2112u) << "b comes back with a only";
  world.free_local(c);
  EXPECT_EQ(of(a).usable(a), 2128u);
}

TEST_F(LocalTest, UsableBytesOfManySizes) {
  test::Random random(test::test_seed());
  struct Block {
    uptr at;
    std::size_t bytes;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t bytes = 1 + random.below(random.chance(10) ? 30000 : 300);
    blocks.push_back({heap.allocate_local(bytes), bytes});
    ASSERT_NE(blocks.back().at, 0u);
  }
  for (auto& each : blocks) ASSERT_EQ(of(each.at).usable(each.at), local_size<S>(each.bytes));
}

TEST_F(LocalTest, AnAlignedBlockStartsFurtherUp) {
  heap.allocate_local(16);
  const uptr whole = heap.allocate_local(1000 + 512);
  const uptr aligned = align_up(whole + 1, 512);
  of(whole).move_start(whole, aligned);
  EXPECT_FALSE(of(whole).is_live(whole));
  EXPECT_GE(of(aligned).usable(aligned), 1000u);
  EXPECT_EQ(world.free_local(aligned), Freed::kYes);
  EXPECT_EQ(of(whole).live_blocks(), 1u);
}

TEST_F(LocalTest, FreesThatCameLateAreMadeUpForWhenTheSuperblockIsExhausted) {
  uptr a = heap.allocate_local(30000), b = heap.allocate_local(30000);
  heap.free_late(a);
  heap.free_late(b);
  EXPECT_EQ(of(a).live_blocks(), 2u);
  EXPECT_EQ(heap.allocate_local(30000), a) << "exhausted, cleared, and found again";
  EXPECT_EQ(world.superblocks.size(), 1u);
}

TEST_F(LocalTest, ABlockFreedLateTwiceIsSeen) {
  const uptr a = heap.allocate_local(100), b = heap.allocate_local(100);
  heap.free_late(b);
  heap.free_late(a);
  heap.free_late(a);
  EXPECT_FALSE(heap.drain_late());
  EXPECT_EQ(world.late_faults, 1);
  EXPECT_EQ(of(b).live_blocks(), 1u) << "what the ring hides stays: here b";
  EXPECT_TRUE(heap.drain_late());
}

TEST_F(LocalTest, AHandlersLateFreeDoesNotGetLostBetweenTheSteps) {
  const uptr a = heap.allocate_local(100), b = heap.allocate_local(100), c = heap.allocate_local(100);
  TestEnv::at_step("hmalloc.late", [&] { heap.free_late(b); });
  heap.free_late(a);
  EXPECT_FALSE(TestEnv::step_left());
  EXPECT_TRUE(heap.drain_late());
  EXPECT_EQ(of(c).live_blocks(), 1u);
}

TEST_F(LocalTest, TrimGivesBackWhatIsEmpty) {
  std::vector<uptr> blocks;
  while (world.superblocks.size() < 4) blocks.push_back(heap.allocate_local(20000));
  for (std::size_t i = 1; i < blocks.size(); ++i) world.free_local(blocks[i]);
  EXPECT_EQ(heap.trim(), 3 * S::kLater) << "the first still has a block";
  EXPECT_EQ(world.superblocks.size(), 1u);
  world.free_local(blocks[0]);
  EXPECT_EQ(heap.trim(), S::kFirst);
  EXPECT_EQ(world.superblocks.size(), 0u);
  EXPECT_EQ(of(heap.allocate_local(1)).size.get(), S::kFirst);
}

}  // namespace
}  // namespace freeway::hmalloc
