// SPDX-License-Identifier: MIT
// Visit: how the malloc works on a heap that the program may destroy meanwhile (a trim of everything); one word.
//
// Word      visitor of a heap's record: 0 = nobody, else the name of the thread that visits or ends the heap
//           (sync/claim.h); with Claimant::kSpareBit: the program has destroyed the heap, and the visitor is to end it
// Moves     enter: 0 -> name (CAS).   leave: name -> 0 (CAS); where the bit is set: -> name, and the visitor ends the
//           heap. destroy, by the thread that has taken the handle away: 0 -> its name (CAS): it ends the heap itself;
//           or it sets the
//           bit.   done, by the thread that has ended the heap: -> 0
// Invariant a heap is ended once, by one thread, and nobody visits it then.  A visitor looks for the handle behind
//           enter: if there is one, nobody ends this heap until the visitor has left
// Forks     a name that stayed in the parent is replaced. Where the heap was destroyed and its visitor had not begun to
//           end it, the next visitor in the child does
// Who       any thread, any signal handler: one that interrupts a visit destroys the heap, and the visit ends it
// Orders    [R1] leaving and ending publish what was done to the heap; [A1] the next thread to enter or end it sees
//           that. [R2] handing over publishes the program's use of the heap; [A2] the visitor that ends it sees that
// Progress  enter, leave: wait-free; destroy: lock-free
// Lost if killed: a visitor that stops keeps its heap, if that is destroyed: until it goes on, or a child of a fork
// trims
// Checked   tests/heap/visit_model.cc, tests/abi/heap_test.cc
#pragma once

#include "sync/claim.h"

namespace freeway::heap {

template <class Env> struct Visit {
  using Word = typename Env::template Atomic<u64>;
  enum class Entered { kNo, kIn, kToEnd };  // kToEnd: the caller has to end a heap that was destroyed

  static constexpr bool is_destroyed(u64 word) { return (word & Claimant::kSpareBit) != 0; }
  // The word once the heap of one that reads `seen` is destroyed.
  static constexpr u64 destroyed(u64 seen, const Claimant& who) {
    return who.may_replace(seen) ? who.self : seen | Claimant::kSpareBit;
  }

  static Entered enter(Word& word, const Claimant& who) {
    u64 seen = word.load_relaxed();
    if (!who.may_replace(seen)) return Entered::kNo;
    Env::step("visit.entering");
    if (!word.cas_acquire(seen, who.self)) return Entered::kNo;  // [A1] pairs with [R1]
    return is_destroyed(seen) ? Entered::kToEnd : Entered::kIn;
  }
  // By a visitor, which entered as `who`. Whether it has to end the heap.
  static bool leave(Word& word, const Claimant& who) {
    Env::step("visit.leaving");
    u64 seen = who.self;
    if (word.cas_release(seen, 0)) return false;  // [R1] pairs with [A1]
    Env::step("visit.ending");
    word.exchange_acquire(who.self);  // [A2] pairs with [R2]
    return true;
  }
  // Whether the caller, which has taken the heap's handle away, has to end the heap; else its visitor does.
  static bool destroy(Word& word, const Claimant& who) {
    u64 seen = word.load_relaxed();
    u64 next;
    do {
      next = destroyed(seen, who);
      Env::step("visit.destroying");
    } while (!word.cas_acq_rel(seen, next));  // [R2] [A1] pairs with [A2] [R1]
    return next == who.self;
  }
  // By the thread that has ended the heap.
  static void done(Word& word) {
    Env::step("visit.done");
    word.store_release(0);  // [R1] pairs with [A1]
  }
};

}  // namespace freeway::heap
