// SPDX-License-Identifier: MIT
// slab_age.h: how long nothing has changed in a slab; idle ones are emptied (malloc/idle.cc).
//
// Words     seen: a number made of the slab's tops and counts, when a thread last looked. since: when they last had
//           changed, in ns; kEmptied: it was emptied, and has not been used since
// Hints     both: a wrong one empties a slab that is in use, or leaves one. (A CPU that frees only its own blocks
//           leaves no trace.)
// Checked   tests/cache/slab_age_test.cc
#pragma once

#include "cache/slab.h"

namespace freeway::slab_age {

constexpr u64 kIdleNs = 900'000'000;  // less than 4 beats of the helper
constexpr u64 kEmptied = ~u64{0};

inline u64 mark_of(const Slab& slab) {
  u64 mark = 1;
  for (unsigned c = 1; c < kClassCount; ++c) {
    mark = (mark ^ slab.top[c].load_relaxed()) * 0x9e3779b97f4a7c15u;
    mark += slab.counters[c].slow_mallocs + slab.counters[c].slow_frees;
  }
  return mark;
}

// Whether what has the two words has had this mark for kIdleNs, as far as earlier looks tell. `now`: ns.
inline bool is_idle(Atomic<u64>& seen, Atomic<u64>& since, u64 mark, u64 now) {
  const u64 then = since.load_relaxed();
  if (seen.load_relaxed() == mark) return then != kEmptied && now > then && now - then >= kIdleNs;
  seen.store_relaxed(mark);
  since.store_relaxed(now);
  return false;
}
// Whether the slab has not changed for so long.
inline bool is_idle(Slab& slab, u64 now) { return is_idle(slab.seen, slab.since, mark_of(slab), now); }

inline bool was_emptied(const Slab& slab) {
  return slab.since.load_relaxed() == kEmptied && slab.seen.load_relaxed() == mark_of(slab);
}

// By the thread that has emptied it, and has it still.
inline void note_emptied(Slab& slab) {
  slab.seen.store_relaxed(mark_of(slab));
  slab.since.store_relaxed(kEmptied);
}

}  // namespace freeway::slab_age
