// SPDX-License-Identifier: MIT
// Wanted: the users of the heap profile, and the bytes between two of its samples.
//
// Word      interval:62 | a tracer wants it : 1 | the program wants it : 1. With neither bit the interval is that of
//           the last one, whose sites a dump shows; 0: there was none
// Moves     want: sets the caller's bit, with the interval unless another one is wanted; the program's goes before a
//           tracer's (CAS)      want_no_more: clears the caller's bit (CAS)      confirm: none
// Invariant neither clears the other's bit; while the program wants a profile its interval stays
// Who       any thread, any signal handler, the child of any fork
// Followers a thread that has moved the word makes others (malloc's form, malloc/malloc_form.h) agree with it: it reads
//           the word, stores the consequences, and asks whether they still hold; if not, it begins again. The last
//           thread to store is right then: either its question comes after the last move, and tells it so; or the move
//           comes after its question, and the stores of the move's follower come after its own. That is why the
//           question is an RMW: a load might go before the stores, and two followers could each miss the other's
// Orders    [R1] a profile comes after its tables (profiler.cc); [A1] a thread that samples sees them
//           [R2] a follower's stores come before everything done by threads that see the word as it is after the
//           question:
//           [A1] (all moves are RMWs, so that each release before goes on through them)
// Progress  lock-free      Lost if killed: nothing here; between a move and the end of following others are behind the
//           word
// Checked   tests/profile/wanted_model.cc
#pragma once

#include "base/integers.h"

namespace freeway {
struct Describe;
}

namespace freeway::profile {

namespace wanted {

constexpr u64 kProgram = 1, kTracer = 2;  // the users
constexpr unsigned kWhoBits = 2;
constexpr u64 kMostInterval = low_bits(64 - kWhoBits);

constexpr u64 who(u64 word) { return word & low_bits(kWhoBits); }
// Of the current profile, or the last one.
constexpr u64 last(u64 word) { return word >> kWhoBits; }
// Of the current profile; 0: there is none.
constexpr u64 interval(u64 word) { return who(word) != 0 ? last(word) : 0; }

// Whether `one` may have a profile with this interval.
constexpr bool may_want(u64 word, u64 one, u64 bytes) {
  return who(word) == 0 || last(word) == bytes || (who(word) == kTracer && one == kProgram);
}
constexpr u64 with(u64 word, u64 one, u64 bytes) { return bytes << kWhoBits | who(word) | one; }
constexpr u64 without(u64 word, u64 one) { return word & ~one; }

}  // namespace wanted

template <class Env> class Wanted {
 public:
  // Bytes; 0: no profile is made.
  u64 interval() const { return wanted::interval(word_.load_acquire()); }  // [A1] pairs with [R1] [R2]
  u64 last() const { return wanted::last(word_.load_relaxed()); }

  // `one` (kProgram, kTracer) wants a profile, whose tables are there; false: there is one with another interval.
  bool want(u64 one, u64 bytes) {
    u64 seen = word_.load_relaxed();
    do {
      if (!wanted::may_want(seen, one, bytes)) return false;
      Env::step("wanted.wanting");
    } while (!word_.cas_release(seen, wanted::with(seen, one, bytes)));  // [R1] pairs with [A1]
    return true;
  }

  void want_no_more(u64 one) {
    u64 seen = word_.load_relaxed();
    while ((wanted::who(seen) & one) != 0) {
      Env::step("wanted.leaving");
      const u64 next = wanted::without(seen, one);
      if (word_.cas_relaxed(seen, next)) return;
    }
  }

  // Tracers come and go unseen. `listens`: one is there. They join the current profile, or else have one with the
  // `usual` interval. ready(): makes its tables; whether they are there. Returns whether the word was moved.
  template <class Ready> bool follow_tracers(bool listens, u64 usual, Ready&& ready) {
    const u64 seen = word_.load_relaxed();
    if (listens == ((wanted::who(seen) & wanted::kTracer) != 0)) return false;
    if (!listens) return want_no_more(wanted::kTracer), true;
    const u64 made = wanted::interval(seen);
    return ready() && want(wanted::kTracer, made != 0 ? made : usual);
  }

  // The interval() after all of the caller's stores.
  u64 confirm() {
    return wanted::interval(word_.fetch_add_release(0));  // [R2] pairs with [A1]
  }

 private:
  friend struct freeway::Describe;  // malloc/describe.cc
  typename Env::template Atomic<u64> word_;
};

}  // namespace freeway::profile
