// SPDX-License-Identifier: MIT
// groups.h: sorts a batch of freed blocks by the bitmap word that they belong to, so that each word is touched once.
//
// A hash of 128 entries finds the group that a block belongs to. A collision starts a second group for the same word,
// which costs one more atomic operation and nothing else. Pure: reads no shared word but the page map, through `lookup`.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

// Blocks of one word of one superblock's bitmap.
struct Group {
  u64 mask;
  u32 descriptor;
  u8 block;  // number of one of the blocks in the batch
  u8 word;
};
static_assert(sizeof(Group) == 16);  // a batch of them stands on the stack of a slow path

// Where a block lies. descriptor 0: it is not a block (the batch skips it).
struct Place {
  u32 descriptor;
  u32 index;  // of the block in its superblock
};

constexpr unsigned kBatchMax = 64;  // blocks in a batch

// Groups `count` blocks (at most kBatchMax); `place(i)` says where the i-th lies. Returns how many groups there are.
template <class PlaceOf>
FREEWAY_INLINE unsigned make_groups(unsigned count, Group (&groups)[kBatchMax], PlaceOf&& place) {
  constexpr unsigned kHashBits = 7;
  u8 table[1u << kHashBits] = {};  // group number + 1
  unsigned made = 0;
  unsigned last = 0;  // the group of the block before: blocks freed in order need no hash
  for (unsigned i = 0; i < count; ++i) {
    const Place p = place(i);
    if (p.descriptor == 0) continue;
    const u32 word = p.index / 64;
    if (made == 0 || groups[last].descriptor != p.descriptor || groups[last].word != word) {
      const u64 key = (u64{p.descriptor} << 6) | word;
      u8& entry = table[(key * 0x9e3779b97f4a7c15u) >> (64 - kHashBits)];
      if (entry == 0 || groups[entry - 1].descriptor != p.descriptor || groups[entry - 1].word != word) {
        groups[made] = {0, p.descriptor, static_cast<u8>(i), static_cast<u8>(word)};
        entry = static_cast<u8>(++made);
      }
      last = entry - 1u;
    }
    Group& group = groups[last];
    const u64 bit = u64{1} << (p.index % 64);
    if ((group.mask & bit) != 0) {  // the same block twice in one batch: a group of its own finds the double free
      groups[made++] = {bit, p.descriptor, static_cast<u8>(i), static_cast<u8>(word)};
      continue;
    }
    group.mask |= bit;
  }
  return made;
}

}  // namespace freeway
