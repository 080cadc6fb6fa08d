// SPDX-License-Identifier: MIT
//
// Tests of pages/purge_policy.h: the counts it keeps, what it lets stay, and how it forgets.
#include "pages/purge_policy.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/test_env.h"

namespace freeway {
namespace {

using purge_policy::allowed_for_a_tick;
using purge_policy::allowed_for_long;
using purge_policy::decayed;
using purge_policy::kTickNs;
using Policy = PurgePolicy<test::TestEnv>;

constexpr std::size_t kFloor = 64;  // frames: 4 MiB
constexpr std::size_t kStep = 256;  // frames: 16 MiB
constexpr std::size_t kLeft = 128;  // frames: 8 MiB: what does not go at once
constexpr u64 kNow = 1'000'000'000;

TEST(PurgePolicy, TheBoundsAreWhatTheCommentSays) {
  EXPECT_EQ(purge_policy::kFloorFrames, kFloor);
  EXPECT_EQ(purge_policy::kStepFrames, kStep);
}

TEST(PurgePolicy, LiveAndFreeTogetherMayBeTheRecentPeakAndAnEighthOrFourMegabytesAreFree) {
  for (std::size_t live = 0; live < 3000; ++live)
    for (std::size_t peak = 0; peak < 6000; peak += 13) {
      const std::size_t top = std::max(peak, live);
      ASSERT_EQ(allowed_for_long(peak, live), std::max(top + top / 8 - live, kFloor)) << peak << " " << live;
      ASSERT_EQ(allowed_for_a_tick(peak, live), std::max(top + top / 2 - live, kFloor)) << peak << " " << live;
    }
}

TEST(PurgePolicy, ThePeakIsForgottenByAQuarterOfItsDistanceATick) {
  for (std::size_t live = 0; live < 500; live += 7)
    for (std::size_t peak = 0; peak < 4000; peak += 3) {
      ASSERT_EQ(decayed(peak, live, 0), peak > live ? peak : live);
      const std::size_t once = decayed(peak, live, 1);
      ASSERT_GE(once, live);
      if (peak > live) { ASSERT_EQ(once - live, (peak - live) * 3 / 4) << peak << " " << live; }
      ASSERT_EQ(decayed(peak, live, 2), decayed(once, live, 1));
      ASSERT_EQ(decayed(peak, live, 7), decayed(decayed(peak, live, 3), live, 4));
      ASSERT_EQ(decayed(peak, live, purge_policy::kMostTicks), live) << "after 8 s nothing of such a peak is left";
      ASSERT_EQ(decayed(peak, live, ~u64{0}), live);
    }
  EXPECT_LT(decayed(std::size_t{1} << 30, 0, ~u64{0}), (std::size_t{1} << 30) / 5000) << "of 64 TiB almost nothing";
}

TEST(PurgePolicy, CountsWhatLivesAndWhatIsDirty) {
  Policy policy;
  policy.on_take(100, 0);
  EXPECT_EQ(policy.live(), 100u);
  EXPECT_EQ(policy.dirty(), 0u);
  policy.on_give(30);
  EXPECT_EQ(policy.live(), 70u);
  EXPECT_EQ(policy.dirty(), 30u);
  policy.on_take(20, 15);  // 15 of them were dirty
  EXPECT_EQ(policy.live(), 90u);
  EXPECT_EQ(policy.dirty(), 15u);
  policy.on_purge(10);
  EXPECT_EQ(policy.live(), 90u);
  EXPECT_EQ(policy.dirty(), 5u);
  EXPECT_EQ(policy.purged_bytes(), 10 * kFrameSize);
  EXPECT_EQ(policy.purges(), 1u);
  policy.on_purge_bytes(4096);  // pages under free blocks: no frames
  EXPECT_EQ(policy.live(), 90u);
  EXPECT_EQ(policy.dirty(), 5u);
  EXPECT_EQ(policy.purged_bytes(), 10 * kFrameSize + 4096);
  EXPECT_EQ(policy.purges(), 2u);
}

// Purges what the policy asks for; returns how much that was.
std::size_t purge(Policy& policy, u64 now) {
  const std::size_t target = policy.target(now), dirty = policy.dirty();
  if (target >= dirty) return 0;
  policy.on_purge(dirty - target);
  return dirty - target;
}

// What a program that allocates and frees so many frames at once does.
void phase(Policy& policy, std::size_t frames) {
  policy.on_take(frames, policy.dirty() < frames ? policy.dirty() : frames);
  policy.on_give(frames);
}

TEST(PurgePolicy, WhatWasNeededAMomentAgoStays) {
  Policy policy;
  purge(policy, kNow);  // starts the clock
  for (u64 now = kNow; now < kNow + kTickNs; now += kTickNs / 100) {
    phase(policy, 100'000);
    ASSERT_EQ(purge(policy, now), 0u);
  }
  EXPECT_EQ(policy.dirty(), 100'000u);
}

TEST(PurgePolicy, APhaseThatComesAgainWithinATickIsNeverPaidFor) {
  Policy policy;
  purge(policy, kNow);
  for (u64 now = kNow; now < kNow + 100 * kTickNs; now += kTickNs / 2) {
    phase(policy, 5000);
    if (now >= kNow + 2 * kTickNs) {
      ASSERT_LE(purge(policy, now), 5000u / 4) << "a tick's share at most, and the next phase wants it again";
    }
  }
}

TEST(PurgePolicy, WhatIsNoLongerNeededGoesWithinSecondsAndNotAtOnce) {
  Policy policy;
  purge(policy, kNow);
  phase(policy, 4000);  // 250 MiB
  u64 now = kNow;
  int ticks = 0;
  while (policy.dirty() > kFloor && ticks < 100) {
    now += kTickNs;
    ++ticks;
    const std::size_t purged = purge(policy, now);
    ASSERT_LE(purged, 4000u / 4 + 1) << "at once";
  }
  EXPECT_EQ(policy.dirty(), kFloor / 4);  // a quarter of what may stay
  EXPECT_GT(ticks, 4);
  EXPECT_LE(ticks, 40) << "ten seconds";
}

TEST(PurgePolicy, OneCallGivesBackAStepAtMost) {
  Policy policy;
  purge(policy, kNow);
  phase(policy, 100'000);
  std::size_t before = policy.dirty();
  const u64 much_later = kNow + 1000 * kTickNs;
  for (int calls = 0; policy.dirty() > kFloor; ++calls) {
    ASSERT_LT(calls, 1000);
    ASSERT_LE(purge(policy, much_later), kStep);
    ASSERT_LT(policy.dirty(), before) << "each call gets on with it";
    before = policy.dirty();
  }
  EXPECT_EQ(policy.dirty(), kFloor / 4);
}

TEST(PurgePolicy, UpToFourMegabytesNothingEverGoes) {
  Policy policy;
  purge(policy, kNow);
  phase(policy, kFloor);
  EXPECT_EQ(purge(policy, kNow + 1000 * kTickNs), 0u);
  EXPECT_EQ(policy.dirty(), kFloor);
}

TEST(PurgePolicy, WhoLivesLargeMayKeepAnEighth) {
  Policy policy;
  purge(policy, kNow);
  policy.on_take(9000, 0);
  policy.on_give(1000);  // 8000 live: 1000 may stay
  EXPECT_EQ(purge(policy, kNow + 1000 * kTickNs), 0u);
  policy.on_give(80);  // 7920 live: 990 may stay of 1080; purged down to 247, a step of 256 at a time
  EXPECT_EQ(purge(policy, kNow + 2000 * kTickNs), kStep);
  EXPECT_EQ(purge(policy, kNow + 2000 * kTickNs), 0u) << "824 are fewer than may stay";
}

TEST(PurgePolicy, GapsBetweenLargeBlocksStayWhileTheyAreUsedNowAndThen) {
  Policy policy;
  purge(policy, kNow);
  policy.on_take(8000, 0);
  policy.on_give(3000);     // 5000 live: 4000 may stay for long, 7000 for a tick
  policy.on_take(1500, 0);  // they did not fit into the gaps
  policy.on_give(1500);
  std::size_t purged = 0;
  for (int tick = 1; tick < 50; ++tick) {
    policy.on_take(4000, std::min<std::size_t>(policy.dirty(), 4000));
    policy.on_give(4000);
    policy.on_take(3000, 0);
    policy.on_give(3000);
    policy.on_purge(policy.dirty() - 4500);  // so that there are as many gaps again: not the policy's doing
    purged += purge(policy, kNow + tick * kTickNs);
  }
  // Until it is learned that they are missed (all that may not stay at once), and what is forgotten of it each tick.
  const std::size_t missed = 4500 - kLeft - 5000 / 8;
  EXPECT_LE(purged, missed + 49 * (missed / 32 + 1));
}

TEST(PurgePolicy, WhatNobodyUsedForATickGoesDownToAnEighth) {
  Policy policy;
  purge(policy, kNow);
  policy.on_take(9000, 0);
  policy.on_give(2000);  // 7000 live: at most 2000 may stay in the first tick (the peak is forgotten meanwhile)
  std::size_t purged = purge(policy, kNow + kTickNs);
  EXPECT_LE(purged, kStep) << "it may have been freed a moment ago";
  for (int tick = 2; tick < 30; ++tick)
    while (const std::size_t step = purge(policy, kNow + tick * kTickNs)) purged += step;
  EXPECT_LE(policy.dirty(), 7000u / 8);
  EXPECT_GE(purged, 2000u - 7000 / 8);
}

TEST(PurgePolicy, MoreThanHalfThePeakGoesAtOnce) {
  Policy policy;
  purge(policy, kNow);
  policy.on_take(1000, 0);
  policy.on_give(1000);
  policy.on_take(600, 0);  // none of the 1000 fitted
  EXPECT_EQ(purge(policy, kNow), kStep) << "1600 are more than 1500";
}

TEST(PurgePolicy, ANewPeakCountsAtOnce) {
  Policy policy;
  purge(policy, kNow);
  phase(policy, 1000);
  EXPECT_EQ(purge(policy, kNow), 0u);
  phase(policy, 2000);
  EXPECT_EQ(purge(policy, kNow), 0u);
}

// Two threads read the clock; the one that was first comes second.
TEST(PurgePolicy, ATimeBeforeTheLastOneForgetsNothing) {
  Policy policy;
  purge(policy, kNow);
  phase(policy, 4000);
  EXPECT_EQ(purge(policy, kNow - 1), 0u);
  EXPECT_EQ(purge(policy, kNow), 0u);
  EXPECT_EQ(policy.dirty(), 4000u);
}

// Threads that vanish between counting and giving leave the count too high for ever.
TEST(PurgePolicy, FramesThatNoPurgeCanFindAreNotCountedAnyLonger) {
  Policy policy;
  policy.on_take(5000, 0);
  policy.on_give(5000);
  purge(policy, kNow);
  policy.on_exhausted();  // none of what is counted was found
  EXPECT_GE(policy.target(kNow + 1000 * kTickNs), policy.dirty());
  policy.on_take(kFloor, 0);
  policy.on_give(kFloor);
  EXPECT_GE(policy.target(kNow + 2000 * kTickNs), policy.dirty());
  policy.on_take(1, 0);
  policy.on_give(1);
  EXPECT_LT(policy.target(kNow + 3000 * kTickNs), policy.dirty());
}

TEST(PurgePolicy, ARefusedPurgeIsNotTriedAgainAtOnce) {
  Policy policy;
  purge(policy, kNow);
  policy.on_take(5000, 0);
  policy.on_give(5000);
  const u64 later = kNow + 1000 * kTickNs;
  ASSERT_LT(policy.target(later), policy.dirty());
  policy.on_refused();
  EXPECT_GE(policy.target(later + kTickNs), policy.dirty());
  EXPECT_LT(policy.target(later + 1000 * kTickNs), policy.dirty());
}

// --- At once, within the budget. -------------------------------------------------------------------------------------

constexpr std::size_t kLeast = 64, kATick = 256, kMost = 65536;  // frames: 4 MiB, 16 MiB, 4 GiB

// A process that has lived for so many ticks.
u64 live_for(Policy& policy, u64 ticks) {
  policy.begin(kNow);
  const u64 now = kNow + ticks * kTickNs;
  EXPECT_EQ(purge(policy, now), 0u);
  return now;
}

std::size_t purge_all(Policy& policy, u64 now) {
  std::size_t all = 0;
  while (const std::size_t frames = purge(policy, now)) {
    EXPECT_LE(frames, kStep);
    all += frames;
  }
  return all;
}

TEST(PurgePolicy, TheBoundsOfWhatGoesAtOnceAreWhatTheCommentSays) {
  EXPECT_EQ(purge_policy::kAtOnceFloorFrames, kLeft);
  EXPECT_EQ(purge_policy::kLeastAtOnceFrames, kLeast);
  EXPECT_EQ(purge_policy::kBudgetATickFrames, kATick);
  EXPECT_EQ(kATick * kFrameSize * 4, 64 * kMiB) << "four ticks a second";
  EXPECT_EQ(purge_policy::kMostBudgetFrames, kMost);
}

TEST(PurgePolicy, ABurstOfAProcessThatHasLivedLongEnoughGoesAtOnce) {
  Policy policy;
  const u64 now = live_for(policy, 20);  // 5 s: 320 MiB
  phase(policy, 4096);                   // 256 MiB
  EXPECT_EQ(purge_all(policy, now), 4096 - kLeft);
  EXPECT_EQ(policy.dirty(), kLeft);
}

TEST(PurgePolicy, OfAYoungProcessOnlyWhatItHasTimeFor) {
  for (u64 ticks = 0; ticks < 16; ++ticks) {
    Policy policy;
    const u64 now = live_for(policy, ticks);
    phase(policy, 4096);
    ASSERT_EQ(purge_all(policy, now), ticks * kATick);
    ASSERT_EQ(purge_all(policy, now), 0u);
  }
}

TEST(PurgePolicy, TheBudgetIsFourGigabytesAtMost) {
  Policy policy;
  const u64 now = live_for(policy, 100'000'000);
  phase(policy, 2 * kMost);
  EXPECT_EQ(purge_all(policy, now), kMost);
}

TEST(PurgePolicy, AnEighthOfWhatLivesStaysToo) {
  Policy policy;
  const u64 now = live_for(policy, 40);
  policy.on_take(8000 + 2000, 0);
  policy.on_give(2000);
  EXPECT_EQ(purge_all(policy, now), 2000 - kLeft - 8000 / 8);
}

TEST(PurgePolicy, WhatIsMissedWithinASecondIsLearned) {
  Policy policy;
  const u64 now = live_for(policy, 100);
  phase(policy, 4096);
  ASSERT_EQ(purge_all(policy, now), 4096 - kLeft);
  phase(policy, 4096);  // the same again, of which 128 frames were there
  EXPECT_EQ(purge_all(policy, now), 0u) << "all that was missed stays";
  for (int again = 0; again < 100; ++again) {
    phase(policy, 4096);
    ASSERT_EQ(purge_all(policy, now), 0u);
  }
}

TEST(PurgePolicy, WhatIsMissedMuchLaterIsNot) {
  Policy policy;
  u64 now = live_for(policy, 100);
  for (int round = 0; round < 5; ++round) {
    phase(policy, 4096);
    ASSERT_GE(purge_all(policy, now), 4096 - kLeft - 256) << round;
    now += 40 * kTickNs;
    purge_all(policy, now);
  }
}

TEST(PurgePolicy, HalfOfWhatWasLearnedIsForgottenInFiveAndAHalfSeconds) {
  EXPECT_EQ(purge_policy::forgotten(1000, 0), 1000u);
  EXPECT_EQ(purge_policy::forgotten(1000, 1), 1000 - 32u);
  EXPECT_NEAR(static_cast<double>(purge_policy::forgotten(100'000, 22)), 50'000, 1000);
  EXPECT_EQ(purge_policy::forgotten(100'000, ~u64{0}), purge_policy::forgotten(100'000, 256));
  EXPECT_LT(purge_policy::forgotten(100'000, ~u64{0}), 100u);
}

TEST(PurgePolicy, WhatIsKeptDoesNotGoAtOnce) {
  Policy policy;
  const u64 now = live_for(policy, 100);
  policy.keep(3000);
  phase(policy, 4096);
  EXPECT_EQ(purge_all(policy, now), 4096u - 3000);
}

TEST(PurgePolicy, NeverIsNeverAtOnceEither) {
  Policy policy;
  const u64 now = live_for(policy, 100);
  policy.never(Policy::kProgram, true);
  phase(policy, 4096);
  EXPECT_EQ(purge_all(policy, now), 0u);
  policy.never(Policy::kUser, true);
  policy.never(Policy::kProgram, false);
  EXPECT_EQ(purge_all(policy, now), 0u) << "the user still asks for it";
  policy.never(Policy::kUser, false);
  EXPECT_GT(purge_all(policy, now), 0u);
}

}  // namespace
}  // namespace freeway
