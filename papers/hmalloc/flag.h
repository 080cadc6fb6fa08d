// SPDX-License-Identifier: MIT
// flag.h: the word at the start of a shared block that says whether the block is free (HMalloc 2020, section 3.1).
//
// Word      0 free | 1 occupied, the block was handed out right behind its flag area | 1 + 4 * (offset xor size of the
//           flag area) occupied, handed out `offset` bytes from its start (an aligned allocation) | 2 + address, a
//           multiple of 64: in somebody's block cache list, and the address of the next block in it
//           The paper has 0 and 1, and leaves 1 in a cached block; its owner tells only 0 from the rest
// Moves     0 or unset -> 1   by the owner of the superblock, which saw 0, or has never handed the block out
//           1 -> 0            by whoever frees the block: a store, since nobody else may
//           1 -> 2 -> 1       by whoever frees the block into his own cache list, and allocates it from there
// Invariant who may store to the word is always one: the block's user, the list's owner, or, at 0, who owns
//           the superblock
// Orders    [R1] free publishes all that was done with the block; [A1] the superblock's owner sees it before it reuses
//           the block (shared_superblock.h). All other accesses are ordered by the program's own passing on of the
//           block
// ABA       none: only the owner leaves 0
#pragma once

#include "papers/hmalloc/sizes.h"

namespace freeway::hmalloc {

template <class S> struct Flag {
  static constexpr u64 kFree = 0;

  // Handed out `offset` bytes from the block's start.
  static constexpr u64 occupied(std::size_t offset) { return 1 | (u64{offset ^ S::kFlagArea} << 2); }
  static constexpr u64 cached(uptr next) { return next | 2; }

  static constexpr bool is_occupied(u64 word) { return (word & 3) == 1; }
  static constexpr bool is_cached(u64 word) { return (word & 3) == 2; }
  // of an occupied block
  static constexpr std::size_t offset(u64 word) { return (word >> 2) ^ S::kFlagArea; }
  // of a cached block: the next one, 0 at the end
  static constexpr uptr next(u64 word) { return word & ~u64{3}; }
};

template <class Env> using FlagWord = typename Env::template Atomic<u64>;

// The flag of the block that starts at `block`. Whoever may store to it may load and store it relaxed.
template <class Env> FlagWord<Env>& flag_of(uptr block) { return *reinterpret_cast<FlagWord<Env>*>(block); }

// Algorithm 4, line 6: frees the block, as far as its owner is concerned. By whoever the block belongs to, who does not
// touch it, or the superblock, any more.
template <class Env> void reset_flag(uptr block) {
  flag_of<Env>(block).store_release(0);  // [R1] pairs with [A1]
}

// For the superblock's owner, who may reuse the block if this is 0.
template <class Env> u64 look_at_flag(uptr block) {
  return flag_of<Env>(block).load_acquire();  // [A1] pairs with [R1]
}

}  // namespace freeway::hmalloc
