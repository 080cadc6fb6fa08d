// SPDX-License-Identifier: MIT
// walk.h: reading the heap's metadata from outside, for accounts and audits: nobody is stopped.
#pragma once

#include "malloc/heap.h"

namespace freeway::walk {

using Desc = Descriptor<Machine>;
using bitmap::free_blocks;

// Whether the descriptor describes a superblock now: it was used (its anchor is stored last), and is neither in a pool
// nor a tombstone.
inline bool is_in_use(const Desc& d, unsigned c) {
  const u64 a = d.anchor.load_relaxed();  // OPTIMISTIC: accounts
  return a != 0 && (anchor::is_held(a) || !anchor::is_empty(a, c, kSizeClasses[c].words));
}

inline u32 units_of(unsigned c) {
  return static_cast<u32>(Desc::bytes(kSizeClasses[c].words) / Metadata<Machine>::kUnit);
}

// Calls f(index, descriptor, class) for every descriptor that was ever made.
template <class F>
void each_descriptor(Heap& owner, F&& f) {
  owner.metadata().walk([&](u32 index) -> u32 {
    auto& d = *static_cast<Desc*>(owner.metadata().at(index));
    const unsigned c = d.size_class.load_relaxed();
    if (c == 0 || c >= kClassCount) return 0;
    f(index, d, c);
    return units_of(c);
  });
}

// Calls f(slot) for each block that the slab has of class `c`.
template <class F>
void each_cached(const Heap& owner, Slab& slab, unsigned c, F&& f) {
  owner.each_magazine(slab, c, [&](u64 top) {
    for (u64 at = top - 8; const u64 slot = slab_ops::slot(at)->load_relaxed(); at -= 8) f(slot);
  });
}

inline u32 cached_blocks(const Heap& owner, Slab& slab, unsigned c) {
  u32 blocks = 0;
  each_cached(owner, slab, c, [&](u64) { ++blocks; });
  return blocks;
}

}  // namespace freeway::walk
