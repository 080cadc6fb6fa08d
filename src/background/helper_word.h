// SPDX-License-Identifier: MIT
// HelperWord: whether this process has its helper thread, and whether somebody must wake it.
//
// Words     thread: 0 = there is none -> kMaking (CAS) -> its thread id (the kernel's store, when it makes the thread) -> 0
//           (the kernel's store, when the thread has ended, however it did). kMaking -> 0: its maker, whom the kernel refused
//           pulse: how often slow paths looked at the clock : 63 | asleep : 1
// Moves     tick: pulse + 2 (add); if it was asleep: not asleep (AND): who did that wakes it
//           lie_down: seen -> seen | asleep (CAS): fails if there was a tick since. rise: not asleep (AND)
//           not_woken: asleep (OR), by who was to wake it and could not: the next tick will try. It may be up by then, and
//           is woken once more
// Invariant between kMaking and 0 the block that the helper lives on is its maker's and its own
// Forks     the words lie in memory that the kernel wipes in the child: there, no thread, nothing seen. A maker blocks all
//           signals, so that no handler of its own can fork while it makes
// Who       tick, begin: any thread, any signal handler, the child of any fork; the rest the helper
// Orders    all relaxed: nothing is published; between a helper's end and the next one's begin is the kernel, which clears
//           the word when the thread can touch nothing any more
// Progress  wait-free
// Lost if killed: between kMaking and the thread: this process has no helper. Between `not asleep` and the signal: the helper
//           sleeps until its long wait is over (helper.cc)
// Checked   tests/model/helper_word_model.cc
#pragma once

#include "base/integers.h"

namespace freeway::background {

enum class Due { kNothing, kHelper, kWake };

template <class Env>
class HelperWord {
 public:
  using Thread = typename Env::template Atomic<u32>;
  static constexpr u32 kMaking = ~u32{0};

  // A slow path looked at the clock: what it must do about the helper.
  Due tick() {
    const u64 before = pulse_.fetch_add_relaxed(kTick);
    const bool asleep = (before & kAsleep) != 0;
    if (asleep && ((pulse_.fetch_and_relaxed(~kAsleep) & kAsleep) != 0 || Env::mutant("everybody wakes"))) return Due::kWake;
    return thread_.load_relaxed() == 0 ? Due::kHelper : Due::kNothing;
  }

  // The helper could not be woken.
  void not_woken() { pulse_.fetch_or_relaxed(kAsleep); }

  // Whether the caller is to make the thread, for thread(); or to say that it could not.
  bool begin() {
    u32 none = 0;
    if (Env::mutant("made without asking")) return thread_.store_relaxed(kMaking), true;
    return thread_.load_relaxed() == 0 && thread_.cas_relaxed(none, kMaking);
  }
  void refused() { thread_.store_relaxed(0); }

  Thread& thread() { return thread_; }
  // The helper's thread id; 0 if there is none, or not yet.
  u32 id() const {
    const u32 now = thread_.load_relaxed();
    return now == kMaking ? 0 : now;
  }

  // The rest is the helper's. How many ticks there were:
  u64 ticks() const { return pulse_.load_relaxed() / kTick; }
  // Before it waits for long. False: there was a tick since there were `seen`.
  bool lie_down(u64 seen) {
    if (Env::mutant("lies down without looking")) return pulse_.fetch_or_relaxed(kAsleep), true;
    u64 now = pulse_.load_relaxed();  // OPTIMISTIC: pulse
    return now / kTick == seen && pulse_.cas_relaxed(now, now | kAsleep);
  }
  void rise() { pulse_.fetch_and_relaxed(~kAsleep); }

 private:
  static constexpr u64 kAsleep = 1, kTick = 2;
  Thread thread_;
  typename Env::template Atomic<u64> pulse_;
};

}  // namespace freeway::background
