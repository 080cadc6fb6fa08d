// SPDX-License-Identifier: MIT
//
// Tests of pages/large.h: blocks of frames and huge blocks: sizes, zeros, growing and shrinking where they are, moving,
// double frees, and each of the kernel's refusals in turn.
#include "pages/large.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/pages/large_world.h"
#include "tests/support/random.h"

namespace freeway {
namespace {

using test::Call;
using test::kChunks;
using test::kernel;
using test::kHuge;
using test::kLift;
using test::kNow;
using test::Large;
using test::LargeWorld;
using test::Random;
using test::TestEnv;

class LargeTest : public testing::Test {
 protected:
  void SetUp() override { make(); }
  void TearDown() override { kernel().reset(); }

  void make() {
    kernel().reset();
    make_layers();
  }
  void make_layers() { world_ = std::make_unique<LargeWorld>(kChunks); }
  Large& large() { return world_->large; }
  Frames<TestEnv>& frames() { return world_->frames; }
  PageMap<TestEnv>& map() { return world_->map; }
  FrameInfo info(uptr block) { return map().get(block); }
  std::size_t size(uptr block) { return info(block).value() * kFrameSize; }
  bool give(uptr block) { return large().give(block, info(block), kNow); }
  uptr move(uptr block, std::size_t bytes) { return large().move(block, info(block), bytes, kNow); }
  bool resize(uptr block, std::size_t bytes) { return large().resize(block, info(block), bytes, kNow); }

  // A new address may need a new leaf of the map, which stays.
  std::size_t mapped_without_leaves() { return kernel().mapped_bytes() - map().leaf_bytes(); }

  static void write(uptr block, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kFrameSize) *reinterpret_cast<u64*>(block + at) = block + at;
  }
  static void rewrite_moved(uptr block, uptr old, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += kFrameSize)
      ASSERT_EQ(*reinterpret_cast<u64*>(block + at), old + at) << "contents after " << at << " bytes";
  }

 private:
  std::unique_ptr<LargeWorld> world_;
};

TEST_F(LargeTest, ABlockHasTheFramesThatItNeedsAndNoMore) {
  for (std::size_t bytes : {std::size_t{1}, kFrameSize - 1, kFrameSize, kFrameSize + 1, 3 * kMiB, 5 * kMiB + 1}) {
    const auto block = large().take(bytes, 1);
    ASSERT_NE(block.address, 0u);
    EXPECT_TRUE(block.zero);
    EXPECT_EQ(info(block.address).kind(), FrameInfo::kLarge);
    EXPECT_EQ(size(block.address), ceil_div(bytes, kFrameSize) * kFrameSize);
    EXPECT_EQ(frames().policy().live(), ceil_div(bytes, kFrameSize));
    EXPECT_TRUE(give(block.address));
    EXPECT_EQ(frames().policy().live(), 0u);
    frames().purge_to(0);
  }
}

TEST_F(LargeTest, AlignmentIsKeptForSmallAndHugeBlocks) {
  for (std::size_t alignment = 1; alignment <= 4 * kGiB; alignment *= 4)
    for (std::size_t bytes : {std::size_t{100}, 5 * kMiB, kHuge}) {
      const auto block = large().take(bytes, alignment);
      ASSERT_NE(block.address, 0u) << bytes << " aligned to " << alignment;
      EXPECT_EQ(block.address % alignment, 0u);
      EXPECT_EQ(block.address % kFrameSize, 0u);
      EXPECT_TRUE(give(block.address));
    }
}

TEST_F(LargeTest, WhatNoAddressSpaceHoldsIsRefusedWithoutAskingTheKernel) {
  const auto before = kernel().calls(Call::kMap) + kernel().calls(Call::kReserve);
  EXPECT_EQ(large().take(PTRDIFF_MAX, 1).address, 0u);
  EXPECT_EQ(large().take((kMaxFrames + 1) * kFrameSize, 1).address, 0u);
  EXPECT_EQ(large().take(1, std::size_t{1} << 47).address, 0u);
  EXPECT_EQ(large().take(kHuge, std::size_t{1} << 62).address, 0u);
  EXPECT_EQ(kernel().calls(Call::kMap) + kernel().calls(Call::kReserve), before);
}

