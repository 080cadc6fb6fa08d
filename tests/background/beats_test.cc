// SPDX-License-Identifier: MIT
//
// Tests of background/beats.h: when the helper does what, and that it does the long work neither twice nor too often.
#include "background/beats.h"

#include <gtest/gtest.h>

#include <string>

namespace freeway::background {
namespace {

constexpr u64 kMs = 1'000'000;

// A helper whose care takes `deep_ns` where it is deep. One letter a beat: due, Idle, DEEP, sleep.
class Life {
 public:
  explicit Life(u64 deep_ns = 0) : deep_ns_(deep_ns) {}
  char beat(bool has_ticked) {
    now_ += kBeatNs;
    ticks_ += has_ticked;
    const Care care = beats_.next(ticks_, now_);
    const u64 from = now_;
    if (care == Care::kDeep) now_ += deep_ns_;
    if (care != Care::kSleep) beats_.done(care, from, now_);
    return ".ID-"[static_cast<int>(care)];
  }
  void tick_while_it_cares() { ++ticks_; }
  std::string beats(const std::string& program) {  // t: there was a tick since the last beat
    std::string all;
    for (const char c : program) all += beat(c == 't');
    return all;
  }

 private:
  Beats beats_;
  u64 now_ = 0, ticks_ = 0, deep_ns_;
};

TEST(Beats, AProgramThatStopsIsCleanedUpAfterItOnceAndThenLeftAlone) {
  EXPECT_EQ(Life().beats("ttt          "), ".....ID...---");
}

TEST(Beats, ACareThatARateCutShortGoesOnAtTheNextBeat) {
  Beats beats;
  std::string all;
  int parts = 0;
  for (u64 i = 1; i <= 20; ++i) {
    const u64 now = i * kBeatNs, ticks = i < 8 ? 1 : 2;
    const Care care = beats.next(ticks, now);
    all += ".ID-"[static_cast<int>(care)];
    if (care == Care::kIdle || care == Care::kDeep) ++parts;
    if (care != Care::kSleep) beats.done(care, now, now, /*complete=*/care == Care::kDue || parts % 3 == 0);
  }
  EXPECT_EQ(all, "...IIID...IIDDD...--");
}

TEST(Beats, EachTickBeginsItAgain) { EXPECT_EQ(Life().beats("t  t  t   t     t"), ".........I...ID.."); }

TEST(Beats, AHelperThatWakesWithoutATickGoesBackToSleep) {
  Life life;
  EXPECT_EQ(life.beats("t        "), "...ID...-");
  EXPECT_EQ(life.beats("   "), "---");
}

TEST(Beats, TheDeepCareOfASleeperThatIsWokenAgainAndAgainTakesNoMoreThanItsShare) {
  const u64 deep = 40 * kMs;
  Life life(deep);
  u64 deeps = 0, beats = 0;
  for (; beats < 40000; ++beats) deeps += life.beat(beats % 10 == 0) == 'D';
  EXPECT_GT(deeps, 0u);
  EXPECT_LE(deeps * deep, (beats * kBeatNs + deeps * deep) / kDeepShare + deep);
}

TEST(Beats, WhatIsFreedWhileItCaresIsSeenAfterIt) {
  Life life;
  EXPECT_EQ(life.beats("t    "), "...ID");
  life.tick_while_it_cares();
  EXPECT_EQ(life.beats("     "), "...ID");
}

TEST(Beats, AHelperThatWasStoppedForADayIsBackAfterTenMinutes) {
  Life life(86'400'000 * kMs);
  EXPECT_EQ(life.beats("t    "), "...ID");
  const std::string later = life.beats("t" + std::string(2500, ' '));
  EXPECT_NE(later.find('D'), std::string::npos);
}

TEST(Beats, WhatIsOwedIsDoneWhenItIsAllowed) {
  Life life(8 * kMs);  // allowed again after 2048 ms
  EXPECT_EQ(life.beats("t    "), "...ID");
  EXPECT_EQ(life.beats("t         "), "...IIIIID.");
}

}  // namespace
}  // namespace freeway::background
