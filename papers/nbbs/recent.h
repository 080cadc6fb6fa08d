// SPDX-License-Identifier: MIT
// Recent: where threads freed blocks lately, per level: the first places to look for one. Hints only: no block is kept
// here, nothing is lost with a thread, and whoever finds a place taken asks for the next.
//
// Word      places: a ring, 0 = no hint here     top: where the next goes; two threads or a handler may overwrite each
//           other's
// Who       push, pop: any thread, any signal handler: plain loads and stores, no atomic read-modify-write
// Orders    [R1] who gives a hint knows the region that it speaks of; [A1] who gets it sees that one in the table
// Progress  wait-free       Lost if killed: nothing
// Checked   papers/nbbs/tests/region_table_model.cc
#pragma once

#include "arch/atomic.h"

namespace freeway::nbbs {

// kPlaces divides the u32's range.
template <class Env, u32 kPlaces = 256> class alignas(64) Recent {
 public:
  void push(u64 place) {
    const u32 top = top_.load_relaxed();
    places_[top % kPlaces].store_release(place);  // [R1] pairs with [A1]
    top_.store_relaxed(top + 1);
  }
  // The newest, 0 if there is none.
  u64 pop() {
    const u32 top = top_.load_relaxed() - 1;
    const u64 place = places_[top % kPlaces].load_acquire();  // [A1] pairs with [R1]
    if (place == 0) return 0;
    places_[top % kPlaces].store_relaxed(0);
    top_.store_relaxed(top);
    return place;
  }

 private:
  typename Env::template Atomic<u32> top_;
  typename Env::template Atomic<u64> places_[kPlaces];
};

}  // namespace freeway::nbbs
