// SPDX-License-Identifier: MIT
// local_word.h: a superblock's local free list in one word, as pure functions (section 3.2.2 (5)).
//
// Layout    head:12 | count:12 | gate:6 | tag:34, from the lowest bit up
//           head = the topmost free block: the offset of its data in the superblock / 16; 0 = none. Each free block's
//           first word is the head below it. count = blocks in the list
//           gate = class + 1 while the superblock is on line in a heap protected by CAS, else 0
//           tag = moves at each pop by CAS and each time the gate shuts
// Who       on line in a CPU's heap: restartable sections on that CPU, by plain loads and stores of the whole word
//           on line in a heap protected by a lock: who holds the lock
//           on line in a heap protected by CAS: any thread that finds the gate open for its class, by CAS
//           off line: who holds the superblock (remote_word.h), nobody else
// Gate      a thread that found superblock S in a hashed heap may sleep, and S may go off line and come on line
//           elsewhere, on a CPU's heap, as another class. The gate was shut meanwhile, which moved the tag: its CAS
//           fails, and when it looks again it sees another gate. Restartable sections need none of this: who sleeps in
//           one starts again
// ABA       only in a pop by CAS (a push does not depend on what lies below the head): fooled only if exactly a
//           multiple of 2^34 pops pass in between and head and count are the same again. At 10^7 pops a second 29
//           minutes
// Checked   papers/lfmalloc/tests/words_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::lfmalloc::local {

constexpr unsigned kHeadBits = 12, kCountBits = 12, kGateBits = 6;
constexpr u64 kOne = u64{1} << kHeadBits;  // one block more
constexpr unsigned kGateShift = kHeadBits + kCountBits;
constexpr u64 kTagOne = u64{1} << (kGateShift + kGateBits);
constexpr u64 kHeadMask = low_bits(kHeadBits);
constexpr u64 kGateMask = low_bits(kGateBits) << kGateShift;
constexpr u64 kListMask = low_bits(kGateShift);

constexpr u32 head(u64 w) { return static_cast<u32>(w & kHeadMask); }
constexpr u32 count(u64 w) { return static_cast<u32>(w >> kHeadBits & low_bits(kCountBits)); }
constexpr u32 gate(u64 w) { return static_cast<u32>(w >> kGateShift & low_bits(kGateBits)); }
constexpr bool is_open_for(u64 w, unsigned size_class) { return gate(w) == size_class + 1; }

// Block `unit` on top; its link must be head(w).
constexpr u64 pushed(u64 w, u32 unit) { return (w & ~kHeadMask) + kOne + unit; }
// Without the topmost block, whose link is `below`. By those who have the word to themselves …
constexpr u64 popped(u64 w, u64 below) { return (w & ~kHeadMask) - kOne + (below & kHeadMask); }
// … and by CAS.
constexpr u64 popped_by_cas(u64 w, u64 below) { return popped(w, below) + kTagOne; }
// Another list, for who holds the superblock.
constexpr u64 with_list(u64 w, u32 head, u32 count) { return (w & ~kListMask) | u64{count} << kHeadBits | head; }
constexpr u64 opened(u64 w, unsigned size_class) { return (w & ~kGateMask) | u64{size_class + 1} << kGateShift; }
constexpr u64 shut(u64 w) { return (w & ~kGateMask) + kTagOne; }

}  // namespace freeway::lfmalloc::local