TEST_F(LargeTest, OnlyMemoryThatIsZeroIsSaidToBe) {
  Random random(test::test_seed());
  std::vector<uptr> blocks;
  for (int i = 0; i < 2000; ++i) {
    if (blocks.size() < 10 && random.chance(60)) {
      const std::size_t bytes = 1 + random.below(2 * kMiB);
      const auto block = large().take(bytes, 1);
      if (block.address == 0) continue;
      if (block.zero) { ASSERT_TRUE(test::is_zero(block.address, size(block.address))); }
      memset(reinterpret_cast<void*>(block.address), 0xff, size(block.address));
      blocks.push_back(block.address);
    } else if (!blocks.empty()) {
      const std::size_t which = random.below(blocks.size());
      ASSERT_TRUE(give(blocks[which]));
      blocks.erase(blocks.begin() + static_cast<long>(which));
    }
    if (random.chance(5)) frames().purge_to(random.below(30));
  }
}

TEST_F(LargeTest, ADoubleFreeIsSeenAndChangesNothing) {
  for (std::size_t bytes : {100 * kKiB, kHuge}) {
    const uptr block = large().take(bytes, 1).address;
    const FrameInfo was = info(block);
    EXPECT_TRUE(large().give(block, was, kNow));
    const auto before = kernel().ranges();
    EXPECT_FALSE(large().give(block, was, kNow));
    EXPECT_EQ(kernel().ranges(), before);
    EXPECT_EQ(frames().policy().live(), 0u);
  }
}

TEST_F(LargeTest, OfTwoThreadsThatFreeABlockOneDoes) {
  const uptr block = large().take(100 * kKiB, 1).address;
  const FrameInfo was = info(block);
  TestEnv::at_step("large.claimed", [&] { EXPECT_FALSE(large().give(block, was, kNow)); });
  EXPECT_TRUE(large().give(block, was, kNow));
}

TEST_F(LargeTest, ABlockShrinksAndGrowsWhereItIs) {
  const uptr block = large().take(10 * kFrameSize, 1).address;
  write(block, 10 * kFrameSize);
  EXPECT_TRUE(resize(block, 10 * kFrameSize - 5)) << "the same frames";
  EXPECT_EQ(size(block), 10 * kFrameSize);
  EXPECT_TRUE(resize(block, 3 * kFrameSize));
  EXPECT_EQ(size(block), 3 * kFrameSize);
  EXPECT_EQ(frames().policy().live(), 3u);
  EXPECT_TRUE(resize(block, 200 * kFrameSize));
  EXPECT_EQ(size(block), 200 * kFrameSize);
  EXPECT_EQ(frames().policy().live(), 200u);
  rewrite_moved(block, block, 3 * kFrameSize);
  write(block, 200 * kFrameSize);
  EXPECT_TRUE(give(block));
  EXPECT_EQ(frames().policy().live(), 0u);
}

TEST_F(LargeTest, ABlockWithANeighbourDoesNotGrow) {
  const uptr block = large().take(2 * kFrameSize, 1).address;
  const uptr neighbour = large().take(kFrameSize, 1).address;
  ASSERT_EQ(neighbour, block + 2 * kFrameSize);
  EXPECT_FALSE(resize(block, 3 * kFrameSize));
  EXPECT_EQ(size(block), 2 * kFrameSize);
  EXPECT_EQ(frames().policy().live(), 3u);
  EXPECT_TRUE(give(neighbour));
  EXPECT_TRUE(resize(block, 3 * kFrameSize));
}

// Two reservations often lie side by side; a block at the end of one arena must not grow into the other, since its
// frames are given back to one arena only.
TEST_F(LargeTest, ABlockDoesNotGrowIntoTheArenaBehindItsOwn) {
  kernel().reset();
  kernel().pack(4 * kGiB);
  make_layers();
  const std::size_t primary = kChunks * kChunkFrames;
  const uptr block = large().take(primary * kFrameSize, 1).address;
  ASSERT_EQ(block, frames().primary().base());
  // The arenas behind it; one of them begins where the primary ends, or the test says nothing.
  const uptr other = large().take(kFrameSize, 1).address;
  ASSERT_EQ(other, block + primary * kFrameSize);
  ASSERT_TRUE(give(other));
  EXPECT_FALSE(resize(block, (primary + 1) * kFrameSize));
  EXPECT_EQ(size(block), primary * kFrameSize);
  EXPECT_TRUE(give(block));
  EXPECT_EQ(frames().policy().live(), 0u);
}

