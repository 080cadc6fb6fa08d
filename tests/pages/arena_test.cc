// SPDX-License-Identifier: MIT
//
// Tests of pages/arena.h: runs of every length and alignment against a plain array of frames, exhaustion, refusal,
// roll-back, trimming, and which memory is known to be zero.
#include "pages/arena.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

class ArenaTest : public testing::Test {
 protected:
  using Run = freeway::Run;  // testing::Test has one, too

  void SetUp() override { kernel().reset(); }
  void TearDown() override { kernel().reset(); }

  void make(std::size_t chunks) {
    base_ = kernel().reserve(chunks * kChunkSize, kChunkSize);
    ASSERT_NE(base_, 0u);
    chunks_ = std::vector<Chunk<TestEnv>>(chunks);
    memory_ = std::make_unique<Arena<TestEnv>>();
    arena().init({base_, true}, chunks * kChunkSize, chunks_.data());
  }
  Arena<TestEnv>& arena() { return *memory_; }
  uptr frame(std::size_t n) const { return base_ + n * kFrameSize; }
  std::size_t frame_of(const Run& run) const { return (run.address - base_) / kFrameSize; }
  void write(const Run& run, std::size_t frames) {
    for (std::size_t i = 0; i < frames; ++i) *reinterpret_cast<volatile u64*>(run.address + i * kFrameSize) = 1;
  }
  std::size_t used() {
    std::size_t frames = 0;
    for (std::size_t c = 0; c < arena().chunk_count(); ++c) frames += popcount(arena().used_word(c));
    return frames;
  }
  std::size_t dirty() {
    std::size_t frames = 0;
    for (std::size_t c = 0; c < arena().chunk_count(); ++c)
      frames += popcount(arena().dirty_word(c) & ~arena().used_word(c));
    return frames;
  }
  // Purges until `target` free frames or fewer are dirty; returns how many were reported.
  std::size_t purge(std::size_t target) {
    std::size_t count = 0;
    arena().purge([this] { return dirty(); }, target, [&](uptr, std::size_t, unsigned frames) { count += frames; });
    return count;
  }

  uptr base_ = 0;
  std::vector<Chunk<TestEnv>> chunks_;
  std::unique_ptr<Arena<TestEnv>> memory_;
};

TEST_F(ArenaTest, ARunOfEveryLengthIsExactAccessibleAndAtTheLowestPlace) {
  make(4);
  for (std::size_t frames = 1; frames <= 4 * kChunkFrames; ++frames) {
    const Run run = arena().take(frames, 1);
    ASSERT_TRUE(run);
    ASSERT_EQ(run.address, base_);
    ASSERT_EQ(used(), frames) << "exactly";
    ASSERT_TRUE(kernel().is_accessible(run.address, frames * kFrameSize));
    arena().give(run.address, frames);
    ASSERT_EQ(used(), 0u);
  }
  EXPECT_FALSE(arena().take(4 * kChunkFrames + 1, 1));
  EXPECT_FALSE(arena().take(std::size_t{1} << 30, 1));
}

TEST_F(ArenaTest, EveryAlignmentIsKept) {
  make(16);
  // The base is aligned to a chunk only, so a larger alignment is one of addresses, not of frame numbers.
  for (std::size_t alignment = 1; alignment <= 8 * kChunkFrames; alignment *= 2)
    for (std::size_t frames : {1, 3, 16, 63, 64, 65, 130}) {
      const Run before = arena().take(1, 1);  // so that the arena's first frame is not free
      const Run run = arena().take(frames, alignment);
      ASSERT_TRUE(run) << frames << " aligned to " << alignment;
      ASSERT_EQ(run.address % (alignment * kFrameSize), 0u);
      ASSERT_EQ(used(), frames + 1);
      arena().give(run.address, frames);
      arena().give(before.address, 1);
    }
}

TEST_F(ArenaTest, AFullArenaRefusesAndServesAgainAfterAFree) {
  make(2);
  std::vector<Run> runs;
  while (Run run = arena().take(1, 1)) runs.push_back(run);
  EXPECT_EQ(runs.size(), 2 * kChunkFrames);
  EXPECT_FALSE(arena().take(1, 1).refused) << "it is full, the kernel has nothing to do with it";
  arena().give(runs[100].address, 1);
  EXPECT_FALSE(arena().take(2, 1));
  EXPECT_EQ(frame_of(arena().take(1, 1)), 100u);
  // A free in a chunk below those that were given up on is found, too.
  arena().give(runs[3].address, 1);
  EXPECT_EQ(frame_of(arena().take(1, 1)), 3u);
  EXPECT_FALSE(arena().take(1, 1));
}

