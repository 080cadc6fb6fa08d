// SPDX-License-Identifier: MIT
//
// Tests of pages/frames.h: when further arenas are made and found again, what is lost when the kernel refuses one of
// the calls that this takes (nothing), and that the counts of live and dirty frames are the arenas'.
#include "pages/frames.h"

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

constexpr std::size_t kChunks = 4;
constexpr std::size_t kPrimary = kChunks * kChunkFrames;  // frames of the primary arena
constexpr u64 kNow = 1'000'000'000;

class FramesTest : public testing::Test {
 protected:
  using Run = freeway::Run;

  void SetUp() override { make(); }
  void TearDown() override { kernel().reset(); }

  void make() {
    kernel().reset();
    further_ = std::make_unique<FurtherArenas<TestEnv>>();
    frames_ = std::make_unique<Frames<TestEnv>>();
    chunks_ = std::vector<Chunk<TestEnv>>(kChunks);
    base_ = kernel().reserve(kChunks * kChunkSize, kChunkSize);
    frames().init({base_, true}, kChunks * kChunkSize, chunks_.data(), *further_);
  }
  Frames<TestEnv>& frames() { return *frames_; }
  bool in_primary(const Run& run) { return frames().primary().contains(run.address); }

  struct Counts {
    std::size_t used = 0, dirty = 0;
    int arenas = 0;
  };
  Counts counts() {
    Counts all;
    frames().each_arena([&](Arena<TestEnv>& arena) {
      ++all.arenas;
      for (std::size_t c = 0; c < arena.chunk_count(); ++c) {
        all.used += popcount(arena.used_word(c));
        all.dirty += popcount(arena.dirty_word(c) & ~arena.used_word(c));
      }
      return true;
    });
    return all;
  }
  void check_counts() {
    ASSERT_EQ(frames().policy().live(), counts().used);
    ASSERT_EQ(frames().policy().dirty(), counts().dirty);
  }

  std::unique_ptr<FurtherArenas<TestEnv>> further_;
  std::unique_ptr<Frames<TestEnv>> frames_;
  std::vector<Chunk<TestEnv>> chunks_;
  uptr base_ = 0;
};

TEST_F(FramesTest, ThePrimaryArenaServesWhileItCan) {
  for (std::size_t i = 0; i < kPrimary / 2; ++i) ASSERT_TRUE(in_primary(frames().take(2, 2)));
  EXPECT_EQ(counts().arenas, 1);
  EXPECT_EQ(kernel().calls(Call::kReserve), 1u) << "the primary's own";
  check_counts();
}

TEST_F(FramesTest, BeyondThePrimaryFurtherArenasServe) {
  ASSERT_TRUE(frames().take(kPrimary, 1));
  const Run run = frames().take(5, 1);
  ASSERT_TRUE(run);
  EXPECT_FALSE(in_primary(run));
  EXPECT_EQ(counts().arenas, 2);
  EXPECT_EQ(run.dirty, 0u);
  EXPECT_TRUE(kernel().is_accessible(run.address, 5 * kFrameSize));
  EXPECT_EQ(frames().arena_of(run.address)->bytes(), kGiB);
  EXPECT_FALSE(in_primary(frames().take(1000, 1))) << "from the same one";
  EXPECT_EQ(counts().arenas, 2);
  check_counts();
}

TEST_F(FramesTest, ARunLongerThanAnyArenaGetsOneOfItsOwn) {
  const std::size_t length = 2 * kGiB / kFrameSize + 3;
  const Run run = frames().take(length, 1);
  ASSERT_TRUE(run);
  EXPECT_EQ(counts().arenas, 2);
  EXPECT_GE(frames().arena_of(run.address)->bytes(), length * kFrameSize);
  frames().give(run.address, length, 1);
  EXPECT_EQ(frames().take(length, 1).address, run.address);
  check_counts();
}

TEST_F(FramesTest, ALargeAlignmentFindsItsArena) {
  for (std::size_t alignment = 1; alignment <= 8 * kGiB / kFrameSize; alignment *= 2)
    for (std::size_t length : {1, 70}) {
      const Run run = frames().take(length, alignment);
      ASSERT_TRUE(run) << alignment;
      ASSERT_EQ(run.address % (alignment * kFrameSize), 0u);
      frames().give(run.address, length, 1);
    }
  check_counts();
}

