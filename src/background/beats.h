// SPDX-License-Identifier: MIT
// Beats: the helper's care at each quarter of a second, as a function of the time since a slow path last looked at the
// clock.
//
//   quiet for        care
//   less than 3/4 s  kDue    gives back what the purge policy lets go; empties slabs that are not used
//   3/4 s            kIdle   also the memory of all free frames
//   1 s              kDeep   also free blocks' pages in superblocks, which takes longer: so not again before 256 times
//                    as
//                            long as it took (10 min at most: it may have been stopped), and until then as if it were
//                            not yet 1 s
//   2 s              kSleep  until the next tick
//
// Where a rate (pace.h) lets only a part of kIdle's or kDeep's care be done, the next beat goes on with it.
//
// Checked   tests/background/beats_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::background {

enum class Care { kDue, kIdle, kDeep, kSleep };

constexpr u64 kBeatNs = 250'000'000;
constexpr u64 kLongNs = 60'000'000'000;  // the longest sleep: see helper.cc
constexpr unsigned kIdleBeats = 3, kDeepBeats = 4, kSleepBeats = 8;
constexpr u64 kDeepShare = 256, kLongestPauseNs = 600'000'000'000;

class Beats {
 public:
  // The next beat's care. `ticks`: the number counted by now; `now`: the time in ns.
  constexpr Care next(u64 ticks, u64 now) {
    if (ticks != seen_) {
      seen_ = ticks;
      quiet_ = 0;
      is_owed_ = true;
    } else if (quiet_ < kSleepBeats) {
      ++quiet_;
    }
    if (quiet_ >= kDeepBeats && is_owed_ && now < deep_from_) quiet_ = kDeepBeats - 1;
    if (quiet_ == kIdleBeats) return Care::kIdle;
    if (quiet_ == kDeepBeats && is_owed_) return Care::kDeep;
    return quiet_ < kSleepBeats ? Care::kDue : Care::kSleep;
  }
  // The care began at `from` and ended at `now`; a part of it, if it is not complete.
  constexpr void done(Care care, u64 from, u64 now, bool complete = true) {
    if (!complete && care != Care::kDue) {
      quiet_ = (care == Care::kIdle ? kIdleBeats : kDeepBeats) - 1;
      return;
    }
    if (care != Care::kDeep) return;
    is_owed_ = false;
    deep_from_ = now + clamp(kDeepShare * (now - from), 0, kLongestPauseNs);
  }
  constexpr u64 seen() const { return seen_; }

 private:
  u64 seen_ = 0, deep_from_ = 0;
  unsigned quiet_ = 0;
  bool is_owed_ = false;
};

}  // namespace freeway::background
