// SPDX-License-Identifier: MIT
// anchor.h: the state of a superblock in one 64-bit word, as pure functions.
//
// Layout    U:1 | HELD:1 | class:8 | ENTRY:1 | 0:1 | nz:20 (signed) | full:20 | 0:12, from the lowest bit up
//           nz = how many of the superblock's W bitmap words are not 0; full = how many are all ones (a bit = a free
//           block)
// States    HELD            one thread or slab holds it, and only it clears bits
//           HELD, ENTRY     the same, and a partial list has (or is about to have) an entry for it
//           U, not HELD     in no list and held by nobody: it had no free block when it was let go
//           neither         in a partial list, or on its way there: some thread has the duty to push it
//           EMPTY           not HELD and every word full (nz = full = W): the span belongs to the thread that made it
//                           so
//           (Michael 2004: ACTIVE, FULL, PARTIAL, EMPTY)
// Moves     and their duties, returned as values:
//           freed      any thread, after its fetch_or changed words: adds plus(…).
//                      -> is_empty: give the span back; then take U away (CAS) and recycle the descriptor; if U was not
//                         there: it is a tombstone, its popper recycles it
//                      -> wants_listing: take U away (CAS) and push it to a partial list
//           popped     the thread that popped its entry from a list: sets HELD.   -> EMPTY instead: a tombstone,
//                      recycle the descriptor.   -> HELD: takes ENTRY away.   -> nothing is free: sets U
//           may_take   any thread that found it otherwise than through a list: sets HELD and ENTRY
//           let_go     the holder: subtracts the counts it owes, HELD and ENTRY; sets U if nothing is free and there is
//                      no entry. -> kEmpty: give the span back and recycle; kTombstone: give the span back, the popper
//                      of its entry recycles; kList: push it; kNone: it has an entry, or a freer will list it
// Facts     I1 only the holder clears bits   I2 U is set only with HELD clear, no entry, and nothing free by the counts
//           I3 while HELD is clear the word is the truth minus pluses that are still to come, never more
//           I4 it has at most one entry in a list: listing follows only on taking U away, or on let_go without ENTRY
//           `full` is never decoded alone: a negative nz borrows from it. The compare with EMPTY is exact.
//           nz has 20 bits: it wraps only with half a million freers stopped inside one superblock
// Checked   tests/superblock/anchor_test.cc (exhaustive), tests/superblock/superblock_model.cc
#pragma once

#include "base/integers.h"

namespace freeway::anchor {

constexpr u64 kUnlisted = u64{1} << 0;  // U
constexpr u64 kHeld = u64{1} << 1;
constexpr unsigned kClassShift = 2;
constexpr u64 kEntry = u64{1} << 10;
constexpr u64 kNonZero = u64{1} << 12;  // one word that is not 0
constexpr u64 kFull = u64{1} << 32;     // one word that is all ones
constexpr u64 kStateMask = low_bits(52) & ~kUnlisted;

constexpr u64 empty_state(unsigned size_class, unsigned words) {
  return (u64{size_class} << kClassShift) + words * (kNonZero + kFull);
}
constexpr bool is_empty(u64 a, unsigned size_class, unsigned words) {
  return (a & kStateMask) == empty_state(size_class, words);
}
// Whether a descriptor with this anchor describes a superblock now. The anchor is stored last; neither in a pool nor a
// tombstone.
constexpr bool is_in_use(u64 a, unsigned size_class, unsigned words) {
  return a != 0 && ((a & kHeld) != 0 || !is_empty(a, size_class, words));
}
constexpr int non_zero_words(u64 a) { return static_cast<int>(static_cast<i64>(a << 32) >> 44); }
constexpr unsigned class_of(u64 a) { return static_cast<unsigned>(a >> kClassShift) & 0xff; }
constexpr bool is_held(u64 a) { return (a & kHeld) != 0; }
constexpr bool has_entry(u64 a) { return (a & kEntry) != 0; }
constexpr bool is_unlisted(u64 a) { return (a & kUnlisted) != 0; }

// A new superblock's anchor: all free, held by its maker.
constexpr u64 born(unsigned size_class, unsigned words) { return empty_state(size_class, words) | kHeld; }

// Setting the bits `mask` of a word that was `old` adds this to the anchor; 0 means: leave the anchor alone.
constexpr u64 plus(u64 old, u64 mask, u64 full_mask) {
  return (old == 0 ? kNonZero : 0) + ((old | mask) == full_mask ? kFull : 0);
}
// Whether the freer has nothing left to do then: the word was neither 0 nor full, before or after, and none of the bits
// was set.
constexpr bool is_over(u64 old, u64 mask, u64 full_mask) {
  return (old & mask) == 0 && plus(old, mask, full_mask) == 0;
}
// Clearing the bits `mask`, all of them set in `old`, subtracts this from the anchor when the holder lets go.
constexpr u64 minus(u64 old, u64 mask, u64 full_mask) {
  return (old == mask ? kNonZero : 0) + (old == full_mask ? kFull : 0);
}

// Whether some thread must take U away, and then list the superblock.
constexpr bool wants_listing(u64 a) { return is_unlisted(a) && non_zero_words(a) > 0; }

enum class Find { kTombstone, kDropped, kAdopted };

struct Popped {
  u64 word;
  Find find;
};
// An entry of the superblock whose anchor is `a` was popped from a list.
constexpr Popped popped(u64 a, unsigned size_class, unsigned words) {
  if (is_empty(a, size_class, words)) return {a, Find::kTombstone};
  if (is_held(a)) return {a & ~kEntry, Find::kDropped};
  if (non_zero_words(a) <= 0) return {a | kUnlisted, Find::kDropped};  // adopted and let go in one step
  return {a | kHeld, Find::kAdopted};
}

// Whether the superblock may be held without its entry, by setting HELD and ENTRY.
constexpr bool may_take(u64 a, unsigned size_class, unsigned words) {
  return !is_held(a) && !is_unlisted(a) && non_zero_words(a) > 0 && !is_empty(a, size_class, words);
}

enum class Duty { kNone, kEmpty, kTombstone, kList };

struct LetGo {
  u64 word;
  Duty duty;
};
// The holder lets go of a superblock whose anchor is `a`, owing `owed`.
constexpr LetGo let_go(u64 a, u64 owed, unsigned size_class, unsigned words) {
  const bool listed = has_entry(a);
  const u64 next = a - owed - kHeld - (listed ? kEntry : 0);
  if (is_empty(next, size_class, words)) return {next, listed ? Duty::kTombstone : Duty::kEmpty};
  if (listed) return {next, Duty::kNone};
  if (non_zero_words(next) <= 0) return {next | kUnlisted, Duty::kNone};
  return {next, Duty::kList};
}

}  // namespace freeway::anchor
