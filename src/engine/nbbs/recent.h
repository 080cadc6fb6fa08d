// SPDX-License-Identifier: MIT
// Recent: where threads freed blocks lately, per level: the first places to look for one. Hints only: no block is kept here,
// nothing is lost with a thread, and whoever finds a place taken asks for the next.
//
// Word      places: a ring, 0 = no hint here     top: where the next goes; two threads or a handler may overwrite each other's
// Who       push, pop: any thread, any signal handler: plain loads and stores, no atomic read-modify-write
// Progress  wait-free       Lost if killed: nothing
#pragma once

#include "arch/atomic.h"

namespace freeway::nbbs {

class alignas(64) Recent {
 public:
  void push(u64 place) {
    const u32 top = top_.load_relaxed();
    places_[top % kPlaces].store_relaxed(place);
    top_.store_relaxed(top + 1);
  }
  // The newest, 0 if there is none.
  u64 pop() {
    const u32 top = top_.load_relaxed() - 1;
    const u64 place = places_[top % kPlaces].load_relaxed();
    if (place == 0) return 0;
    places_[top % kPlaces].store_relaxed(0);
    top_.store_relaxed(top);
    return place;
  }

 private:
  static constexpr u32 kPlaces = 256;  // divides the u32's range
  Atomic<u32> top_;
  Atomic<u64> places_[kPlaces];
};

}  // namespace freeway::nbbs
