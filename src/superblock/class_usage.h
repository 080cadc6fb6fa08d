// SPDX-License-Identifier: MIT
// ClassUsage: how full the superblocks of each class are on average, without counting on any path of malloc and free:
// whoever asks goes on with a walk through the heap by one step, and who ends it publishes what was found.
//
// Words     next: the place that the walk has come to.   sums[c]: what it has found so far.   published[c]: what the
//           last whole walk found (occupancy.h: Usage, packed)
// Moves     next: place -> the one behind it (CAS), the end -> 0 (CAS). Who moved it counts what is at the old place;
//           who moved it to 0 moves the sums to published
// Who       any thread, any signal handler, the child of any fork
// Hints     all of it. Counts that come late belong to the next walk; superblocks change behind the walk's back
// Progress  wait-free, but for the first walk, which who comes first does alone: as long as the heap
// Lost if killed: the counts of one step; between the end and the publishing: that walk's, which then add to the next
// one's
// Checked   tests/unit/occupancy_test.cc
//
// Source is the heap: is_end(place), behind(place) -> the next place, count(place, f): f(class, taken blocks) for each
// superblock there that is neither full nor held. Places are numbers, the first is 0.
#pragma once

#include "size/size_classes.h"
#include "superblock/occupancy.h"

namespace freeway {

template <class Env>
class ClassUsage {
 public:
  // Goes on by a step; until there has been a whole walk, to its end.
  template <class Source>
  void advance(Source&& source) {
    do step(source);
    while (is_known_.load_relaxed() == 0);
  }

  occupancy::Usage of(unsigned c) const { return occupancy::Usage::of(published_[c].load_relaxed()); }

 private:
  template <class Source>
  void step(Source&& source) {
    u64 place = next_.load_relaxed();
    const bool ends = source.is_end(place);
    if (!next_.cas_relaxed(place, ends ? 0 : source.behind(place))) return;  // another has done it
    Env::step("usage.stepped");
    if (ends)
      publish();
    else
      source.count(place, [this](unsigned c, u32 taken) {
        sums_[c].fetch_add_relaxed(occupancy::Usage::packed(1, taken));
      });
  }

  void publish() {
    for (unsigned c = 1; c < kClassCount; ++c) {
      if ((sums_[c].load_relaxed() | published_[c].load_relaxed()) == 0) continue;
      const u64 found = sums_[c].load_relaxed();
      sums_[c].fetch_sub_relaxed(found);
      published_[c].store_relaxed(found);
    }
    Env::step("usage.published");
    is_known_.store_relaxed(1);
  }

  typename Env::template Atomic<u64> next_;
  typename Env::template Atomic<u32> is_known_;
  typename Env::template Atomic<u64> sums_[kClassCount];
  typename Env::template Atomic<u64> published_[kClassCount];
};

}  // namespace freeway
