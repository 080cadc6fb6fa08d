// SPDX-License-Identifier: MIT
//
// Tests of pages/limits.h, and of frames.h and large.h under a limit: what is charged is what the arenas, the mappings
// and the tables have, at any limit; what is refused is as it was.
#include "pages/limits.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "pages/large.h"
#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

TEST(LimitWord, AChargeGoesUpToTheLimitAndNoFurtherForAllSmallWords) {
  for (u64 hard = 0; hard < 20; ++hard)
    for (u64 held = 0; held < 24; ++held)
      for (u64 frames = 0; frames < 24; ++frames) {
        const u64 word = limit_word::make(held, hard), next = limit_word::charged(word, frames);
        const bool fits = frames == 0 || hard == 0 || held + frames <= hard;
        ASSERT_EQ(limit_word::held(next), fits ? held + frames : held) << held << " " << hard << " " << frames;
        ASSERT_EQ(limit_word::hard(next), hard);
      }
}

TEST(LimitWord, ItsEndsAreNotCrossed) {
  using namespace limit_word;
  EXPECT_EQ(held(charged(make(kMostFrames - 3, 0), 3)), kMostFrames);
  EXPECT_EQ(held(charged(make(kMostFrames - 3, 0), 4)), kMostFrames - 3) << "more than can be counted";
  EXPECT_EQ(hard(make(kMostFrames, kMostHard)), kMostHard);
  EXPECT_EQ(held(make(kMostFrames, kMostHard)), kMostFrames);
  EXPECT_EQ(room(make(10, 3)), 0u) << "the limit came later";
  EXPECT_EQ(held(limited(make(10, 3), 7)), 10u);
  EXPECT_FALSE(was_set(0));
  EXPECT_TRUE(was_set(make(0, 0)));
}

TEST(Limits, WhatTheEnvironmentSaysComesOnceAndNeverAfterACall) {
  Limits<TestEnv> limits;
  limits.begin(5, 10);
  limits.begin(6, 11);
  EXPECT_EQ(limits.soft(), 5u);
  EXPECT_EQ(limits.hard(), 10u);
  limits.set(0, 3);
  limits.begin(5, 10);
  EXPECT_EQ(limits.soft(), 0u);
  EXPECT_EQ(limits.hard(), 3u);
  limits.set(0, limit_word::kMostHard + 1);
  EXPECT_EQ(limits.hard(), 0u) << "more than there can be";
}

TEST(Limits, PressureComesOnceForEachStep) {
  Limits<TestEnv> limits;
  EXPECT_FALSE(limits.is_due(1000)) << "no limit";
  limits.set(100, 0);
  EXPECT_FALSE(limits.is_due(100));
  int due = 0;
  for (int i = 0; i < 400; ++i) {
    due += limits.is_due(1);
    limits.charge(1);
  }
  // The first at 101, then one for each 16 frames.
  EXPECT_EQ(due, 1 + (300 - 1) / 16);
  EXPECT_EQ(limits.pressures(), static_cast<u64>(due));
  limits.uncharge(300);
  EXPECT_FALSE(limits.is_due(0));
  int again = 0;
  for (int i = 0; i < 300; ++i) {
    again += limits.is_due(1);
    limits.charge(1);
  }
  EXPECT_GE(again, 1 + (300 - 1) / 16 - 1) << "what was forgotten below the limit";
}

class LimitedFrames : public testing::Test {
 public:
  using Run = freeway::Run;
  static constexpr std::size_t kChunks = 4, kFrames = kChunks * kChunkFrames;
  static constexpr u64 kNow = 1'000'000'000;

  void SetUp() override {
    kernel().reset();
    further_ = std::make_unique<FurtherArenas<TestEnv>>();
    frames_ = std::make_unique<Frames<TestEnv>>();
    map_ = std::make_unique<PageMap<TestEnv>>();
    infos_ = std::vector<PageMap<TestEnv>::Entry>(kFrames);
    chunks_ = std::vector<Chunk<TestEnv>>(kChunks);
    base_ = kernel().reserve(kChunks * kChunkSize, kChunkSize);
    frames().init({base_, true}, kChunks * kChunkSize, chunks_.data(), *further_);
    map_->init(base_, kFrames, nullptr, infos_.data(), &frames().limits());
    large_.init(frames_.get(), map_.get(), 200);
  }
  void TearDown() override { kernel().reset(); }
  Frames<TestEnv>& frames() { return *frames_; }
  Limits<TestEnv>& limits() { return frames().limits(); }

