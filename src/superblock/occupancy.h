// SPDX-License-Identifier: MIT
// occupancy.h: how full superblocks are, and which of them are worth emptying: pure functions.
//
// "Taken" is a superblock's count by its bitmap: blocks in magazines count as taken, so it is an upper bound of the
// live blocks.
#pragma once

#include "base/integers.h"

namespace freeway::occupancy {

constexpr unsigned kTenths = 10;

// The tenth that a superblock belongs to: 0: less than 10 % taken … 9: from 90 % on.
constexpr unsigned tenth_of(u32 taken, u32 blocks) {
  const u64 tenth = u64{taken} * kTenths / blocks;
  return tenth < kTenths ? static_cast<unsigned>(tenth) : kTenths - 1;
}

// The sum over a class's superblocks that are neither full nor held, in one word.
struct Usage {
  u64 superblocks = 0, taken = 0;

  static constexpr unsigned kTakenBits = 40;
  static constexpr u64 packed(u64 superblocks, u64 taken) { return superblocks << kTakenBits | taken; }
  static constexpr Usage of(u64 packed) { return {packed >> kTakenBits, packed & low_bits(kTakenBits)}; }
};

// Taken blocks per thousand, over all these superblocks; 1000 if there are none.
constexpr u64 permille(Usage all, u32 blocks) {
  return all.superblocks == 0 ? 1000 : all.taken * 1000 / (all.superblocks * blocks);
}

// Whether blocks should leave a superblock that is neither full nor held and has so many taken ones of `blocks`: the
// blocks of all these superblocks fit into one superblock less, and this one is not much fuller than the average. "Not
// much" (an eighth) so that it does not end where all are equally full. Whatever the average, one that is an eighth
// full is worth emptying: else the last few would stay.
constexpr bool is_worth_leaving(u32 taken, u32 blocks, Usage all) {
  constexpr u64 kEighth = 8;
  if (all.superblocks < 2 || all.taken > (all.superblocks - 1) * blocks) return false;
  return u64{taken} * kEighth <= blocks || u64{taken} * all.superblocks <= all.taken + all.taken / kEighth;
}

}  // namespace freeway::occupancy
