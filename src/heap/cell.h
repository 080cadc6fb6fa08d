// SPDX-License-Identifier: MIT
// cell.h: up to 62 items that are free or taken, and who has them, in one 64-bit word, as pure functions.
//
// A slice is a cell whose items are blocks; a region is a cell whose items are units of 1 KiB.
//
// Layout    free:62 (a bit = a free item) | HELD:1 | LISTED:1, from the lowest bit up
// States    HELD      one thread or cache holds it, and only it clears bits
//           LISTED    it is in a list, or on its way there or out of it: somebody has that duty
//           neither   nothing is free in it and nobody knows it but its items' owners
//           never both
// Moves     and their duties, returned as values:
//           freed    any thread that owns the items: sets their bits.  Neither HELD nor LISTED: LISTED, too -> kList: push it
//           popped   whoever popped its entry: LISTED -> HELD
//           taken    the holder: clears bits
//           let_go   the holder.  Something is free: HELD -> LISTED -> kList: push it.  Nothing is: HELD -> neither
// Facts     it has at most one entry in a list; who sets LISTED owns its link until he has pushed it
// Checked   tests/unit/heap_cell_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::cell {

constexpr unsigned kItems = 62;
constexpr u64 kFree = low_bits(kItems);
constexpr u64 kHeld = u64{1} << 62;
constexpr u64 kListed = u64{1} << 63;

enum class Duty { kNone, kList, kRetire };  // kRetire: strip.h

struct Next {
  u64 word;
  Duty duty;
};

constexpr u64 free_of(u64 word) { return word & kFree; }
constexpr bool is_held(u64 word) { return (word & kHeld) != 0; }
constexpr bool is_listed(u64 word) { return (word & kListed) != 0; }
// What a new cell of `items` free items is: its maker holds it.
constexpr u64 born(unsigned items) { return low_bits(items) | kHeld; }
constexpr bool is_whole(u64 word, unsigned items) { return free_of(word) == low_bits(items); }

constexpr Next freed(u64 word, u64 items) {
  const u64 next = word | items;
  return (word & (kHeld | kListed)) != 0 ? Next{next, Duty::kNone} : Next{next | kListed, Duty::kList};
}
constexpr u64 popped(u64 word) { return (word & ~kListed) | kHeld; }
constexpr u64 taken(u64 word, u64 items) { return word & ~items; }
constexpr Next let_go(u64 word) {
  const u64 next = word & ~kHeld;
  return free_of(word) == 0 ? Next{next, Duty::kNone} : Next{next | kListed, Duty::kList};
}

// The lowest `count` (1 … 62) items side by side that are all free, the first of them a multiple of `step`; 0: there are none.
constexpr u64 run(u64 free, unsigned count, unsigned step = 1) {
  u64 begins = free;  // where `have` items are free side by side
  for (unsigned have = 1; have < count && begins != 0;) {
    const unsigned more = count - have < have ? count - have : have;
    begins &= begins >> more;
    have += more;
  }
  for (; begins != 0; begins &= begins - 1)
    if (step == 1 || lowest_bit(begins) % step == 0) return low_bits(count) << lowest_bit(begins);
  return 0;
}

}  // namespace freeway::cell