  // Frames that the kernel backs or may back.
  std::size_t backed() {
    std::size_t all = large_.huge_bytes() / kFrameSize + map_->leaf_bytes() / kFrameSize;
    frames().each_arena([&](Arena<TestEnv>& arena) {
      for (std::size_t c = 0; c < arena.chunk_count(); ++c) all += popcount(arena.used_word(c) | arena.dirty_word(c));
      return true;
    });
    return all;
  }

  std::unique_ptr<FurtherArenas<TestEnv>> further_;
  std::unique_ptr<Frames<TestEnv>> frames_;
  std::unique_ptr<PageMap<TestEnv>> map_;
  std::vector<PageMap<TestEnv>::Entry> infos_;
  std::vector<Chunk<TestEnv>> chunks_;
  LargeBlocks<TestEnv> large_;
  uptr base_ = 0;
};

TEST_F(LimitedFrames, ARunIsChargedUntilItsMemoryHasGone) {
  limits().set(0, 20);
  const Run run = frames().take(12, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(limits().held(), 12u);
  EXPECT_FALSE(frames().take(9, 1));
  EXPECT_EQ(limits().held(), 12u);
  EXPECT_EQ(limits().refusals(), 1u);
  frames().give(run.address, 12, kNow);
  EXPECT_EQ(limits().held(), 12u) << "free and dirty";
  const Run again = frames().take(20, 1);
  ASSERT_TRUE(again) << "12 dirty ones of it";
  EXPECT_EQ(limits().held(), 20u);
  frames().give(again.address, 20, kNow);
  frames().purge_to(0);
  EXPECT_EQ(limits().held(), 0u);
}

TEST_F(LimitedFrames, DirtyFramesOfAnotherShapeMakeRoom) {
  limits().set(0, 64);
  std::vector<Run> runs;
  for (int i = 0; i < 64; ++i) runs.push_back(frames().take(1, 1));
  for (std::size_t i = 0; i < 64; i += 2) frames().give(runs[i].address, 1, kNow);
  EXPECT_FALSE(frames().take(33, 1)) << "32 are live";
  const Run run = frames().take(32, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(limits().held(), 64u);
  EXPECT_EQ(frames().policy().dirty(), 0u) << "all were given back for it";
  EXPECT_EQ(backed(), limits().held());
}

TEST_F(LimitedFrames, WhatIsRefusedIsAsItWas) {
  const Run first = frames().take(10, 1);
  frames().give(first.address, 5, kNow);
  limits().set(0, 10);
  kernel().refuse_from_now_on(Call::kPurge);
  EXPECT_FALSE(frames().take(7, 1));
  kernel().refuse_nothing();
  EXPECT_EQ(frames().primary().used_word(0), low_bits(10) & ~low_bits(5));
  EXPECT_EQ(frames().primary().dirty_word(0), low_bits(5));
  EXPECT_EQ(frames().policy().live(), 5u);
  EXPECT_EQ(frames().policy().dirty(), 5u);
  EXPECT_EQ(limits().held(), 10u);
}

TEST_F(LimitedFrames, AboveTheSoftLimitNothingDirtyStays) {
  limits().set(30, 0);
  const Run a = frames().take(28, 1), b = frames().take(40, 1);
  ASSERT_TRUE(a && b) << "the soft limit refuses nothing";
  frames().give(a.address, 28, kNow);
  EXPECT_EQ(frames().policy().dirty(), 0u);
  EXPECT_EQ(limits().held(), 40u);
  frames().give(b.address, 40, kNow);
  EXPECT_LE(limits().held(), 30u);
}

TEST_F(LimitedFrames, CachesAreTakenApartBeforeMoreIsCharged) {
  struct Cache {
    LimitedFrames* test;
    Run run;
    int calls = 0;
    void empty() {
      if (calls++ == 0) test->frames().give(run.address, 10, kNow);
    }
  } cache{this, frames().take(10, 1)};
  frames().on_pressure(&cache, [](void* context) { static_cast<Cache*>(context)->empty(); });
  const Run other = frames().take(5, 1);
  limits().set(18, 0);
  const Run run = frames().take(8, 1);
  ASSERT_TRUE(run && other);
  EXPECT_EQ(cache.calls, 1);
  EXPECT_LE(limits().held(), 18u);
  EXPECT_EQ(backed(), limits().held());
  ASSERT_TRUE(large_.take(300 * kFrameSize, 1).address) << "a mapping of its own";
  EXPECT_EQ(cache.calls, 2);
}

TEST_F(LimitedFrames, AHugeBlockThatDoesNotFitCostsNothing) {
  limits().set(0, 900);
  const auto block = large_.take(400 * kFrameSize, 1);
  ASSERT_NE(block.address, 0u);
  const u64 held = limits().held();
  const std::size_t mapped = kernel().mapped_bytes();
  EXPECT_EQ(held, backed());
  EXPECT_EQ(large_.take(600 * kFrameSize, 1).address, 0u);
  FrameInfo info = FrameInfo::huge(400);
  EXPECT_FALSE(large_.resize(block.address, info, 1000 * kFrameSize, kNow));
  EXPECT_EQ(large_.move(block.address, info, 1000 * kFrameSize, kNow), 0u);
  EXPECT_EQ(limits().held(), held);
  EXPECT_EQ(kernel().mapped_bytes(), mapped);
  ASSERT_TRUE(large_.resize(block.address, info, 300 * kFrameSize, kNow));
  EXPECT_EQ(limits().held(), held - 100);
  EXPECT_TRUE(large_.give(block.address, FrameInfo::huge(300), kNow));
  EXPECT_EQ(limits().held(), backed());
}

// Random calls at random limits, with kernels that refuse now and then: never beyond the limit, and exact.
TEST_F(LimitedFrames, WhatIsChargedIsWhatIsBackedAtEachStepOfARandomProgram) {
  struct Block {
    uptr address;
    std::size_t frames;
  };
  Random random(test::test_seed());
  std::vector<Block> blocks;
  u64 limit = 0, refused = 0;
  for (int i = 0; i < 20000; ++i) {
    if (random.below(200) == 0) {
      limit = random.below(4) == 0 ? 0 : 100 + random.below(800);
      limits().set(random.below(2) == 0 ? 0 : random.below(limit + 1), limit);
    }
    if (random.below(50) == 0) kernel().refuse(static_cast<Call>(random.below(test::kCalls)), 1 + random.below(3));
    const u64 held_before = limits().held();
    const std::size_t which = blocks.empty() ? 0 : random.below(blocks.size());
    const std::size_t length = 1 + random.below(random.below(8) == 0 ? 300 : 20);
    if (blocks.empty() || random.below(5) < 2) {
      const auto block = large_.take(length * kFrameSize, 1);
      if (block.address != 0) blocks.push_back({block.address, length});
      refused += block.address == 0;
    } else if (random.below(3) == 0) {
      Block& block = blocks[which];
      const FrameInfo info = map_->get(block.address);
      if (large_.resize(block.address, info, length * kFrameSize, kNow)) {
        block.frames = length;
      } else if (const uptr moved = large_.move(block.address, info, length * kFrameSize, kNow)) {
        block = {moved, length};
      }
    } else {
      ASSERT_TRUE(large_.give(blocks[which].address, map_->get(blocks[which].address), kNow));
      blocks.erase(blocks.begin() + static_cast<std::ptrdiff_t>(which));
    }
    if (random.below(40) == 0) frames().purge_to(random.below(20));
    kernel().refuse_nothing();
    large_.release_kept();
    const u64 held = limits().held();
    ASSERT_TRUE(limit == 0 || held <= limit || held <= held_before) << i << ": " << held << " of " << limit;
    ASSERT_EQ(held, backed()) << i;
  }
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace freeway
