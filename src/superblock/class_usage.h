// SPDX-License-Identifier: MIT
// ClassUsage: how full the superblocks of each class are on average, without counting on any path of malloc and free:
// each asking thread moves a walk through the heap one step on, and the thread that ends the walk publishes the sums.
//
// Words     next: the place that the walk has come to
//           sums[c], published[c]: superblocks:24 | taken blocks:40 (occupancy.h: Usage, packed), of the current walk
//           so far, and of the last whole one
//           is_known: 0 -> 1, after the first whole walk
// Moves     next: place -> the one behind it (CAS), the end -> 0 (CAS). The thread that moved it counts the old place:
//           a superblock and its taken blocks by one addition; the thread that moved it to 0 moves the sums to
//           published (exchange)
// Invariant each word is a sum of superblocks with their taken blocks, wherever threads stand: its average is that of
//           superblocks that existed. None wraps: a sum is taken out whole. (More than 2^24 superblocks of a class, a
//           TiB, or 2^40 taken blocks have no room)
// Who       any thread, any signal handler, the child of any fork
// Orders    relaxed: numbers, which publish nothing
// Hints     all of it. A count that comes after its walk's sums were taken out falls into the next walk; one of the
//           next walk that comes before falls into the last; superblocks change behind the walk's back
// Progress  wait-free, but for the first walk: a thread that comes before its end goes on to its end; as long as the
//           heap
// Lost if killed: the counts of one step; between the end and the publishing: that walk's, which then add to the next
//           one's; within the publishing: a class's, up to the next walk's
// Checked   tests/superblock/class_usage_model.cc, tests/superblock/occupancy_test.cc
//
// Source is the heap: is_end(place), behind(place) -> the next place, count(place, f): f(class, taken blocks) for each
// superblock there that is neither full nor held. Places are numbers, the first is 0.
#pragma once

#include "size/size_classes.h"
#include "superblock/occupancy.h"

namespace freeway {

template <class Env, unsigned kClasses = kClassCount> class ClassUsage {
 public:
  // Takes one step; until there has been a whole walk, all steps to its end.
  template <class Source> void advance(Source&& source) {
    do step(source);
    while (is_known_.load_relaxed() == 0);
  }

  occupancy::Usage of(unsigned c) const { return occupancy::Usage::of(published_[c].load_relaxed()); }

 private:
  template <class Source> void step(Source&& source) {
    u64 place = next_.load_relaxed();
    const bool ends = source.is_end(place);
    const bool moved = next_.cas_relaxed(place, ends ? 0 : source.behind(place));
    if (!moved) return;  // another thread has done it
    Env::step("usage.stepped");
    if (ends) publish();
    else source.count(place, [this](unsigned c, u32 taken) { add(c, taken); });
  }

  void add(unsigned c, u32 taken) {
    using occupancy::Usage;
    sums_[c].fetch_add_relaxed(Usage::packed(1, taken));
  }

  void publish() {
    for (unsigned c = 1; c < kClasses; ++c) {
      if ((sums_[c].load_relaxed() | published_[c].load_relaxed()) == 0) continue;
      published_[c].store_relaxed(sums_[c].exchange_relaxed(0));
    }
    Env::step("usage.published");
    is_known_.store_relaxed(1);
  }

  using Word = typename Env::template Atomic<u64>;

  Word next_;
  typename Env::template Atomic<u32> is_known_;
  Word sums_[kClasses], published_[kClasses];
};

}  // namespace freeway
