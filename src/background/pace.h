// SPDX-License-Identifier: MIT
// Pace: how many bytes the helper may give back now, of so many a second (FREEWAY_BACKGROUND=64m/s).
//
// Each second earns `rate` bytes. What a beat earns is kept for later, and a frame, or a low rate would never reach
// one; no more. A piece that turns out longer than the allowance is a debt. So over any time it is `rate` bytes a
// second, what was kept, and one piece (frames: 4 MiB). What other threads give back meanwhile counts, too: the rate is
// the process's, as far as the helper can keep it.
//
// Checked   tests/background/pace_test.cc
#pragma once

#include "background/beats.h"
#include "size/size_classes.h"

namespace freeway::background {

class Pace {
 public:
  static constexpr u64 kMostRate = kGiB * 1024;

  // Bytes a second, at most kMostRate; 0: any.
  constexpr explicit Pace(u64 rate = 0) : rate_(rate) {}

  constexpr bool is_set() const { return rate_ != 0; }

  // Bytes for now (ns).
  constexpr std::size_t allowance(u64 now) {
    if (rate_ == 0) return ~std::size_t{0};
    const u64 us = now > last_ ? clamp(now - last_, 0, kSecondNs) / 1000 : 0;
    const i64 earned = static_cast<i64>(rate_ * us / kSecondUs), most = static_cast<i64>(most_kept());
    if (earned != 0) {  // else the time goes on counting
      last_ = now;
      credit_ = credit_ + earned < most ? credit_ + earned : most;
    }
    return credit_ > 0 ? static_cast<std::size_t>(credit_) : 0;
  }

  // So many were given back.
  constexpr void spend(std::size_t bytes) {
    if (rate_ != 0) credit_ -= static_cast<i64>(bytes);
  }

 private:
  static constexpr u64 kSecondNs = 1'000'000'000, kSecondUs = 1'000'000;

  constexpr u64 most_kept() const { return rate_ / (kSecondNs / kBeatNs) + kFrameSize; }

  u64 rate_, last_ = 0;
  i64 credit_ = 0;
};

}  // namespace freeway::background
