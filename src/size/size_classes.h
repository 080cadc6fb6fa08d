// SPDX-License-Identifier: MIT
// size_classes.h: the size classes, computed at compile time.
//
// Classes step by 16 bytes up to 128 and then by a quarter of each power of two (so at most 25 %, on average 10 %, is
// lost inside a block) up to 32 KiB. From 1 KiB on there is one more behind each power of two, an eighth above it: for
// pages and buffers with a header (decision 037). Class 0 is no class: "not small, not ours, null". A class also fixes
// its superblock: one *span* of 64 KiB, 256 KiB or 1 MiB, aligned to its size, cut into blocks of one size from its
// start. Since spans are aligned, a block is aligned to the largest power of two that divides its size: that is how
// aligned_alloc finds its class.
#pragma once

#include <string.h>

#include <array>

#include "base/integers.h"

namespace freeway {

constexpr unsigned kFrameShift = 16;
constexpr std::size_t kFrameSize = std::size_t{1} << kFrameShift;  // 64 KiB: the unit of the page map

constexpr std::size_t kMinBlock = 16;
constexpr std::size_t kMaxSmall = 32 * kKiB;  // the largest block in a superblock, bytes
constexpr unsigned kClassCount = 46;          // classes 1 .. 45, and 0
constexpr unsigned kMaxWords = 64;            // words of one bit a block in a superblock, at most

struct SizeClass {
  static constexpr u32 kNoBlock = ~u32{0};

  u32 size;         // bytes a block
  u32 blocks;       // blocks in a span
  u32 words;        // ceil(blocks / 64)
  u32 span_frames;  // frames in a span: 1, 4 or 16
  u32 magic;        // (offset * magic) >> 35 == offset / size for every offset in the span
  u64 last_word;    // the bits of the last word that are blocks

  constexpr std::size_t span_bytes() const { return std::size_t{span_frames} << kFrameShift; }
  constexpr u64 full_mask(unsigned word) const { return word + 1 == words ? last_word : ~u64{0}; }
  // Index of the block that holds the byte at `offset` from the span's start.
  constexpr u32 index_of(u64 offset) const { return static_cast<u32>((offset * magic) >> 35); }
  // Start of the span that `address` lies in.
  constexpr u64 span_of(u64 address) const { return align_down(address, span_bytes()); }
  // A block begins at offset o of the span if o * begin_factor(), modulo 2^64, is below begin_limit() (after Lemire,
  // Kaser, Kurz: Faster remainder by direct computation, 2019). The factor is 2^64 / size, rounded up by e / size: of a
  // multiple q * size the product is q * e, of anything else at least the factor, which is far above.
  constexpr u64 begin_factor() const { return ~u64{0} / size + 1; }
  constexpr u64 begin_limit() const { return (blocks - 1) * (begin_factor() * size) + 1; }
  // Index of the block that starts at `address`, kNoBlock if none does.
  constexpr u32 block_at(u64 address) const {
    const u64 offset = address - span_of(address);
    const u32 index = index_of(offset);
    return index * u64{size} == offset && index < blocks ? index : kNoBlock;
  }
};

namespace size_classes_detail {

constexpr u32 size_of_class(unsigned c) {
  if (c <= 8) return c * 16;
  if (c <= 20) {
    unsigned group = (c - 9) / 4;  // 0: 160 .. 256, 1: 320 .. 512, 2: 640 .. 1024
    return (128u << group) + ((c - 9) % 4 + 1) * (32u << group);
  }
  unsigned group = (c - 21) / 5, step = (c - 21) % 5;  // 0: 1152, 1280, 1536, 1792, 2048, 1: 2304, 2560, …
  return (1024u << group) + (step == 0 ? 1 : 2 * step) * (128u << group);
}

constexpr SizeClass make_class(unsigned c) {
  SizeClass k{};
  if (c == 0) return k;
  k.size = size_of_class(c);
  k.span_frames = k.size <= 2 * kKiB ? 1 : k.size <= 8 * kKiB ? 4 : 16;
  k.blocks = static_cast<u32>((std::size_t{k.span_frames} << kFrameShift) / k.size);
  k.words = static_cast<u32>(ceil_div(k.blocks, 64));
  k.last_word = low_bits(k.blocks - (k.words - 1) * 64);
  k.magic = static_cast<u32>(((u64{1} << 35) + k.size - 1) / k.size);
  return k;
}

constexpr std::array<SizeClass, kClassCount> make_classes() {
  std::array<SizeClass, kClassCount> classes{};
  for (unsigned c = 0; c < kClassCount; ++c) classes[c] = make_class(c);
  return classes;
}

}  // namespace size_classes_detail

inline constexpr std::array<SizeClass, kClassCount> kSizeClasses = size_classes_detail::make_classes();
static_assert(kSizeClasses[kClassCount - 1].size == kMaxSmall);

// The smallest class whose blocks hold `bytes`, by arithmetic; 0 <= bytes <= kMaxSmall.
constexpr unsigned class_of_size(std::size_t bytes) {
  if (bytes <= 128) return bytes == 0 ? 1 : static_cast<unsigned>((bytes + 15) / 16);
  unsigned log = log2_floor(bytes - 1);  // bytes in (2^log, 2^(log+1)]
  unsigned eighth = static_cast<unsigned>((bytes - 1) >> (log - 3)) & 7;
  if (log < 10) return 9 + (log - 7) * 4 + eighth / 2;
  return 21 + (log - 10) * 5 + (eighth == 0 ? 0 : eighth / 2 + 1);
}

// The smallest class whose blocks hold `bytes` and are aligned to `alignment` (a power of two): that of the size
// rounded up to the alignment. 0 if no class is.
constexpr unsigned class_of_aligned(std::size_t bytes, std::size_t alignment) {
  if (bytes > kMaxSmall || alignment > kMaxSmall) return 0;
  return class_of_size(align_up(bytes == 0 ? 1 : bytes, alignment));
}
constexpr bool rounded_sizes_are_aligned() {
  for (std::size_t alignment = kMinBlock; alignment <= kMaxSmall; alignment *= 2)
    for (std::size_t bytes = alignment; bytes <= kMaxSmall; bytes += alignment)
      if (kSizeClasses[class_of_size(bytes)].size % alignment != 0) return false;
  return true;
}
static_assert(rounded_sizes_are_aligned());

// The two tables of the fast path: by the byte up to 1 KiB, by 128 bytes up to kMaxSmall.
constexpr std::size_t kByteTableMax = 1024;
constexpr std::size_t kStepTableShift = 7;

constexpr std::size_t kStepTableSize = (kMaxSmall >> kStepTableShift) + 1;

// table[n] = class_of_size(n << shift), for n >= `from`.
template <std::size_t N> void fill_class_table(u8 (&table)[N], unsigned shift, std::size_t from = 0) {
  for (unsigned c = 1; from < N; ++c) {
    const std::size_t end = clamp((kSizeClasses[c].size >> shift) + 1, from, N);
    memset(table + from, static_cast<int>(c), end - from);
    from = end;
  }
}

}  // namespace freeway