TEST_F(FramesTest, AFurtherArenaIsLargeEnoughForTheAlignmentThatItWasMadeFor) {
  for (std::size_t gigabytes : {2, 4, 8}) {
    make();
    kernel().pack(40 * kGiB);
    frames().take(kPrimary, 1);  // an address in the primary may be so aligned by chance
    const Run run = frames().take(3, gigabytes * kGiB / kFrameSize);
    ASSERT_TRUE(run);
    EXPECT_EQ(run.address % (gigabytes * kGiB), 0u);
    EXPECT_EQ(counts().arenas, 2) << gigabytes << " GiB";
  }
}

TEST_F(FramesTest, EveryAddressLeadsToItsArenaAndForeignOnesToNone) {
  frames().take(kPrimary, 1);
  const Run further = frames().take(1, 1);
  EXPECT_EQ(frames().arena_of(base_), &frames().primary());
  EXPECT_EQ(frames().arena_of(base_ + kChunks * kChunkSize - 1), &frames().primary());
  EXPECT_TRUE(frames().arena_of(further.address)->contains(further.address));
  EXPECT_NE(frames().arena_of(further.address), &frames().primary());
  int local = 0;
  for (uptr foreign : {uptr{0}, uptr{1}, reinterpret_cast<uptr>(&local), ~uptr{0}, uptr{1} << 63})
    EXPECT_EQ(frames().arena_of(foreign), nullptr);
  EXPECT_FALSE(frames().take_behind(reinterpret_cast<uptr>(&local), reinterpret_cast<uptr>(&local), 1));
}

TEST_F(FramesTest, TakeBehindServesEachArena) {
  frames().take(kPrimary, 1);
  const Run further = frames().take(1, 1);
  const Run next = frames().take_behind(further.address, further.address + kFrameSize, 9);
  ASSERT_TRUE(next);
  EXPECT_EQ(next.address, further.address + kFrameSize);
  EXPECT_FALSE(frames().take_behind(further.address, further.address + kFrameSize, 1));
  check_counts();
}

TEST_F(FramesTest, WhereSoMuchAddressSpaceIsRefusedLessWillDo) {
  frames().take(kPrimary, 1);
  kernel().refuse_over(100 * kMiB);
  const Run run = frames().take(8, 1);
  ASSERT_TRUE(run);
  const std::size_t bytes = frames().arena_of(run.address)->bytes();
  EXPECT_LE(bytes, 100 * kMiB);
  EXPECT_GE(bytes, 50 * kMiB) << "but not less than need be";
  EXPECT_FALSE(frames().take(2000, 1)) << "there is no room for this one";
  kernel().refuse_nothing();
  EXPECT_TRUE(frames().take(2000, 1));
}

// Everything that takes a further arena can be refused at each of its calls.
TEST_F(FramesTest, AnyRefusedCallLosesNothingAndLaterCallsWork) {
  std::uint64_t refusals = 0;
  for (std::uint64_t nth = 1;; ++nth) {
    make();
    frames().take(kPrimary, 1);
    const auto before = kernel().ranges();
    const auto refused_before = kernel().refused();
    kernel().refuse_any(nth);
    const Run run = frames().take(3, 1);
    kernel().refuse_any(0);
    if (kernel().refused() == refused_before) break;
    ++refusals;
    EXPECT_TRUE(run || counts().arenas > 1 || kernel().ranges() == before) << "call " << nth;
    EXPECT_EQ(counts().used, kPrimary + (run ? 3 : 0)) << "call " << nth;
    EXPECT_TRUE(frames().take(3, 1)) << "call " << nth;
    check_counts();
  }
  EXPECT_GE(refusals, 3u) << "reserve, map, commit";
}

