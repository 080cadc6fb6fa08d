// SPDX-License-Identifier: MIT
// remote_word.h: a superblock's remote free list and its place in the world, in one word, as pure functions.
//
// The paper locks a superblock to add to its remote list, and says in words where it is (section 3.2.3: on line in a
// local heap, or off line in the global heap). One word holds both here, so that one CAS, or one short locked part in
// the variant that keeps the paper's mutex, frees a block and learns what must be done about it.
//
// Layout    head:12 | count:12 | missing:12 | state:2, from the lowest bit up; the other bits are 0
//           head, count: the remote free list, as in local_word.h
//           missing: while off line, the blocks that are not in the local list: in use, or in the remote list
// States    kNone    no superblock: its memory went elsewhere, the header is in the pool or lies in a list as a
//           tombstone;
//                    as the word kKept: its memory is entirely free and kept for any class
//           kHeld    on line, or in the hands of a thread that brings it on line or takes it off line
//           kListed  in a list of the global heap, or on its way there (somebody has the duty to push it)
//           kFull    off line with no free block: in no list, the next block freed puts it there
// Moves     and duties, returned as values:
//           freed      any owner of a block: adds it to the list.   kFull -> kListed: kList: push it to its class's
//                      list kListed, and nothing is missing any more -> kNone: kSettle: the memory is the freer's
//           taken      who popped it off a list: kListed -> kHeld, with the whole remote list.   kNone stays: a
//                      tombstone, its popper recycles the header
//           let_go     who holds it, when it is off line: kHeld -> kListed (kList), kFull (kNothing), or, all blocks
//                      free, kNone (kSettle, the header is the holder's, too)
// Facts     I1 only `taken` takes blocks off the remote list, all of them   I2 while kListed or kFull the local list
//           does not change, so `missing` is the truth   I3 count == missing while kListed: nobody has a block of it,
//                                                        so the
//           freer that gets there is the last one to know the superblock, except for who pops its tombstone
// ABA       none: each move is a function of the word alone, and who moves it owns a block (so the superblock lives),
//           or the superblock. No tag is needed
// Checked   papers/lfmalloc/tests/words_test.cc, superblock_model.cc
#pragma once

#include "base/integers.h"

namespace freeway::lfmalloc::remote {

enum State : u32 { kNone, kHeld, kListed, kFull };
enum class Duty { kNothing, kList, kSettle };

constexpr unsigned kFieldBits = 12;
constexpr unsigned kCountShift = kFieldBits, kMissingShift = 2 * kFieldBits, kStateShift = 3 * kFieldBits;

constexpr u64 make(State state, u32 missing, u32 head, u32 count) {
  return u64{state} << kStateShift | u64{missing} << kMissingShift | u64{count} << kCountShift | head;
}
constexpr u32 head(u64 w) { return static_cast<u32>(w & low_bits(kFieldBits)); }
constexpr u32 count(u64 w) { return static_cast<u32>(w >> kCountShift & low_bits(kFieldBits)); }
constexpr u32 missing(u64 w) { return static_cast<u32>(w >> kMissingShift & low_bits(kFieldBits)); }
constexpr State state(u64 w) { return static_cast<State>(w >> kStateShift & 3); }

constexpr u64 kKept = make(kNone, 1, 0, 0);

struct Next {
  u64 word;
  Duty duty;
};

// Block `unit`, whose link is head(w), is freed.
constexpr Next freed(u64 w, u32 unit) {
  const u32 now = count(w) + 1;
  switch (state(w)) {
    case kFull: return {make(kListed, missing(w), unit, now), Duty::kList};
    case kListed:
      if (now == missing(w)) return {make(kNone, 0, 0, 0), Duty::kSettle};
      [[fallthrough]];
    default: return {make(state(w), missing(w), unit, now), Duty::kNothing};
  }
}

// A superblock taken off a list; unless it is a tombstone, its remote list is the taker's.
constexpr u64 taken(u64 w) { return state(w) == kNone ? w : make(kHeld, 0, 0, 0); }

// A superblock of `blocks` blocks, `local` of them in its local list, is let go.
constexpr Next let_go(u64 w, u32 blocks, u32 local) {
  const u32 missing = blocks - local;
  if (count(w) == missing) return {make(kNone, 0, 0, 0), Duty::kSettle};
  if (local + count(w) == 0) return {make(kFull, missing, 0, 0), Duty::kNothing};
  return {make(kListed, missing, head(w), count(w)), Duty::kList};
}

}  // namespace freeway::lfmalloc::remote
