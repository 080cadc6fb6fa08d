// SPDX-License-Identifier: MIT
//
// Tests of pages/guarded_ends.h with pages/large.h: the last page of each block is inaccessible while the block lives,
// whatever becomes of it, and no page that is handed out ever is.
#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <vector>

#include "tests/pages/large_world.h"
#include "tests/support/random.h"

namespace freeway {
namespace {

using test::Call;
using test::ended_at;
using test::kChunks;
using test::kernel;
using test::kHuge;
using test::kLift;
using test::kNow;
using test::Large;
using test::LargeWorld;
using test::Random;
using test::TestEnv;

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

class LargeGuardedTest : public testing::Test {
 protected:
  void SetUp() override { make(); }
  void TearDown() override { kernel().reset(); }
  void make(std::size_t guard = page(), std::size_t chunks = kChunks) {
    kernel().reset();
    world_ = std::make_unique<LargeWorld>(chunks);
    large().guard_ends(guard);
  }
  Large& large() { return world_->large; }
  Frames<TestEnv>& frames() { return world_->frames; }
  FrameInfo info(uptr block) { return world_->map.get(block); }
  std::size_t usable(uptr block) { return large().bytes_of(info(block)); }
  bool give(uptr block) { return large().give(block, info(block), kNow); }
  uptr move(uptr block, std::size_t bytes) { return large().move(block, info(block), bytes, kNow); }
  bool resize(uptr block, std::size_t bytes) { return large().resize(block, info(block), bytes, kNow); }

  // All of the block is the program's but its last page, which nobody can touch.
  void expect_guarded(uptr block, std::size_t bytes) {
    const std::size_t all = info(block).frames() * kFrameSize;
    EXPECT_EQ(usable(block), all - page());
    EXPECT_GE(usable(block), bytes);
    EXPECT_LT(usable(block), bytes + kFrameSize) << "no frame more than needed";
    EXPECT_TRUE(kernel().is_accessible(block, usable(block)));
    EXPECT_FALSE(kernel().is_accessible(block + usable(block), page()));
  }
  // Every frame that can be had, where memory has been, is accessible.
  void expect_free_frames_open() {
    frames().each_arena([](Arena<TestEnv>& arena) {
      for (std::size_t f = 0; f < arena.committed() / kFrameSize; ++f) {
        const bool used = (arena.used_word(f / kChunkFrames) >> (f % kChunkFrames) & 1) != 0;
        EXPECT_TRUE(used || kernel().is_accessible(arena.base() + f * kFrameSize, kFrameSize)) << "frame " << f;
      }
      return true;
    });
  }

