// SPDX-License-Identifier: MIT
// size_map.h: LFMalloc's size classes and its radix map (Dice & Garthwaite 2002, sections 3.2.1 and 3.2.2 (4), (6)).
//
// A superblock is 64 KiB, one frame, cut into blocks of one class. A block is an 8-byte prefix (the address of its
// superblock's header) and the data behind it; blocks begin at 8 mod 16, so data are aligned to 16. Block sizes step by
// at most 20 %, or by 16 bytes where that is more (the alignment wants it: up to 80 bytes). The map from size to class
// is one table look-up, whatever the size: SizeClass[sz/8], sz/8 rounded up so that a block's last byte is used.
// Checked   papers/lfmalloc/tests/size_map_test.cc (exhaustive)
#pragma once

#include <array>

#include "base/integers.h"

namespace freeway::lfmalloc {

constexpr std::size_t kSuperblockBytes = 64 * kKiB;
constexpr std::size_t kPrefixBytes = 8;
constexpr std::size_t kFirstData = 16;  // offset of the first block's data in its superblock
constexpr u32 kMaxStep = 20;            // percent

struct BlockClass {
  u32 stride;  // bytes from one block to the next, prefix included
  u32 blocks;  // in a superblock
  u32 magic;   // (offset * magic) >> 35 == offset / stride for every offset in a superblock

  constexpr u32 data_bytes() const { return stride - static_cast<u32>(kPrefixBytes); }
  // Number of the block in whose data, or prefix of the next one, the byte at `offset` of the superblock lies.
  constexpr u32 index_of(u64 offset) const { return static_cast<u32>(((offset - kFirstData) * magic) >> 35); }
  // Offset of the data of the block that holds the byte at `offset` (>= kFirstData) of the superblock.
  constexpr u32 data_of(u64 offset) const { return static_cast<u32>(kFirstData) + index_of(offset) * stride; }
};

namespace size_map_detail {

constexpr u32 kRoom = static_cast<u32>(kSuperblockBytes - (kFirstData - kPrefixBytes));
// Two blocks at least: a full superblock does not become empty at once.
constexpr u32 kLargestStride = kRoom / 2 / 16 * 16;

constexpr u32 next_stride(u32 stride) {
  const u32 stepped = static_cast<u32>(align_down(stride + stride * kMaxStep / 100, 16));
  return static_cast<u32>(clamp(stepped, stride + 16, kLargestStride));
}
constexpr unsigned count_classes() {
  unsigned count = 1;
  for (u32 stride = 16; stride < kLargestStride; stride = next_stride(stride)) ++count;
  return count;
}

}  // namespace size_map_detail

constexpr unsigned kClassCount = size_map_detail::count_classes();
constexpr std::size_t kLargestBlock = size_map_detail::kLargestStride - kPrefixBytes;  // bytes of data
static_assert(kClassCount <= 62, "a class and 'none' must fit into the gate of a local word");

namespace size_map_detail {

constexpr std::array<BlockClass, kClassCount> make_classes() {
  std::array<BlockClass, kClassCount> classes{};
  u32 stride = 16;
  for (BlockClass& k : classes) {
    k = {stride, kRoom / stride, static_cast<u32>(((u64{1} << 35) + stride - 1) / stride)};
    stride = next_stride(stride);
  }
  return classes;
}

}  // namespace size_map_detail

inline constexpr std::array<BlockClass, kClassCount> kClasses = size_map_detail::make_classes();

namespace size_map_detail {

constexpr std::size_t kMapSize = kLargestBlock / 8 + 1;

constexpr std::array<u8, kMapSize> make_map() {
  std::array<u8, kMapSize> map{};
  unsigned c = 0;
  for (std::size_t i = 0; i < kMapSize; ++i) {
    while (kClasses[c].data_bytes() < i * 8) ++c;
    map[i] = static_cast<u8>(c);
  }
  return map;
}

}  // namespace size_map_detail

// SizeClass[(sz + 7) / 8], 0 <= sz <= kLargestBlock.
inline constexpr std::array<u8, size_map_detail::kMapSize> kSizeClass = size_map_detail::make_map();

constexpr unsigned class_of_size(std::size_t bytes) { return kSizeClass[(bytes + 7) / 8]; }

}  // namespace freeway::lfmalloc