TEST_F(ArenaTest, AFreeWhileAChunkIsGivenUpOnIsFound) {
  make(2);
  std::vector<Run> runs;
  for (unsigned i = 0; i < kChunkFrames; ++i) runs.push_back(arena().take(1, 1));
  // The search passes the full first chunk, and takes frame 64; meanwhile frame 5 becomes free.
  TestEnv::at_step("arena.taken", [&] { arena().give(runs[5].address, 1); });
  EXPECT_EQ(frame_of(arena().take(1, 1)), 64u);
  EXPECT_EQ(frame_of(arena().take(1, 1)), 5u);
}

TEST_F(ArenaTest, AShortRunFitsAcrossTheEndOfAChunk) {
  make(3);
  for (std::size_t below = 1; below < 30; ++below)
    for (std::size_t above = 1; above < 30; ++above) {
      const std::size_t first = 64 - below;
      ASSERT_TRUE(arena().take_at(frame(0), first));
      ASSERT_TRUE(arena().take_at(frame(64 + above), 128 - above));
      EXPECT_FALSE(arena().take(below + above + 1, 1));
      const Run run = arena().take(below + above, 1);
      ASSERT_TRUE(run) << below << " + " << above;
      EXPECT_EQ(frame_of(run), first);
      EXPECT_EQ(used(), 192u);
      arena().give(frame(0), 192);
    }
}

TEST_F(ArenaTest, ARefusedRunAcrossTheEndOfAChunkLosesNothing) {
  make(2);
  ASSERT_TRUE(arena().take_at(frame(0), 60));
  ASSERT_TRUE(arena().take_at(frame(70), 58));
  // Somebody takes a frame of the second part when the first is claimed.
  TestEnv::at_step("arena.claimed", [&] { EXPECT_TRUE(arena().take_at(frame(66), 1)); });
  EXPECT_FALSE(arena().take(8, 1));
  EXPECT_EQ(used(), 119u);
  EXPECT_EQ(frame_of(arena().take(6, 1)), 60u);
}

TEST_F(ArenaTest, PartsOfARunCanBeGivenBack) {
  make(4);
  const Run run = arena().take(200, 1);
  arena().give(run.address + 150 * kFrameSize, 50);  // the tail, which is in two chunks
  EXPECT_EQ(used(), 150u);
  arena().give(run.address, 10);  // the head
  EXPECT_EQ(used(), 140u);
  EXPECT_EQ(frame_of(arena().take(10, 1)), 0u);
  EXPECT_TRUE(arena().take_at(frame(150), 50));
  EXPECT_EQ(used(), 200u);
}

TEST_F(ArenaTest, TakeAtTakesFreeFramesAndNothingElse) {
  make(4);
  EXPECT_TRUE(arena().take_at(frame(60), 70));  // over a whole chunk
  EXPECT_EQ(used(), 70u);
  EXPECT_FALSE(arena().take_at(frame(0), 61));
  EXPECT_FALSE(arena().take_at(frame(129), 1));
  EXPECT_EQ(used(), 70u) << "what was claimed before the frame that is taken was given back";
  EXPECT_TRUE(arena().take_at(frame(0), 60));
  EXPECT_TRUE(arena().take_at(frame(130), 126));
  EXPECT_EQ(used(), 256u);
}

TEST_F(ArenaTest, TakeAtKnowsTheArenasEnds) {
  make(2);
  EXPECT_FALSE(arena().take_at(frame(128), 1));
  EXPECT_FALSE(arena().take_at(base_ - kFrameSize, 1));
  EXPECT_FALSE(arena().take_at(frame(127), 2));
  EXPECT_FALSE(arena().take_at(frame(0), std::size_t{1} << 30));
  EXPECT_TRUE(arena().take_at(frame(127), 1));
}

TEST_F(ArenaTest, ALongRunRollsBackWhereAnotherThreadWasFaster) {
  make(4);
  // Two chunks are claimed when somebody takes a frame in the third.
  TestEnv::at_step("arena.claimed", [&] { EXPECT_TRUE(arena().take_at(frame(140), 1)); }, 1);
  EXPECT_FALSE(arena().take(200, 1)) << "what is left is shorter";
  EXPECT_FALSE(TestEnv::step_left());
  EXPECT_EQ(used(), 1u);
  EXPECT_TRUE(arena().take(128, 1));
}

