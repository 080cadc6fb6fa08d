// SPDX-License-Identifier: MIT
// occupancy.h: how full superblocks are, and which of them are worth emptying: pure functions.
//
// "Taken" is what a superblock's bitmap says: blocks in magazines count as taken, so it is an upper bound of what is
// live.
#pragma once

#include "base/integers.h"

namespace freeway::occupancy {

constexpr unsigned kTenths = 10;

// Which tenth a superblock belongs to: 0: up to (not with) 10 % taken … 9: from 90 % on.
constexpr unsigned tenth_of(u32 taken, u32 blocks) {
  const u64 tenth = u64{taken} * kTenths / blocks;
  return tenth < kTenths ? static_cast<unsigned>(tenth) : kTenths - 1;
}

// What the superblocks of a class that are neither full nor held by anybody add up to, in one word.
struct Usage {
  u64 superblocks = 0, taken = 0;

  static constexpr unsigned kTakenBits = 40;
  static constexpr u64 packed(u64 superblocks, u64 taken) { return superblocks << kTakenBits | taken; }
  static constexpr Usage of(u64 packed) { return {packed >> kTakenBits, packed & low_bits(kTakenBits)}; }
};

// Taken blocks of a thousand, over all these superblocks; 1000 where there are none.
constexpr u64 permille(Usage all, u32 blocks) {
  return all.superblocks == 0 ? 1000 : all.taken * 1000 / (all.superblocks * blocks);
}

// Whether blocks should leave a superblock that is neither full nor held and has so many taken ones of `blocks`: what
// all these superblocks have fits into one less of them, and this one is not much fuller than the average. "Not much"
// (an eighth) so that it does not end where all are equally full; and whatever the average, one that is an eighth full
// is worth emptying: else the last few would stay.
constexpr bool is_worth_leaving(u32 taken, u32 blocks, Usage all) {
  constexpr u64 kEighth = 8;
  if (all.superblocks < 2 || all.taken > (all.superblocks - 1) * blocks) return false;
  return u64{taken} * kEighth <= blocks || u64{taken} * all.superblocks <= all.taken + all.taken / kEighth;
}

}  // namespace freeway::occupancy