TEST_F(FramesTest, WhenAllIsRefusedNothingIsLost) {
  frames().take(kPrimary, 1);
  const auto before = kernel().ranges();
  kernel().refuse_all(true);
  for (int i = 0; i < 1000; ++i) ASSERT_FALSE(frames().take(1 + i % 100, 1));
  EXPECT_EQ(kernel().ranges(), before);
  kernel().refuse_nothing();
  EXPECT_TRUE(frames().take(100, 1));
  check_counts();
}

// Where memory is refused, but not address space (overcommit mode 2, RLIMIT_DATA), asking again and again must not
// reserve more and more of it.
TEST_F(FramesTest, RefusedMemoryDoesNotPileUpArenas) {
  frames().take(kPrimary - 1, 1);
  kernel().refuse_from_now_on(Call::kCommit);
  for (int i = 0; i < 100; ++i) ASSERT_FALSE(frames().take(100, 1));
  EXPECT_LE(counts().arenas, 2);
  kernel().refuse_nothing();
  EXPECT_TRUE(frames().take(100, 1));
}

TEST_F(FramesTest, DirtyFramesAreGivenBackBeforeMemoryIsRefused) {
  const Run run = frames().take(200, 1);
  frames().give(run.address, 200, 1);
  ASSERT_GT(counts().dirty, 0u);
  // The commit of more is refused once; giving memory back makes room.
  kernel().refuse(Call::kCommit, 1, 2);
  kernel().refuse_over(0);
  EXPECT_TRUE(frames().take(kPrimary, 1));
  EXPECT_GE(kernel().calls(Call::kPurge), 1u);
  check_counts();
}

TEST_F(FramesTest, PurgingReachesAllArenasAndStopsAtItsTarget) {
  const Run first = frames().take(kPrimary, 1), second = frames().take(1000, 1);
  frames().give(first.address, kPrimary, 1);
  frames().give(second.address, 1000, 1);
  frames().purge_to(100);
  EXPECT_LE(counts().dirty, 100u);
  EXPECT_GT(counts().dirty, 100u - kChunkFrames) << "no more than a run too much";
  check_counts();
  frames().purge_to(0);
  EXPECT_EQ(counts().dirty, 0u);
  check_counts();
  EXPECT_TRUE(test::is_zero(second.address, 1000 * kFrameSize));
}

// What a purge does not find is put aside as lost; what was only on its way must not stay there.
TEST_F(FramesTest, FramesThatWereOnTheirWayWhileAllWasPurgedGoLater) {
  const std::size_t some = 3 * kChunkFrames;
  const Run slow = frames().take(some, 1);
  TestEnv::at_step("frames.giving", [&] { frames().purge_to(0); });
  frames().give(slow.address, some, kNow);
  ASSERT_FALSE(TestEnv::step_left());
  for (u64 ticks = 1; ticks < 40; ++ticks) frames().tick(kNow + ticks * purge_policy::kTickNs);
  EXPECT_LE(counts().dirty, purge_policy::kFloorFrames);
  check_counts();
}

TEST_F(FramesTest, FramesThatAreGivenBehindAPurgesBackGoLater) {
  const std::size_t some = 2 * kChunkFrames;
  const Run low = frames().take(kChunkFrames, 1), high = frames().take(some, 1);
  frames().give(low.address, kChunkFrames, kNow);
  TestEnv::at_step("arena.purged", [&] { frames().give(high.address, some, kNow); });
  frames().purge_to(0);
  ASSERT_FALSE(TestEnv::step_left());
  ASSERT_EQ(counts().dirty, some);
  for (u64 ticks = 1; ticks < 40; ++ticks) frames().tick(kNow + ticks * purge_policy::kTickNs);
  EXPECT_LE(counts().dirty, purge_policy::kFloorFrames);
  check_counts();
}

// Those of a thread that vanished before it gave them are not looked for on each call, and cost the others nothing.
// What others free meanwhile is theirs to look at: a call purges about as much as it set out to.
TEST_F(FramesTest, APurgeDoesNotGoOnForWhatOthersFreeMeanwhile) {
  const std::size_t some = 2 * kChunkFrames;
  const Run low = frames().take(some, 1), high = frames().take(kChunkFrames, 1);
  frames().give(high.address, kChunkFrames, kNow);
  TestEnv::at_step("arena.purged", [&] { frames().give(low.address, some, kNow); });
  frames().purge_to(0, kChunkFrames);
  ASSERT_FALSE(TestEnv::step_left());
  EXPECT_EQ(counts().dirty, some);
  check_counts();
}