TEST_F(ArenaTest, ALongRunGoesAroundWhatIsTakenAndBeginsRightBehindIt) {
  make(8);
  const Run obstacle = arena().take_at(frame(70), 1);
  const Run run = arena().take(3 * kChunkFrames, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(frame_of(run), 71u);
  const Run next = arena().take(kChunkFrames + 1, 1);
  ASSERT_TRUE(next);
  EXPECT_EQ(frame_of(next), 0u) << "70 are free there";
  arena().give(obstacle.address, 1);
  EXPECT_TRUE(arena().take(2 * kChunkFrames, 1));
}

TEST_F(ArenaTest, AnAlignedLongRunBeginsAtAMultipleBehindWhatIsTaken) {
  make(8);
  ASSERT_TRUE(arena().take_at(frame(70), 1));
  for (const std::size_t alignment : {2, 16, 64, 128}) {
    const Run run = arena().take(kChunkFrames + 30, alignment);
    ASSERT_TRUE(run) << alignment;
    EXPECT_EQ(run.address, align_up(frame(71), alignment * kFrameSize)) << alignment;
    arena().give(run.address, kChunkFrames + 30);
  }
}

TEST_F(ArenaTest, LongRunsOfAnyLengthFillAnArenaWithoutGaps) {
  make(8);
  std::size_t at = 0;
  for (const std::size_t frames : {65, 100, 129, 77, 141}) {
    const Run run = arena().take(frames, 1);
    ASSERT_TRUE(run);
    EXPECT_EQ(frame_of(run), at);
    at += frames;
  }
  EXPECT_EQ(used(), 8u * kChunkFrames);
}

TEST_F(ArenaTest, RefusedMemoryLosesNothing) {
  make(8);
  for (std::size_t frames : {1, 64, 65, 200}) {
    kernel().refuse_all(true);
    const Run run = arena().take(frames, 1);
    EXPECT_FALSE(run);
    EXPECT_TRUE(run.refused);
    EXPECT_EQ(used(), 0u);
    EXPECT_FALSE(arena().take_at(frame(300), frames));
    EXPECT_EQ(used(), 0u);
    kernel().refuse_nothing();
  }
  const Run run = arena().take(200, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(run.dirty, 0u);
  write(run, 200);
}

TEST_F(ArenaTest, FreshFramesAreCleanAndThoseGivenBackAreDirty) {
  make(2);
  Run run = arena().take(10, 1);
  EXPECT_EQ(run.dirty, 0u);
  EXPECT_TRUE(test::is_zero(run.address, 10 * kFrameSize));
  write(run, 10);
  arena().give(run.address, 10);
  EXPECT_EQ(dirty(), 10u);
  run = arena().take(15, 1);
  EXPECT_EQ(run.dirty, 10u);
  run = arena().take_at(frame(15), 100);
  EXPECT_EQ(run.dirty, 0u);
}

TEST_F(ArenaTest, PurgedFramesAreZeroAndKnownToBe) {
  make(2);
  Run run = arena().take(100, 1);
  write(run, 100);
  arena().give(run.address, 100);
  EXPECT_EQ(purge(0), 100u);
  EXPECT_EQ(dirty(), 0u);
  EXPECT_EQ(used(), 0u);
  run = arena().take(100, 1);
  EXPECT_EQ(run.dirty, 0u);
  EXPECT_TRUE(test::is_zero(run.address, 100 * kFrameSize));
}

TEST_F(ArenaTest, PurgingStopsAtItsTargetAndStartsFromTheTop) {
  make(4);
  const Run run = arena().take(256, 1);
  arena().give(run.address, 256);
  EXPECT_EQ(purge(128), 128u);
  EXPECT_EQ(arena().dirty_word(0), ~u64{0});
  EXPECT_EQ(arena().dirty_word(3), 0u);
  EXPECT_EQ(purge(128), 0u);
}

TEST_F(ArenaTest, PurgingLeavesFramesInUseAlone) {
  make(1);
  const Run all = arena().take(64, 1);
  write(all, 64);
  for (std::size_t i = 0; i < 64; i += 2) arena().give(frame(i), 1);
  EXPECT_EQ(purge(0), 32u);
  for (std::size_t i = 1; i < 64; i += 2) EXPECT_EQ(*reinterpret_cast<u64*>(frame(i)), 1u);
  for (std::size_t i = 0; i < 64; i += 2) EXPECT_TRUE(test::is_zero(frame(i), kFrameSize));
  EXPECT_EQ(used(), 32u);
}

TEST_F(ArenaTest, WhatTheKernelWillNotTakeBackStaysDirtyAndUsable) {
  make(1);
  Run run = arena().take(8, 1);
  write(run, 8);
  arena().give(run.address, 8);
  kernel().refuse(Call::kPurge);
  EXPECT_EQ(purge(0), 0u) << "and it ends";
  EXPECT_EQ(used(), 0u);
  run = arena().take(8, 1);
  EXPECT_EQ(run.dirty, 8u);
}

TEST_F(ArenaTest, APurgerThatWasOvertakenPurgesNothingThatIsInUse) {
  make(1);
  Run run = arena().take(8, 1);
  write(run, 8);
  arena().give(run.address, 8);
  // Between the purger's look and its work somebody allocates: he gets other frames.
  TestEnv::at_step("arena.purge", [&] {
    const Run other = arena().take(8, 1);
    EXPECT_GE(frame_of(other), 8u);
    write(other, 8);
  });
  EXPECT_EQ(purge(0), 8u);
  EXPECT_EQ(used(), 8u);
  EXPECT_EQ(*reinterpret_cast<u64*>(frame(8)), 1u);
}

TEST_F(ArenaTest, AThreadThatStopsLosesTheRunInItsHandsAndNoMore) {
  struct {
    const char* step;
    std::size_t frames;
  } stops[] = {{"arena.taken", 7}, {"arena.claimed", 100}, {"range.committed", 90}, {"arena.purge", 1}};
  for (auto [step, frames] : stops) {
    kernel().reset();
    make(8);
    ASSERT_TRUE(test::ended_at(step, [&, n = frames] {
      Run run = arena().take(n, 1);
      arena().give(run.address, n);
      purge(0);
    })) << step;
    EXPECT_LE(used(), frames) << step;
    const std::size_t lost = used();
    std::size_t others = 0;
    while (arena().take(1, 1)) ++others;
    EXPECT_EQ(lost + others, 8 * kChunkFrames) << step;
  }
}

// --- Holes: what lies in the way in an arena whose space is merely chosen. -------------------------------------------

class ChosenArenaTest : public ArenaTest {
 protected:
  void make(std::size_t chunks) {
    kernel().reset();
    kernel().choose_spaces();
    const Space space = kernel().space(chunks * kChunkSize, kChunkSize);
    base_ = space.base;
    chunks_ = std::vector<Chunk<TestEnv>>(chunks);
    memory_ = std::make_unique<Arena<TestEnv>>();
    arena().init(space, chunks * kChunkSize, chunks_.data());
  }
  std::size_t holes() {
    std::size_t frames = 0;
    for (std::size_t c = 0; c < arena().chunk_count(); ++c) frames += popcount(arena().holes_of(c));
    return frames;
  }
  // The run is accessible, and no part of it another's.
  void check(const Run& run, std::size_t frames, std::size_t foreign) {
    ASSERT_TRUE(run);
    ASSERT_TRUE(frame_of(run) + frames <= foreign || frame_of(run) > foreign);
    for (std::size_t f = frame_of(run); f < frame_of(run) + frames; ++f)
      ASSERT_EQ(arena().holes_of(f / kChunkFrames) >> (f % kChunkFrames) & 1, 0u);
    write(run, frames);
  }
};

TEST_F(ChosenArenaTest, RunsOfEveryLengthGoAroundWhatIsInTheWayAndItsFramesAreUsedForGood) {
  for (std::size_t foreign : {std::size_t{0}, std::size_t{5}, std::size_t{63}, std::size_t{64}, std::size_t{150}})
    for (std::size_t frames : {1, 7, 64, 65, 130}) {
      make(16);
      kernel().occupy(frame(foreign), kFrameSize);
      std::size_t taken = 0;
      for (;;) {
        const Run run = arena().take(frames, 1);
        ASSERT_FALSE(run.refused || run.hole || run.ended);
        if (!run) break;
        check(run, frames, foreign);
        taken += frames;
      }
      ASSERT_GE(holes(), 1u);
      ASSERT_LE(holes(), 64u);
      ASSERT_GE(taken + holes() + 3 * frames + kChunkFrames, 16 * kChunkFrames) << frames << " around " << foreign;
      ASSERT_EQ(*reinterpret_cast<u64*>(frame(foreign)), 0u) << "another's memory was written to";
    }
}

TEST_F(ChosenArenaTest, ARunThatGrowsStopsBeforeWhatIsInTheWayAndLosesNothing) {
  make(4);
  kernel().occupy(frame(9), kFrameSize);
  const Run run = arena().take(3, 1);
  ASSERT_TRUE(run);
  EXPECT_FALSE(arena().take_at(frame(3), 20));
  EXPECT_TRUE(arena().take_at(frame(3), 2));
  arena().give(frame(0), 5);
  EXPECT_EQ(arena().take(5, 1).address, base_) << "what was given up beside the hole is free";
}

TEST_F(ChosenArenaTest, WhereNothingMoreCanBeSkippedTheArenaEndsAndIsNotRefused) {
  make(4096);
  std::size_t end = 1;
  Run run;
  do {
    if (arena().committed() != end) kernel().occupy(base_ + (end = arena().committed()), kFrameSize);
    run = arena().take(1, 1);
  } while (run);
  EXPECT_TRUE(run.ended && !run.refused);
  EXPECT_TRUE(arena().take(100, 1).ended);
}

// Random traffic against a plain array: owner and dirt of each frame.
// The account of frames goes that far; found as frames that were missed by one audit and seen by a later one.
TEST_F(ArenaTest, TheEndOfWhatIsUsedIsBehindRunsWhoseOwnerStoppedBeforeTheyWereAccessible) {
  make(3);
  ASSERT_TRUE(arena().take(1, 1));
  const std::size_t accessible = arena().committed() / kFrameSize;
  ASSERT_LT(accessible, kChunkFrames - 8);
  EXPECT_EQ(arena().end_of_used(), accessible);
  ASSERT_TRUE(test::ended_at("arena.claimed", [&] { arena().take_at(frame(accessible + 3), 4); }));
  EXPECT_GE(arena().end_of_used(), accessible + 7);
  ASSERT_TRUE(test::ended_at("arena.claimed", [&] { arena().take_at(frame(kChunkFrames + 5), 4); }));
  EXPECT_GE(arena().end_of_used(), kChunkFrames + 9);
  EXPECT_LE(arena().end_of_used(), 2 * kChunkFrames);
}

TEST_F(ArenaTest, RandomTrafficNeverHandsOutAFrameTwiceAndKnowsWhatIsZero) {
  Random random(test::test_seed());
  constexpr std::size_t kChunks = 6, kFrames = kChunks * kChunkFrames;
  make(kChunks);
  struct Held {
    std::size_t first, frames;
  };
  std::vector<Held> held;
  std::vector<bool> owned(kFrames), touched(kFrames);
  for (int i = 0; i < 20000; ++i) {
    if (random.chance(2)) {
      kernel().refuse(Call::kPurge, 1 + random.below(3));
      purge(random.below(50));
      kernel().refuse_nothing();
      for (std::size_t f = 0; f < kFrames; ++f)
        if (!owned[f] && (arena().dirty_word(f / 64) >> (f % 64) & 1) == 0) touched[f] = false;
    } else if (held.empty() || random.chance(50)) {
      const std::size_t frames = random.chance(80) ? 1 + random.below(20) : 1 + random.below(200);
      const std::size_t alignment = std::size_t{1} << random.below(7);
      const bool at = random.chance(30);
      const std::size_t place = random.below(kFrames);
      const Run run = at ? arena().take_at(frame(place), frames) : arena().take(frames, alignment);
      if (!run) continue;
      const std::size_t first = frame_of(run);
      ASSERT_TRUE(at ? first == place : first % alignment == 0);
      ASSERT_LE(first + frames, kFrames);
      std::size_t dirt = 0;
      for (std::size_t f = first; f < first + frames; ++f) {
        ASSERT_FALSE(owned[f]) << "frame " << f << " has two owners";
        owned[f] = true;
        dirt += touched[f];
        ASSERT_TRUE(touched[f] || *reinterpret_cast<u64*>(frame(f)) == 0);
        *reinterpret_cast<u64*>(frame(f)) = f + 1;
        touched[f] = true;
      }
      ASSERT_EQ(run.dirty, dirt);
      held.push_back({first, frames});
    } else {
      const std::size_t which = random.below(held.size());
      Held& h = held[which];
      const std::size_t part = random.chance(30) ? 1 + random.below(h.frames) : h.frames;
      for (std::size_t f = h.first + h.frames - part; f < h.first + h.frames; ++f) {
        ASSERT_EQ(*reinterpret_cast<u64*>(frame(f)), f + 1) << "somebody else wrote to it";
        owned[f] = false;
      }
      arena().give(frame(h.first + h.frames - part), part);
      h.frames -= part;
      if (h.frames == 0) held.erase(held.begin() + static_cast<long>(which));
    }
    std::size_t count = 0;
    for (bool o : owned) count += o;
    ASSERT_EQ(used(), count);
  }
}

}  // namespace
}  // namespace freeway
