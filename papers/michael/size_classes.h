// SPDX-License-Identifier: MIT
// size_classes.h: superblocks and the blocks in them (Michael 2004, §3.1: superblocks of e.g. 16 KB, blocks of one
// size).
//
// A hyperblock of 1 MiB is cut into 64 superblocks as a superblock is cut into blocks: each has a prefix of 8 bytes, so
// a superblock begins at 8 mod 16. Block sizes are multiples of 16 and a block's own prefix takes 8: what malloc
// returns is aligned to 16. The paper's own layout (blocks at 0, pointers at 8 mod 16) is the build variant
// `paper-layout`.
//
// Up to 896 bytes the sizes are the flagship's; above, where a superblock has 16 blocks or fewer, the largest multiples
// of 16 that fit 16, 14, 12, 10, 9, … 2 times. Larger requests are large blocks, straight from the system.
#pragma once

#include <array>

#include "papers/michael/anchor.h"
#include "size/size_classes.h"

#ifndef FREEWAY_MICHAEL_PAPER_LAYOUT
#define FREEWAY_MICHAEL_PAPER_LAYOUT 0
#endif

namespace freeway::michael {

constexpr bool kPaperLayout = FREEWAY_MICHAEL_PAPER_LAYOUT != 0;
constexpr std::size_t kPrefix = 8;  // EIGHTBYTES

constexpr std::size_t kHyperblockBytes = kMiB;
constexpr u32 kSuperblockStride = 16 * kKiB;
constexpr u32 kSuperblocks = kHyperblockBytes / kSuperblockStride;
constexpr u32 kSuperblockSkip = kPaperLayout ? 8 : 0;  // unused bytes before the first block
constexpr u32 kSuperblockBytes = kSuperblockStride - kPrefix - kSuperblockSkip;

constexpr unsigned kCommonClasses = 19;  // 16 … 896 bytes
constexpr u32 kCounts[] = {16, 14, 12, 10, 9, 8, 7, 6, 5, 4, 3, 2};
constexpr unsigned kClasses = kCommonClasses + sizeof(kCounts) / sizeof(kCounts[0]);

// Bytes a block of class `c`, prefix included.
constexpr u32 block_size(unsigned c) {
  if (c < kCommonClasses) return kSizeClasses[c + 1].size;
  return kSuperblockBytes / kCounts[c - kCommonClasses] / 16 * 16;
}
constexpr u32 blocks_of(unsigned c) { return kSuperblockBytes / block_size(c); }

// With one block in a superblock, freeing it would go from FULL to EMPTY at once, and nobody would retire the
// descriptor (Fig. 6: line 22 is not reached, and line 21 finds it nowhere).
static_assert(blocks_of(kClasses - 1) >= 2);
static_assert(blocks_of(0) <= anchor::kMaxBlocks && kSuperblocks <= anchor::kMaxBlocks);

constexpr std::size_t kMaxSmallBytes = block_size(kClasses - 1) - kPrefix;

// By the size of the block in multiples of 16 bytes.
constexpr std::size_t kClassTableSize = block_size(kClasses - 1) / 16 + 1;
constexpr std::array<u8, kClassTableSize> make_class_table() {
  std::array<u8, kClassTableSize> table{};
  unsigned c = 0;
  for (std::size_t n = 0; n < kClassTableSize; ++n) {
    while (block_size(c) < n * 16) ++c;
    table[n] = static_cast<u8>(c);
  }
  return table;
}
inline constexpr std::array<u8, kClassTableSize> kClassTable = make_class_table();

// The class for `bytes`, 0 to kMaxSmallBytes, of the caller's.
constexpr unsigned class_of(std::size_t bytes) { return kClassTable[(bytes + kPrefix + 15) / 16]; }

}  // namespace freeway::michael