TEST_F(FramesTest, FramesOfAThreadThatVanishedWhileItGaveThemStayPutAside) {
  const std::size_t some = 3 * kChunkFrames;
  const Run run = frames().take(some, 1);
  ASSERT_TRUE(test::ended_at("frames.giving", [&] { frames().give(run.address, some, kNow); }));
  frames().purge_to(0);
  const Run other = frames().take(purge_policy::kFloorFrames / 2, 1);
  frames().give(other.address, purge_policy::kFloorFrames / 2, kNow);
  for (u64 ticks = 1; ticks < 40; ++ticks) frames().tick(kNow + ticks * purge_policy::kTickNs);
  EXPECT_EQ(counts().dirty, purge_policy::kFloorFrames / 2) << "no more than may stay";
}

TEST_F(FramesTest, TwoThreadsThatMakeAnArenaAtOnceMakeTwo) {
  frames().take(kPrimary, 1);
  Run other;
  TestEnv::at_step("frames.publish", [&] { other = frames().take(7, 1); });
  const Run run = frames().take(7, 1);
  ASSERT_TRUE(run && other);
  EXPECT_EQ(counts().arenas, 3);
  EXPECT_EQ(counts().used, kPrimary + 14);
  EXPECT_NE(frames().arena_of(run.address), frames().arena_of(other.address));
  check_counts();
}

TEST_F(FramesTest, AThreadThatStopsBeforeItPublishesStopsNobody) {
  frames().take(kPrimary, 1);
  EXPECT_TRUE(test::ended_at("frames.publish", [&] { frames().take(7, 1); }));
  EXPECT_EQ(counts().arenas, 1);
  EXPECT_TRUE(frames().take(7, 1));
}

TEST_F(FramesTest, WhenTheTableIsFullNothingIsLost) {
  frames().take(kPrimary, 1);
  kernel().refuse_over(kChunkSize);  // the smallest arenas that there are
  std::size_t arenas = 0;
  while (frames().take(kChunkFrames, 1)) ++arenas;
  EXPECT_EQ(arenas, FurtherArenas<TestEnv>::kMost);
  const auto before = kernel().ranges();
  EXPECT_FALSE(frames().take(1, 1));
  EXPECT_EQ(kernel().ranges(), before);
  check_counts();
}

TEST_F(FramesTest, RandomTrafficOverSeveralArenasKeepsFramesApartAndCountsTrue) {
  Random random(test::test_seed());
  kernel().refuse_over(8 * kMiB);
  struct Held {
    uptr address;
    std::size_t frames;
  };
  std::vector<Held> held;
  u64 now = 1;
  for (int i = 0; i < 5000; ++i) {
    if (held.size() < 60 && random.chance(55)) {
      const std::size_t n = 1 + random.below(random.chance(80) ? 20 : 100);
      if (random.chance(20)) kernel().refuse(static_cast<Call>(random.below(test::kCalls)));
      const Run run = frames().take(n, std::size_t{1} << random.below(4));
      if (!run) continue;
      for (std::size_t f = 0; f < n; ++f) {
        auto* word = reinterpret_cast<u64*>(run.address + f * kFrameSize);
        ASSERT_TRUE(run.dirty != 0 || *word == 0);
        *word = run.address + f;
      }
      held.push_back({run.address, n});
    } else if (!held.empty()) {
      const std::size_t which = random.below(held.size());
      const Held h = held[which];
      for (std::size_t f = 0; f < h.frames; ++f)
        ASSERT_EQ(*reinterpret_cast<u64*>(h.address + f * kFrameSize), h.address + f);
      frames().give(h.address, h.frames, now += random.below(100'000'000));
      held.erase(held.begin() + static_cast<long>(which));
    }
    check_counts();
  }
  EXPECT_GT(counts().arenas, 2);
}

}  // namespace
}  // namespace freeway
