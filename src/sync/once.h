// SPDX-License-Identifier: MIT
// Once: a word that gets one value, for good, from any thread (decision 009: nobody waits for another's
// initialisation).
//
// Word      0 = nothing yet -> a value (CAS)
// Who       any thread, any signal handler, also in the middle of its own thread's get(): each that finds nothing makes
//           a value of its own, one of these is published, the others are dropped
// Orders    [R1] publishes the value's contents; [A1] a thread that gets the value sees them
// Progress  wait-free, one attempt       Lost if killed: a value that was made and not published
// Checked   tests/sync/once_model.cc
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

template <class Env> class Once {
 public:
  // The value, 0 if there is none yet.
  FREEWAY_INLINE u64 peek() const { return word_.load_acquire(); }  // [A1] pairs with [R1]

  // The value; if there is none yet, the result of make(). drop(value) undoes a make() whose value came too late. 0
  // only if make() yields 0.
  template <class Make, class Drop> u64 get(Make&& make, Drop&& drop) {
    if (const u64 value = peek()) return value;
    const u64 mine = make();
    if (mine == 0) return peek();
    Env::step("once.made");
    u64 seen = 0;
    if (word_.cas_release(seen, mine)) return mine;  // [R1] pairs with [A1]
    drop(mine);
    return peek();
  }

 private:
  typename Env::template Atomic<u64> word_;
};

}  // namespace freeway
