// SPDX-License-Identifier: MIT
// groups.h: sorts a batch of freed blocks by the bitmap word that they belong to, so that each word is touched once.
//
// Blocks that were freed in the order of their addresses, or against it, are found as runs. The others are merged by a
// hash of 128 entries; a collision starts a second group for the same word, which costs one more operation on it and
// nothing else. Where operations are not atomic (arch/alone.h) they cost less than any merging, so there each piece is
// one. Pure: reads no shared word but the page map, through `place`.
#pragma once

#include "base/compiler.h"
#include "size/size_classes.h"
#include "sync/tagged_stack.h"

namespace freeway {

constexpr unsigned kBatchMax = 64;  // blocks in a batch

// Blocks of one word of one superblock's bitmap.
struct Group {
  static constexpr unsigned kWordBits = 6;

  u64 mask;
  u32 key;   // descriptor and number of the word
  u8 block;  // number in the batch of a block of that superblock

  static constexpr u32 key_of(u32 descriptor, u32 word) { return descriptor << kWordBits | word; }
  constexpr u32 descriptor() const { return key >> kWordBits; }
  constexpr u32 word() const { return key & static_cast<u32>(low_bits(kWordBits)); }
};
static_assert(kMaxWords <= 1u << Group::kWordBits && StackHead::kIndexBits + Group::kWordBits <= 32);

// The groups of a batch, field by field: they stand on the stack of a slow path.
class Groups {
 public:
  unsigned size() const { return size_; }
  Group operator[](unsigned i) const { return {mask_[i], key_[i], block_[i]}; }
  u32 key(unsigned i) const { return key_[i]; }
  void add(const Group& group) {
    mask_[size_] = group.mask;
    key_[size_] = group.key;
    block_[size_++] = group.block;
  }
  // Adds bits to a group; returns those that were in it already.
  u64 merge(unsigned i, u64 bits) {
    const u64 old = mask_[i];
    mask_[i] = old | bits;
    return old & bits;
  }

 private:
  u64 mask_[kBatchMax];
  u32 key_[kBatchMax];
  u8 block_[kBatchMax];
  unsigned size_ = 0;
};

// Where a block lies. descriptor 0: it is not a block (the batch skips it).
struct Place {
  u32 descriptor;
  u32 index;  // of the block in its superblock
};

// How many blocks from the first on lie side by side in one superblock, each `step` behind the one before; at most
// `most`.
FREEWAY_INLINE unsigned run_length(void* const* blocks, unsigned most, u64 step) {
  const auto is_behind = [=](unsigned i) {
    return reinterpret_cast<u64>(blocks[i]) == reinterpret_cast<u64>(blocks[0]) + i * step;
  };
  // All of them, in all probability: then they are compared without a branch for each.
  if (is_behind(most - 1)) {
    u64 differences = 0, expected = reinterpret_cast<u64>(blocks[0]);
#pragma GCC unroll 4
    for (unsigned i = 0; i < most; ++i, expected += step) differences |= reinterpret_cast<u64>(blocks[i]) ^ expected;
    if (FREEWAY_LIKELY(differences == 0)) return most;
  }
  unsigned n = 1;
  while (n < most && is_behind(n)) ++n;
  return n;
}

// Calls f(descriptor, word, bits, i) for pieces of the batch that lie in one word each: runs of blocks side by side,
// upwards or downwards, or single blocks; i is the number in the batch of one of the piece's blocks. `size`: bytes a
// block; `in_span`: blocks in a span; place(block) says where a block lies.
template <class PlaceOf, class F>
FREEWAY_INLINE void each_piece(void* const* blocks, unsigned count, u64 size, u32 in_span, PlaceOf&& place, F&& f) {
  for (unsigned i = 0; i < count;) {
    const Place p = place(blocks[i]);
    const unsigned left = count - i;
    const u64 step = left == 1 ? 0 : reinterpret_cast<u64>(blocks[i + 1]) - reinterpret_cast<u64>(blocks[i]);
    const bool up = step == size;
    if (FREEWAY_LIKELY((!up && step != 0 - size) || p.descriptor == 0)) {
      if (p.descriptor != 0) f(p.descriptor, p.index / 64, u64{1} << (p.index % 64), i);
      ++i;
      continue;
    }
    const u32 room = up ? in_span - p.index : p.index + 1;  // up to the span's end; beyond it is another's
    const unsigned length = run_length(blocks + i, room < left ? room : left, step);
    u32 at = up ? p.index : p.index + 1 - length;
    for (unsigned rest = length; rest > 0;) {
      const unsigned here = static_cast<unsigned>(clamp(rest, 1, 64 - at % 64));
      f(p.descriptor, at / 64, low_bits(here) << (at % 64), i + (up ? at - p.index : p.index - at));
      at += here;
      rest -= here;
    }
    i += length;
  }
}

// Groups `count` blocks, at most kBatchMax.
template <class PlaceOf>
FREEWAY_INLINE void make_groups(void* const* blocks, unsigned count, u64 size, u32 in_span, PlaceOf&& place,
                                Groups& groups) {
  constexpr unsigned kHashBits = 7;
  u8 table[1u << kHashBits] = {};  // group number + 1
  unsigned last = 0;               // group number + 1 of the piece before: neighbours need no hash
  each_piece(blocks, count, size, in_span, place, [&](u32 descriptor, u32 word, u64 bits, unsigned i) {
    const u32 key = Group::key_of(descriptor, word);
    if (last == 0 || groups.key(last - 1) != key) {
      u8& entry = table[(key * u32{0x9e3779b9}) >> (32 - kHashBits)];
      if (entry == 0 || groups.key(entry - 1u) != key) {
        groups.add({bits, key, static_cast<u8>(i)});
        last = entry = static_cast<u8>(groups.size());
        return;
      }
      last = entry;
    }
    // The same block twice in one batch: a group of its own finds the double free.
    if (const u64 twice = groups.merge(last - 1, bits)) groups.add({twice, key, static_cast<u8>(i)});
  });
}

}  // namespace freeway
