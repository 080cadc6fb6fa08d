// SPDX-License-Identifier: MIT
// RegionTable: an engine's regions, by slot. A region that was added stays for ever.
//
// Word      slots[i]: null -> a region (CAS), for ever
//           count: how many slots were ever filled, at least; only grows (CAS)
// Who       any thread, any signal handler
// Orders    [R1] adding publishes the region with its tree; [A1] who looks it up sees that
// Progress  lock-free: a slot that was taken meanwhile is another thread's success
// Lost if killed: a region not yet added; one added but not counted is counted with the next
// Checked   papers/nbbs/tests/region_table_model.cc
#pragma once

#include "arch/atomic.h"

namespace freeway::nbbs {

template <class Env, class Region, u32 kMost> class RegionTable {
 public:
  // Null: not there yet.
  Region* at(u32 slot) const { return slots_[slot].load_acquire(); }  // [A1] pairs with [R1]
  u32 size() const { return static_cast<u32>(clamp(count_.load_relaxed(), 0, kMost)); }

  // Puts a region into the first slot that is empty; false: there is none.
  bool add(Region* fresh) {
    for (u32 slot = size(); slot < kMost; ++slot) {
      if (slots_[slot].load_relaxed() != nullptr) continue;
      Region* none = nullptr;
      Env::step("nbbs.table.add");
      if (!slots_[slot].cas_release(none, fresh)) continue;  // [R1] pairs with [A1]
      Env::step("nbbs.table.count");
      for (u32 seen = count_.load_relaxed(); seen <= slot && !count_.cas_relaxed(seen, slot + 1);) continue;
      return true;
    }
    return false;
  }

 private:
  typename Env::template Atomic<u32> count_;
  typename Env::template Atomic<Region*> slots_[kMost];
};

}  // namespace freeway::nbbs
