// SPDX-License-Identifier: MIT
// strip.h: the words of a strip, as pure functions.
//
// A strip is a frame of blocks of many sizes, one behind the other: the first blocks of a heap on a CPU lie in strips,
// since they are the fastest to fill. A CPU has its strip in hand, *open*, and takes blocks off it by one section,
// until it is full and is *closed*. A block that comes back when its magazine is full is *marked*. Once a quarter is,
// the strip is worth looking through: whoever needs a block holds it, and takes what his magazines have room for.
//
// Kind      of 16 bytes: 0: no block begins there; its class; class | kFollowed: a block that leaves the fast path when
//           it is freed, since a profile has sampled it; class | kMarked.   class -> followed -> class: the block's
//           owner, the latter by CAS class -> marked: whoever frees the block (CAS)      marked -> class: the holder
// Word      how many of its 16 bytes are marked:13 | how many are blocks, once it is closed:13 | open:1 | held:1 |
//           listed:1. Marks are counted behind the kinds, and a holder takes no more than it has seen counted, so that
//           the count is never below 0, and all is free once it is the length. What the holder has handed on and not
//           yet subtracted may be marked again: then the count may run over into the length, until he subtracts
// Duty      who makes a closed strip worth it that nobody holds, or closes or lets go one that is, lists it; but for
//           one that is whole, whose frame he gives back
#pragma once

#include "base/integers.h"

namespace freeway::strip {

constexpr std::size_t kGranule = 16;
constexpr u8 kMarked = 0x80, kFollowed = 0x40, kClass = kFollowed - 1;
constexpr unsigned kLengthShift = 13;
constexpr u64 kCount = low_bits(kLengthShift);
constexpr u64 kOpen = u64{1} << 61, kHeld = u64{1} << 62, kListed = u64{1} << 63;

// Of a block that is the program's, and that nobody follows.
constexpr bool is_plain(u8 kind) { return kind - 1u < kClass; }
constexpr bool is_followed(u8 kind) { return (kind & (kMarked | kFollowed)) == kFollowed; }
constexpr unsigned class_of(u8 kind) { return kind & kClass; }

enum class Duty { kNone, kList, kRetire };

struct Next {
  u64 word;
  Duty duty;
};

constexpr bool is_held(u64 word) { return (word & kHeld) != 0; }
constexpr bool is_listed(u64 word) { return (word & kListed) != 0; }
// Whoever popped its entry holds it.
constexpr u64 popped(u64 word) { return (word & ~kListed) | kHeld; }
constexpr bool is_open(u64 word) { return (word & kOpen) != 0; }
constexpr u64 marked_of(u64 word) { return word & kCount; }
constexpr u64 length_of(u64 word) { return word >> kLengthShift & kCount; }
constexpr bool is_whole(u64 word) { return !is_open(word) && marked_of(word) == length_of(word); }
constexpr bool is_worth_it(u64 word) { return marked_of(word) * 4 >= length_of(word); }

constexpr u64 born() { return kOpen; }
constexpr Next marked(u64 word, u64 granules) {
  const u64 next = word + granules;
  const bool is_somebodys = (word & (kOpen | kHeld | kListed)) != 0;
  if (is_somebodys || !is_worth_it(next)) return {next, Duty::kNone};
  return {next | kListed, Duty::kList};
}
constexpr u64 taken(u64 word, u64 granules) { return word - granules; }
// Who closes it or lets it go keeps it if it is whole.
constexpr Next let_go(u64 word) {
  if (is_whole(word)) return {word | kHeld, Duty::kRetire};
  const u64 next = word & ~kHeld;
  return is_worth_it(word) ? Next{next | kListed, Duty::kList} : Next{next, Duty::kNone};
}
constexpr Next closed(u64 word, u64 granules) { return let_go((word & ~kOpen) | granules << kLengthShift); }

}  // namespace freeway::strip