TEST_F(LargeTest, ABlockThatIsFreedWhileItGrowsGivesTheNewFramesBack) {
  const uptr block = large().take(2 * kFrameSize, 1).address;
  const FrameInfo was = info(block);
  TestEnv::at_step("large.extended", [&] { EXPECT_TRUE(large().give(block, was, kNow)); });
  EXPECT_FALSE(large().resize(block, was, 9 * kFrameSize, kNow));
  EXPECT_EQ(frames().policy().live(), 0u);
}

TEST_F(LargeTest, AHugeBlockIsAMappingOfItsOwn) {
  const auto block = large().take(kHuge + 1, 1);
  ASSERT_NE(block.address, 0u);
  EXPECT_TRUE(block.zero);
  EXPECT_EQ(info(block.address).kind(), FrameInfo::kHuge);
  EXPECT_EQ(size(block.address), kHuge + kFrameSize);
  EXPECT_EQ(large().huge_bytes(), kHuge + kFrameSize);
  EXPECT_EQ(large().huge_count(), 1u);
  EXPECT_EQ(frames().policy().live(), 0u);
  const std::size_t with = mapped_without_leaves();
  EXPECT_TRUE(give(block.address));
  EXPECT_EQ(mapped_without_leaves(), with - kHuge - kFrameSize);
  EXPECT_EQ(large().huge_bytes(), 0u);
  EXPECT_EQ(large().huge_count(), 0u);
}

TEST_F(LargeTest, AHugeBlockShrinksAndGrowsInPlaceWhereTheKernelLetsIt) {
  const uptr block = large().take(2 * kHuge, 1).address;
  write(block, kHuge);
  EXPECT_TRUE(resize(block, kHuge));
  EXPECT_EQ(size(block), kHuge);
  EXPECT_EQ(large().huge_bytes(), kHuge);
  rewrite_moved(block, block, kHuge);
  kernel().refuse(Call::kResize);
  EXPECT_FALSE(resize(block, kHuge + kFrameSize));
  EXPECT_EQ(size(block), kHuge) << "it is as it was";
  EXPECT_EQ(large().huge_bytes(), kHuge);
  EXPECT_TRUE(resize(block, kHuge - kFrameSize)) << "no reason to copy it";
  EXPECT_EQ(info(block).kind(), FrameInfo::kHuge);
  EXPECT_FALSE(resize(block, kLift - kFrameSize)) << "but then it is a run again";
  EXPECT_EQ(size(block), kHuge - kFrameSize);
  EXPECT_TRUE(give(block));
}

TEST_F(LargeTest, ALargeBlockDoesNotGrowIntoAHugeOne) {
  const uptr block = large().take(kMiB, 1).address;
  EXPECT_FALSE(resize(block, kHuge));
  EXPECT_EQ(size(block), kMiB);
  EXPECT_FALSE(resize(block, PTRDIFF_MAX));
}

TEST_F(LargeTest, AHugeBlockMovesWithItsContents) {
  const uptr block = large().take(kHuge, 1).address;
  write(block, kHuge);
  const std::size_t before = mapped_without_leaves();
  const uptr moved = move(block, 2 * kHuge);
  ASSERT_NE(moved, 0u);
  rewrite_moved(moved, block, kHuge);
  EXPECT_TRUE(test::is_zero(moved + kHuge, kFrameSize));
  EXPECT_EQ(size(moved), 2 * kHuge);
  EXPECT_EQ(info(block).kind(), FrameInfo::kNothing);
  EXPECT_EQ(large().huge_bytes(), 2 * kHuge);
  EXPECT_EQ(large().huge_count(), 1u);
  EXPECT_EQ(mapped_without_leaves(), before + kHuge);
  EXPECT_TRUE(give(moved));
  EXPECT_EQ(large().huge_bytes(), 0u);
}

TEST_F(LargeTest, AMoveThatIsRefusedAtAnyCallLeavesTheBlockAsItWas) {
  int refusals = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    make();
    const uptr block = large().take(kHuge, 1).address;
    write(block, kHuge);
    const FrameInfo was = info(block);
    const std::size_t before = mapped_without_leaves();
    kernel().refuse_any(nth);
    const uptr moved = large().move(block, was, 2 * kHuge, kNow);
    kernel().refuse_nothing();
    if (kernel().refused() == 0) break;
    ++refusals;
    ASSERT_EQ(moved, 0u) << "call " << nth;
    EXPECT_EQ(mapped_without_leaves(), before) << "call " << nth;
    EXPECT_EQ(info(block).bits, was.bits);
    EXPECT_EQ(large().huge_bytes(), kHuge);
    rewrite_moved(block, block, kHuge);
    EXPECT_TRUE(give(block));
  }
  EXPECT_GE(refusals, 2) << "reserve and move";
}