 private:
  std::unique_ptr<LargeWorld> world_;
};

TEST_F(LargeGuardedTest, ABlockEndsWithAPageThatNobodyCanTouch) {
  for (const std::size_t bytes : {std::size_t{1}, kFrameSize - page(), kFrameSize - page() + 1, kFrameSize, 100 * kKiB,
                                  3 * kMiB, kHuge - page(), kHuge}) {
    const auto block = large().take(bytes, 1);
    ASSERT_NE(block.address, 0u);
    expect_guarded(block.address, bytes);
    EXPECT_TRUE(block.zero && test::is_zero(block.address, clamp(usable(block.address), 1, kMiB)));
    EXPECT_EQ(large().guarded_count(), 1u);
    EXPECT_TRUE(give(block.address));
    EXPECT_EQ(large().guarded_count(), 0u);
    expect_free_frames_open();
    frames().purge_to(0);
  }
}

TEST_F(LargeGuardedTest, BlocksTakenBeforeHaveNoneAndGetNone) {
  make(0);
  const uptr early = large().take(100 * kKiB, 1).address;
  large().guard_ends(page());
  EXPECT_EQ(usable(early), 2 * kFrameSize);
  EXPECT_TRUE(resize(early, 3 * kFrameSize));
  EXPECT_EQ(usable(early), 3 * kFrameSize);
  EXPECT_TRUE(kernel().is_accessible(early, usable(early)));
  EXPECT_TRUE(give(early));
  EXPECT_EQ(kernel().calls(Call::kForbid), 0u);
  EXPECT_EQ(large().guarded_count(), 0u);
}

TEST_F(LargeGuardedTest, APageMayBeAFrame) {
  make(kFrameSize);
  const uptr block = large().take(kFrameSize, 1).address;
  EXPECT_EQ(info(block).frames(), 2u);
  EXPECT_EQ(usable(block), kFrameSize);
  EXPECT_FALSE(kernel().is_accessible(block + kFrameSize, kFrameSize));
  EXPECT_TRUE(resize(block, 3 * kFrameSize));
  EXPECT_EQ(usable(block), 3 * kFrameSize);
  EXPECT_TRUE(give(block));
  expect_free_frames_open();
}

TEST_F(LargeGuardedTest, AlignmentIsKept) {
  for (std::size_t alignment = 1; alignment <= 4 * kGiB; alignment *= 4)
    for (const std::size_t bytes : {std::size_t{100}, kFrameSize, 5 * kMiB, kHuge}) {
      const uptr block = large().take(bytes, alignment).address;
      ASSERT_NE(block, 0u) << bytes << " aligned to " << alignment;
      EXPECT_EQ(block % alignment, 0u);
      expect_guarded(block, bytes);
      EXPECT_TRUE(give(block));
    }
}

TEST_F(LargeGuardedTest, TheGuardGoesWithTheEndWhereItIs) {
  for (const std::size_t first : {kFrameSize, 5 * kMiB, kHuge + kMiB}) {
    const uptr block = large().take(first, 1).address;
    memset(reinterpret_cast<void*>(block), 0x5a, kFrameSize);
    for (const std::size_t bytes : {first + 3 * kFrameSize, first, first + kFrameSize, first / 2}) {
      if (first > kHuge && bytes > first) continue;  // there may be no room
      ASSERT_TRUE(resize(block, bytes)) << first << " to " << bytes;
      expect_guarded(block, bytes);
      EXPECT_EQ(*reinterpret_cast<unsigned char*>(block + kFrameSize / 2 - 1), 0x5a);
    }
    expect_free_frames_open();
    EXPECT_TRUE(give(block));
    expect_free_frames_open();
  }
}

TEST_F(LargeGuardedTest, TheGuardGoesWithABlockThatMoves) {
  for (const std::size_t first : {kLift, kLift + kMiB, kHuge}) {
    const uptr block = large().take(first, 1).address;
    memset(reinterpret_cast<void*>(block), 0x5a, usable(block));
    const std::size_t old_usable = usable(block);
    const uptr moved = move(block, 2 * first);
    ASSERT_NE(moved, 0u) << first;
    expect_guarded(moved, 2 * first);
    EXPECT_EQ(*reinterpret_cast<unsigned char*>(moved + old_usable - 1), 0x5a);
    expect_free_frames_open();
    EXPECT_TRUE(give(moved));
    EXPECT_EQ(large().guarded_count(), 0u);
  }
}

TEST_F(LargeGuardedTest, WhereAMoveIsRefusedTheBlockIsAsItWas) {
  for (const std::size_t first : {kLift, kHuge})
    for (u64 nth = 1; nth < 20; ++nth) {
      make();
      const uptr block = large().take(first, 1).address;
      memset(reinterpret_cast<void*>(block + usable(block) - page()), 0x5a, page());
      const std::size_t last = usable(block) - 1;
      kernel().refuse_any(nth);
      const uptr moved = move(block, 2 * first);
      kernel().refuse_nothing();
      const uptr now = moved == 0 ? block : moved;
      EXPECT_EQ(usable(now) + page(), info(now).frames() * kFrameSize);
      EXPECT_TRUE(kernel().is_accessible(now, usable(now)));
      EXPECT_EQ(*reinterpret_cast<unsigned char*>(now + last), 0x5a) << nth;
      EXPECT_TRUE(give(now));
      expect_free_frames_open();
    }
}

TEST_F(LargeGuardedTest, WhereThePageCannotBeClosedTheBlockIsUnguarded) {
  kernel().refuse_from_now_on(Call::kForbid);
  for (const std::size_t bytes : {100 * kKiB, kHuge}) {
    const uptr block = large().take(bytes, 1).address;
    ASSERT_NE(block, 0u);
    EXPECT_EQ(usable(block), info(block).frames() * kFrameSize - page());
    EXPECT_TRUE(kernel().is_accessible(block, info(block).frames() * kFrameSize));
    EXPECT_TRUE(give(block));
  }
  EXPECT_EQ(large().guarded_count(), 0u);
}

TEST_F(LargeGuardedTest, WhereThePageCannotBeOpenedItsFrameWaits) {
  const uptr block = large().take(3 * kFrameSize, 1).address;
  ASSERT_EQ(info(block).frames(), 4u);
  kernel().refuse_from_now_on(Call::kCommit);
  EXPECT_FALSE(resize(block, kFrameSize));
  EXPECT_EQ(info(block).frames(), 4u) << "it is as it was";
  EXPECT_TRUE(give(block));
  EXPECT_EQ(frames().policy().live(), 1u) << "the other frames are free";
  large().release_kept();
  EXPECT_EQ(frames().policy().live(), 1u) << "it is still refused";
  kernel().refuse_nothing();
  expect_free_frames_open();
  EXPECT_TRUE(give(large().take(kFrameSize / 2, 1).address));  // the next block
  EXPECT_EQ(frames().policy().live(), 0u);
  expect_free_frames_open();
}

TEST_F(LargeGuardedTest, ADoubleFreeIsSeenAndChangesNothing) {
  const uptr block = large().take(100 * kKiB, 1).address;
  const FrameInfo was = info(block);
  EXPECT_TRUE(give(block));
  const uptr other = large().take(200 * kKiB, 1).address;
  ASSERT_EQ(other, block);
  EXPECT_FALSE(large().give(block, was, kNow));
  EXPECT_FALSE(large().resize(block, was, kFrameSize / 2, kNow));
  EXPECT_FALSE(large().resize(block, was, 3 * kFrameSize, kNow));
  expect_guarded(other, 200 * kKiB);
  EXPECT_EQ(large().guarded_count(), 1u);
}

TEST_F(LargeGuardedTest, NotMoreBlocksThanTheLimitHaveAGuard) {
  constexpr std::size_t kMost = GuardedEnds<TestEnv>::kMost;
  make(page(), ceil_div(kMost + 10, kChunkFrames));
  std::vector<uptr> blocks;
  for (std::size_t i = 0; i < kMost; ++i) blocks.push_back(large().take(kFrameSize / 2, 1).address);
  expect_guarded(blocks.back(), kFrameSize / 2);
  const uptr one_more = large().take(kFrameSize, 1).address;
  EXPECT_EQ(usable(one_more), kFrameSize) << "and it has all of its frame";
  EXPECT_TRUE(give(one_more));
  EXPECT_TRUE(give(blocks.back()));
  blocks.back() = large().take(kFrameSize / 2, 1).address;
  expect_guarded(blocks.back(), kFrameSize / 2);
  for (const uptr block : blocks) EXPECT_TRUE(give(block));
  EXPECT_EQ(large().guarded_count(), 0u);
}

// A thread that ends anywhere leaves no closed page among the frames that others get.
TEST_F(LargeGuardedTest, AThreadThatEndsAnywhereLeavesNoClosedPageToOthers) {
  for (const char* step : {"ends.closing", "ends.closed", "ends.opening", "ends.opened", "large.claimed",
                           "ends.extended", "ends.resized", "large.lifting", "large.lifted", "large.grown",
                           "large.resizing", "large.moving", "arena.giving", "frames.giving"}) {
    unsigned ended = 0;
    for (unsigned skips = 0; skips < 3; ++skips)
      for (int drill = 0; drill < 6; ++drill) {
        make();
        const std::size_t bytes = drill == 5 ? kHuge : drill == 3 ? kLift : 3 * kFrameSize;
        const uptr block = drill == 0 ? 0 : large().take(bytes, 1).address;
        ended += ended_at(
            step,
            [&] {
              if (drill == 0) large().take(100 * kKiB, 1);
              if (drill == 1) resize(block, 9 * kFrameSize);
              if (drill == 2) resize(block, kFrameSize);
              if (drill == 3 || drill == 5) move(block, 2 * bytes);
              if (drill == 4) give(block);
            },
            skips);
        SCOPED_TRACE(std::string(step) + ", drill " + std::to_string(drill));
        expect_free_frames_open();
        if (block != 0 && info(block).bits != 0) { EXPECT_TRUE(kernel().is_accessible(block, usable(block))); }
      }
    EXPECT_GT(ended, 0u) << step;
  }
}

TEST_F(LargeGuardedTest, RandomBlocksKeepContentsAndGuardsWhateverIsRefused) {
  struct Block {
    uptr address;
    std::size_t bytes;
    unsigned char tag;
  };
  Random random(test::test_seed());
  std::vector<Block> blocks;
  const auto write = [](const Block& b) {
    *reinterpret_cast<unsigned char*>(b.address) = *reinterpret_cast<unsigned char*>(b.address + b.bytes - 1) = b.tag;
  };
  for (int i = 0; i < 10'000; ++i) {
    kernel().refuse_nothing();
    if (random.chance(20)) kernel().refuse_any(1 + random.below(4));
    const std::size_t bytes = random.chance(5) ? kLift + random.below(4 * kMiB) : 1 + random.below(kMiB);
    if (blocks.empty() || (blocks.size() < 12 && random.chance(40))) {
      if (const auto block = large().take(bytes, 1); block.address != 0) {
        if (block.zero) { ASSERT_TRUE(test::is_zero(block.address, usable(block.address))); }
        blocks.push_back({block.address, usable(block.address), static_cast<unsigned char>(i)});
        write(blocks.back());
      }
      continue;
    }
    Block& block = blocks[random.below(blocks.size())];
    ASSERT_TRUE(kernel().is_accessible(block.address, block.bytes));
    ASSERT_EQ(*reinterpret_cast<unsigned char*>(block.address), block.tag);
    ASSERT_EQ(*reinterpret_cast<unsigned char*>(block.address + block.bytes - 1), block.tag);
    if (random.chance(40)) {
      ASSERT_TRUE(give(block.address));
      block = blocks.back();
      blocks.pop_back();
    } else if (const uptr moved = resize(block.address, bytes) ? block.address : move(block.address, bytes)) {
      ASSERT_EQ(*reinterpret_cast<unsigned char*>(moved), block.tag);
      block = {moved, usable(moved), block.tag};
      write(block);
    }
    if (random.chance(1)) {
      kernel().refuse_nothing();
      expect_free_frames_open();
    }
  }
  kernel().refuse_nothing();
  for (const Block& block : blocks) EXPECT_TRUE(give(block.address));
  large().release_kept();
  EXPECT_EQ(large().guarded_count(), 0u);
  EXPECT_EQ(frames().policy().live(), 0u);
  expect_free_frames_open();
}

}  // namespace
}  // namespace freeway
