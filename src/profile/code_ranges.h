// SPDX-License-Identifier: MIT
// CodeRanges: the ranges of code in this process, to tell return addresses from other words.
//
// Words     begins, ends, count: of the executable mappings, upwards. Stored by a thread that reads /proc/self/maps,
//           beside readers and other such threads: a reader may find half the one, half the other
// A hint    so it only answers questions whose answer may be wrong: which samples count as one stack's
// Progress  wait-free       Lost if killed: nothing
#pragma once

#include "base/integers.h"

namespace freeway::profile {

template <class Env, unsigned kMost = 512> class CodeRanges {
 public:
  bool contains(u64 address) const {
    unsigned low = 0, high = count();
    if (high == 0 || address < begins_[0].load_relaxed() || address >= ends_[high - 1].load_relaxed()) return false;
    while (low < high) {
      const unsigned middle = (low + high) / 2;
      if (ends_[middle].load_relaxed() <= address) low = middle + 1;
      else high = middle;
    }
    return low < count() && begins_[low].load_relaxed() <= address;
  }
  unsigned count() const { return clamp_to(count_.load_relaxed()); }

  // Each(add) calls add(begin, end) for each mapping with code, from the lowest on.
  template <class Each> void read(Each&& each) {
    unsigned count = 0;
    each([&](u64 begin, u64 end) {
      if (count > 0 && ends_[count - 1].load_relaxed() == begin) return ends_[count - 1].store_relaxed(end);
      if (count == kMost) return;
      begins_[count].store_relaxed(begin);
      ends_[count++].store_relaxed(end);
    });
    count_.store_relaxed(count);
  }

 private:
  static constexpr unsigned clamp_to(u32 count) { return count < kMost ? count : kMost; }

  typename Env::template Atomic<u64> begins_[kMost], ends_[kMost];
  typename Env::template Atomic<u32> count_;
};

}  // namespace freeway::profile