TEST_F(LargeTest, AMoveOfABlockThatIsFreedMeanwhileLosesNothing) {
  const uptr block = large().take(kHuge, 1).address;
  const FrameInfo was = info(block);
  EXPECT_TRUE(large().give(block, was, kNow));
  const std::size_t before = mapped_without_leaves();
  EXPECT_EQ(large().move(block, was, 2 * kHuge, kNow), 0u);
  EXPECT_EQ(mapped_without_leaves(), before);
}

// --- Runs whose pages move. ------------------------------------------------------------------------------------------

TEST_F(LargeTest, ALongRunThatIsInItsNeighboursWayMovesItsPagesAndLeavesZeros) {
  const uptr block = large().take(kLift, 1).address;
  const uptr neighbour = large().take(kFrameSize, 1).address;
  ASSERT_EQ(neighbour, block + kLift);
  write(block, kLift);
  ASSERT_FALSE(resize(block, 2 * kLift));
  const uptr moved = move(block, 2 * kLift);
  ASSERT_NE(moved, 0u);
  rewrite_moved(moved, block, kLift);
  EXPECT_TRUE(test::is_zero(moved + kLift, kLift));
  EXPECT_EQ(info(moved).kind(), FrameInfo::kHuge);
  EXPECT_EQ(size(moved), 2 * kLift);
  EXPECT_EQ(info(block).kind(), FrameInfo::kNothing);
  EXPECT_EQ(large().huge_bytes(), 2 * kLift);
  EXPECT_EQ(large().huge_count(), 1u);
  EXPECT_EQ(frames().policy().live(), 1u) << "the neighbour";
  EXPECT_EQ(frames().policy().dirty(), 0u) << "their memory went along";
  const auto again = large().take(kLift, 1);
  EXPECT_EQ(again.address, block);
  EXPECT_TRUE(again.zero && test::is_zero(block, kLift));
  EXPECT_TRUE(give(moved));
  EXPECT_EQ(large().huge_bytes(), 0u);
}

TEST_F(LargeTest, AShortRunIsLeftToBeCopied) {
  const uptr block = large().take(kLift - kFrameSize, 1).address;
  const auto before = kernel().ranges();
  EXPECT_EQ(move(block, 2 * kLift), 0u);
  EXPECT_EQ(kernel().ranges(), before);
  EXPECT_EQ(size(block), kLift - kFrameSize);
}

TEST_F(LargeTest, ARunGrowsIntoAHugeBlockWithoutACopy) {
  const uptr block = large().take(kHuge - kFrameSize, 1).address;
  write(block, kHuge - kFrameSize);
  ASSERT_FALSE(resize(block, kHuge));
  const uptr moved = move(block, kHuge);
  ASSERT_NE(moved, 0u);
  rewrite_moved(moved, block, kHuge - kFrameSize);
  EXPECT_EQ(kernel().calls(Call::kPurge), 0u) << "nothing was carried";
  EXPECT_TRUE(give(moved));
}

TEST_F(LargeTest, WhatWasLiftedShrinksWhereItIsUntilItIsShort) {
  const uptr block = large().take(2 * kLift, 1).address;
  write(block, 2 * kLift);
  const uptr moved = move(block, 3 * kLift);
  ASSERT_NE(moved, 0u);
  EXPECT_TRUE(resize(moved, kLift));
  EXPECT_EQ(size(moved), kLift);
  EXPECT_EQ(large().huge_bytes(), kLift);
  rewrite_moved(moved, block, kLift);
  EXPECT_FALSE(resize(moved, kLift - kFrameSize)) << "a run again, by a copy";
  EXPECT_TRUE(give(moved));
}

TEST_F(LargeTest, DirtyFramesMakeRoomForWhatIsLifted) {
  const uptr block = large().take(kLift, 1).address;
  const uptr left = large().take(40 * kFrameSize, 1).address;
  write(left, 40 * kFrameSize);
  const uptr neighbour = large().take(kFrameSize, 1).address;
  ASSERT_TRUE(give(left));
  ASSERT_EQ(frames().policy().dirty(), 40u);
  ASSERT_NE(move(block, 2 * kLift), 0u);
  EXPECT_EQ(frames().policy().dirty(), 0u);
  EXPECT_TRUE(give(neighbour));
}

