// SPDX-License-Identifier: MIT
// anchor.h: a superblock's Anchor word (Michael 2004, Fig. 3), as pure functions.
//
// Layout    avail:10 | count:10 | state:2 | tag:42, from the lowest bit up
//           avail = index of the first block in the list of free ones; count = how many of them are not reserved;
//           tag counts the pops, so that no pop is fooled by a list whose head went away and came back (ABA)
// States    ACTIVE   in a heap's Active word, or in the hands of a thread that will try to put it there
//           FULL     all blocks allocated or reserved; nothing leads to it
//           PARTIAL  in a heap's Partial slot, in its class's list, or in the hands of a thread that moves it
//           EMPTY    all blocks free: the superblock is gone, the descriptor is where it was as PARTIAL
// Forms     linked:    each free block names the next one (Fig. 4, MallocFromNewSB)
//           untouched: a block is not written before it is first handed out (§3.2.5). Ten bits of the tag are `fresh`,
//                      the first block never handed out; the list ends there: avail = fresh means "and so on, upwards"
// Moves     popped, last_credit, reserved, pushed, returned, retracted: one for each place where the paper has a CAS
// Wraps     linked: 2^42 pops of one superblock while one pop sleeps; untouched: 2^32 with the same `fresh`
// Checked   papers/michael/tests/words_test.cc, papers/michael/tests/heap_model.cc
#pragma once

#include "papers/michael/active.h"

namespace freeway::michael::anchor {

enum State : u32 { kActive = 0, kFull = 1, kPartial = 2, kEmpty = 3 };
enum class Form { kLinked, kUntouched };

constexpr unsigned kIndexBits = 10;
constexpr u32 kMaxBlocks = (u32{1} << kIndexBits) - 1;  // maxcount: the list's end is an index, too
constexpr unsigned kCountShift = 10, kStateShift = 20, kTagShift = 22, kFreshShift = 54;
constexpr u64 kIndexMask = low_bits(kIndexBits);
constexpr u64 kFreshTagMask = low_bits(kFreshShift - kTagShift) << kTagShift;  // the tag of the untouched form

constexpr u32 avail(u64 a) { return static_cast<u32>(a & kIndexMask); }
constexpr u32 count(u64 a) { return static_cast<u32>(a >> kCountShift & kIndexMask); }
constexpr State state(u64 a) { return static_cast<State>(a >> kStateShift & 3); }
constexpr u64 tag(u64 a) { return a >> kTagShift; }
constexpr u32 fresh(u64 a) { return static_cast<u32>(a >> kFreshShift); }

constexpr u64 with_avail(u64 a, u32 index) { return (a & ~kIndexMask) | index; }
constexpr u64 with_count(u64 a, u32 n) { return (a & ~(kIndexMask << kCountShift)) | u64{n} << kCountShift; }
constexpr u64 with_state(u64 a, State s) { return (a & ~(u64{3} << kStateShift)) | u64{s} << kStateShift; }
constexpr u64 with_fresh(u64 a, u32 index) { return (a & low_bits(kFreshShift)) | u64{index} << kFreshShift; }

constexpr u32 at_most_max(u32 n) { return n < active::kMaxCredits ? n : active::kMaxCredits; }

// A new superblock of `maxcount` blocks: block 0 is its maker's, `credits` are reserved. The tag goes on from `before`,
// what the descriptor's anchor was. (MallocFromNewSB, lines 5 and 9–11)
constexpr u64 born(u64 before, u32 maxcount, u32 credits, Form form) {
  u64 a = with_avail(before, 1);
  if (form == Form::kUntouched) a = with_fresh(a, 1);
  return with_state(with_count(a, maxcount - 1 - credits), kActive);
}

// Whether the block on top of the list names the next one; if not, that is the one behind it.
constexpr bool top_has_link(u64 a, Form form) { return form == Form::kLinked || avail(a) != fresh(a); }

// The block on top is taken; `link` is the next one, if the block names it. (MallocFromActive, lines 11 and 12)
constexpr u64 popped(u64 a, u32 link, Form form) {
  if (form == Form::kLinked) return with_avail(a, link & kIndexMask) + (u64{1} << kTagShift);
  const u64 counted = (a & ~kFreshTagMask) | ((a + (u64{1} << kTagShift)) & kFreshTagMask);
  if (top_has_link(a, form)) return with_avail(counted, link & kIndexMask);
  return with_avail(with_fresh(counted, fresh(a) + 1), avail(a) + 1);
}

// The taker of Active's last credit: takes more, or leaves the superblock FULL. (MallocFromActive, lines 14–17)
constexpr u32 more_credits(u64 a) { return at_most_max(count(a)); }
constexpr u64 last_credit(u64 a) {
  return count(a) == 0 ? with_state(a, kFull) : with_count(a, count(a) - more_credits(a));
}

// A PARTIAL superblock is taken up: one block and more credits are reserved. (MallocFromPartial, lines 7–9)
constexpr u32 credits_of_partial(u64 a) { return at_most_max(count(a) - 1); }
constexpr u64 reserved(u64 a) {
  const u32 more = credits_of_partial(a);
  return with_state(with_count(a, count(a) - more - 1), more > 0 ? kActive : kFull);
}

// Block `index` is freed. (free, lines 9–16)
constexpr u64 pushed(u64 a, u32 index, u32 maxcount) {
  const u64 next = with_avail(state(a) == kFull ? with_state(a, kPartial) : a, index);
  return count(a) == maxcount - 1 ? with_state(next, kEmpty) : with_count(next, count(a) + 1);
}

// Credits come back, because the heap has another active superblock. (UpdateActive, lines 4 and 5)
constexpr u64 returned(u64 a, u32 credits) { return with_state(with_count(a, count(a) + credits), kPartial); }

// The same by a thread that has no block of it, so that it may become EMPTY. (Trimming; not in the paper)
constexpr u64 retracted(u64 a, u32 credits, u32 maxcount) {
  return count(a) + credits == maxcount ? with_state(a, kEmpty) : returned(a, credits);
}

}  // namespace freeway::michael::anchor
