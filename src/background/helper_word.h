// SPDX-License-Identifier: MIT
// HelperWord: whether this process has its helper thread, and whether a slow path must wake it.
//
// Words     thread, a claim (sync/claim.h): 0 = there is none -> kMaking (take) -> its thread id (the kernel's store,
//           when it makes the thread) -> 0 (the kernel's store, when the thread has ended, however it ended). kMaking
//           -> 0: its maker, when the kernel refused
//           pulse: how often slow paths looked at the clock : 63 | asleep : 1
// Moves     tick: pulse + 2 (add); if it was asleep: not asleep (AND), and the thread that cleared the bit wakes it
//           lie_down: seen -> seen | asleep (CAS): fails if there was a tick since. rise: not asleep (AND)
//           not_woken: a failed wake sets asleep again (OR), so the next tick retries. One wake too many is harmless
// Invariant between kMaking and 0 only the maker and the helper use the helper's block
// Invariant between kMaking and 0 the block that the helper lives on is its maker's and its own
// Forks     the words lie in memory that the kernel wipes in the child: there, no thread, nothing seen. A maker blocks
//           all signals, so that no handler of its own can fork while it makes
// Who       tick, begin: any thread, any signal handler, the child of any fork; the rest the helper
// Orders    but for the claim's all relaxed: nothing is published. Between one helper's end and the next one's begin is
//           the kernel, which clears the word when the thread can touch nothing any more
// Progress  wait-free
// Lost if killed: between kMaking and the thread: this process has no helper. Between `not asleep` and the signal: the
// helper
//           sleeps until its long wait is over (helper.cc)
// Checked   tests/background/helper_word_model.cc
#pragma once

#include "sync/claim.h"

namespace freeway::background {

enum class Due { kNothing, kHelper, kWake };

template <class Env> class HelperWord {
 public:
  using Thread = typename Env::template Atomic<u32>;
  static constexpr u32 kMaking = ~u32{0};

  // A slow path looked at the clock. Returns its duty towards the helper.
  Due tick() {
    const u64 before = pulse_.fetch_add_relaxed(kTick);
    const bool asleep = (before & kAsleep) != 0;
    if (asleep && (pulse_.fetch_and_relaxed(~kAsleep) & kAsleep) != 0) return Due::kWake;
    return thread_.holder() == 0 ? Due::kHelper : Due::kNothing;
  }

  // The wake failed.
  void not_woken() { pulse_.fetch_or_relaxed(kAsleep); }

  // Whether the caller is to make the thread, for thread(); if it cannot, it calls refused().
  bool begin() { return thread_.take(kMaking); }
  void refused() { thread_.release(); }

  Thread& thread() { return thread_.word(); }
  // The helper's thread id; 0 if there is none, or not yet.
  u32 id() const {
    const u32 now = thread_.holder();
    return now == kMaking ? 0 : now;
  }

  // The rest is the helper's. The number of ticks:
  u64 ticks() const { return pulse_.load_relaxed() / kTick; }
  // Before a long wait. False: there was a tick since there were `seen`.
  bool lie_down(u64 seen) {
    u64 now = pulse_.load_relaxed();  // OPTIMISTIC: pulse
    return now / kTick == seen && pulse_.cas_relaxed(now, now | kAsleep);
  }
  void rise() { pulse_.fetch_and_relaxed(~kAsleep); }

 private:
  static constexpr u64 kAsleep = 1, kTick = 2;
  Claim<Env, u32> thread_;
  typename Env::template Atomic<u64> pulse_;
};

}  // namespace freeway::background