// Each call is refused, alone and with all that follow.
TEST_F(LargeTest, ALiftThatIsRefusedAtAnyCallLosesNothing) {
  int refusals = 0, moves = 0;
  for (const bool all : {false, true})
    for (std::uint64_t nth = 1;; ++nth) {
      make();
      const uptr block = large().take(kLift, 1).address, neighbour = large().take(kFrameSize, 1).address;
      write(block, kLift);
      const FrameInfo was = info(block);
      const std::size_t before = mapped_without_leaves();
      kernel().refuse_any(nth);
      if (all)
        for (const Call each : {Call::kMove, Call::kResize}) kernel().refuse_from_now_on(each);
      const uptr moved = large().move(block, was, 2 * kLift, kNow);
      kernel().refuse_nothing();
      if (kernel().refused() == (all ? 2u : 0u)) break;
      ++refusals;
      rewrite_moved(moved != 0 ? moved : block, block, kLift);
      EXPECT_EQ(frames().policy().live(), moved != 0 ? 1u : kLift / kFrameSize + 1) << "call " << nth;
      EXPECT_EQ(large().huge_bytes(), moved != 0 ? 2 * kLift : 0) << "call " << nth;
      if (moved != 0) ++moves;
      if (moved == 0) { EXPECT_EQ(info(block).bits, was.bits) << "call " << nth; }
      EXPECT_TRUE(give(moved != 0 ? moved : block));
      EXPECT_TRUE(give(neighbour));
      large().release_kept();
      EXPECT_LE(mapped_without_leaves(), before + 2 * kLift)
          << "call " << nth << ": address space, at the mapping limit";
    }
  EXPECT_GE(refusals, 8);
  EXPECT_GE(moves, 1) << "that which cannot grow where it is moves once more";
}

TEST_F(LargeTest, WhatCannotGrowOnceItWasLiftedComesBack) {
  const uptr block = large().take(kLift + 3 * kFrameSize, 1).address;
  write(block, kLift + 3 * kFrameSize);
  const FrameInfo was = info(block);
  const std::size_t before = mapped_without_leaves();
  kernel().refuse_from_now_on(Call::kMove);
  kernel().refuse_from_now_on(Call::kResize);
  EXPECT_EQ(move(block, 2 * kLift), 0u);
  rewrite_moved(block, block, kLift + 3 * kFrameSize);
  EXPECT_EQ(info(block).bits, was.bits);
  EXPECT_EQ(large().huge_count(), 0u);
  EXPECT_EQ(large().huge_bytes(), 0u);
  EXPECT_EQ(frames().policy().live(), was.value());
  EXPECT_EQ(mapped_without_leaves(), before);
}

TEST_F(LargeTest, ALiftOfABlockThatIsFreedMeanwhileLosesNothing) {
  const uptr block = large().take(kLift, 1).address;
  const FrameInfo was = info(block);
  const std::size_t before = mapped_without_leaves();
  TestEnv::at_step("large.target", [&] { EXPECT_TRUE(large().give(block, was, kNow)); });
  EXPECT_EQ(large().move(block, was, 2 * kLift, kNow), 0u);
  EXPECT_EQ(mapped_without_leaves(), before);
  EXPECT_EQ(frames().policy().live(), 0u);
  EXPECT_EQ(large().huge_count(), 0u);
}

TEST_F(LargeTest, WhatIsCarriedLeavesItsMemoryBehind) {
  const std::size_t bytes = 10 * kMiB + 100;
  const uptr from = kernel().map(11 * kMiB, kFrameSize), to = kernel().map(11 * kMiB, kFrameSize);
  write(from, bytes);
  large().carry(from, to, bytes);
  rewrite_moved(to, from, bytes);
  EXPECT_LE(kernel().resident(from, 11 * kMiB), 2 * kMiB + kFrameSize);
}

TEST_F(LargeTest, ABlockIsNewUntilItsFramesHaveBeenFreedOnce) {
  const std::size_t bytes = 6 * kMiB;
  const uptr block = large().take(bytes, 1).address;
  EXPECT_TRUE(large().is_new(block, bytes));
  EXPECT_FALSE(large().is_new(block, 2 * kMiB)) << "too short to be carried";
  ASSERT_TRUE(large().give(block, info(block), 0)) << "at once: no purge is due";
  const uptr again = large().take(bytes, 1).address;
  ASSERT_EQ(again, block);
  EXPECT_FALSE(large().is_new(again, bytes));
  const uptr huge = large().take(kHuge, 1).address;
  EXPECT_TRUE(large().is_new(huge, bytes));
}

