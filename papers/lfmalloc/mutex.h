// SPDX-License-Identifier: MIT
// mutex.h: the locks of the forms that keep the paper's locks: a mutex that sleeps, a lock that spins.
//
// Word      0 = free, 1 = held, 2 = held and somebody may be asleep (the futex mutex of Drepper's "Futexes are tricky")
// Orders    [R1] unlocking publishes what was done; [A1] locking sees it
// Progress  none while the holder is stopped; a handler that interrupted the holder waits for ever. So the default form
//           has none: papers/lfmalloc/README.md, "Forms and options"
#pragma once

#include <linux/futex.h>

#include "base/integers.h"
#include "os/syscall.h"

namespace freeway::lfmalloc {

template <class Env> struct SleepingLock {
  using Word = typename Env::template Atomic<u32>;

  static void lock(Word& word) {
    u32 seen = 0;
    if (word.cas_acquire(seen, 1)) return;  // [A1] pairs with [R1]
    while (word.exchange_acquire(2) != 0)   // [A1] pairs with [R1]
      raw_syscall(SYS_futex, reinterpret_cast<u64>(&word), FUTEX_WAIT_PRIVATE, 2);
  }
  static void unlock(Word& word) {
    if (word.exchange_release(0) == 2)  // [R1] pairs with [A1]
      raw_syscall(SYS_futex, reinterpret_cast<u64>(&word), FUTEX_WAKE_PRIVATE, 1);
  }
};

template <class Env> struct SpinningLock {
  using Word = typename Env::template Atomic<u32>;

  static void lock(Word& word) {
    for (unsigned spins = 0; word.exchange_acquire(1) != 0; ++spins)  // [A1] pairs with [R1]
      if (spins % 64 == 63) raw_syscall(SYS_sched_yield);             // else a holder without a CPU would never get one
  }
  static void unlock(Word& word) { word.store_release(0); }  // [R1] pairs with [A1]
};

}  // namespace freeway::lfmalloc