TEST_F(LargeTest, AHugeBlockThatCannotBeUnmappedGivesItsMemoryBackAndGoesLater) {
  const std::size_t before = kernel().mapped_bytes();
  const uptr blocks[] = {large().take(kHuge, 1).address, large().take(kHuge, 1).address,
                         large().take(kHuge, 1).address};
  const std::size_t leaves = map().leaf_bytes();
  for (const uptr block : blocks) write(block, kHuge);
  kernel().refuse_from_now_on(Call::kRelease);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(give(blocks[i]));
    EXPECT_EQ(kernel().calls(Call::kPurge), static_cast<std::uint64_t>(i) + 1);
    EXPECT_TRUE(test::is_zero(blocks[i] + kFrameSize, kMiB));
    EXPECT_EQ(info(blocks[i]).kind(), FrameInfo::kNothing);
  }
  const auto tries = kernel().calls(Call::kRelease);
  large().release_kept();
  EXPECT_EQ(kernel().calls(Call::kRelease), tries + 1) << "one refusal is enough";
  EXPECT_EQ(kernel().mapped_bytes(), before + leaves + 3 * kHuge);
  kernel().refuse_nothing();
  EXPECT_TRUE(give(blocks[2])) << "takes the others along";
  EXPECT_EQ(kernel().mapped_bytes(), before + leaves);
}

TEST_F(LargeTest, AHugeBlockThatCannotBeCutStaysAsLongAsItIs) {
  const uptr block = large().take(2 * kHuge, 1).address;
  write(block, 2 * kHuge);
  kernel().refuse(Call::kResize);
  EXPECT_TRUE(resize(block, kHuge));
  EXPECT_EQ(size(block), 2 * kHuge);
  EXPECT_EQ(large().huge_bytes(), 2 * kHuge);
  rewrite_moved(block, block, kHuge);
  EXPECT_TRUE(test::is_zero(block + kHuge, kMiB)) << "the memory behind goes";
  EXPECT_TRUE(give(block));
  EXPECT_EQ(large().huge_bytes(), 0u);
}

TEST_F(LargeTest, AnyRefusedCallOfTakingLosesNothing) {
  for (std::size_t bytes : {std::size_t{70000}, 40 * kMiB, kHuge}) {
    for (std::uint64_t nth = 1;; ++nth) {
      make();
      const std::size_t before = mapped_without_leaves();
      kernel().refuse_any(nth);
      const auto block = large().take(bytes, 1);
      kernel().refuse_nothing();
      if (kernel().refused() == 0) break;
      if (block.address == 0) {
        EXPECT_EQ(frames().policy().live(), 0u) << bytes << " call " << nth;
        EXPECT_EQ(large().huge_bytes(), 0u);
        if (bytes >= kHuge) { EXPECT_EQ(mapped_without_leaves(), before); }
      }
      const auto again = large().take(bytes, 1);
      ASSERT_NE(again.address, 0u);
      EXPECT_TRUE(give(again.address));
    }
  }
}

TEST_F(LargeTest, AThreadThatStopsLosesItsBlockAndNoMore) {
  for (const char* step : {"large.taken", "large.claimed", "large.extended", "large.mapped", "large.moving",
                           "large.lifting", "large.lifted", "large.grown", "large.lowered"}) {
    make();
    if (step == std::string("large.lowered")) kernel().refuse_from_now_on(Call::kMove);
    if (step == std::string("large.lowered")) kernel().refuse_from_now_on(Call::kResize);
    ASSERT_TRUE(test::ended_at(step, [&] {
      const uptr block = large().take(3 * kFrameSize, 1).address;
      resize(block, 5 * kFrameSize);
      give(block);
      const uptr huge = large().take(kHuge, 1).address;
      move(huge, 2 * kHuge);
      move(large().take(kLift, 1).address, 2 * kLift);
    })) << step;
    kernel().refuse_nothing();
    EXPECT_LE(frames().policy().live(), kLift / kFrameSize) << step;
    EXPECT_LE(mapped_without_leaves(), kChunks * kChunkSize + 3 * kHuge) << step;
    for (std::size_t bytes : {kFrameSize, 300 * kFrameSize, kHuge}) {
      const uptr block = large().take(bytes, 1).address;
      ASSERT_NE(block, 0u) << step;
      EXPECT_TRUE(give(block)) << step;
    }
  }
}

}  // namespace
}  // namespace freeway
