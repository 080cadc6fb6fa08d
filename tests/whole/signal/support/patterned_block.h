// SPDX-License-Identifier: MIT
//
// Blocks that know what is in them. The first word holds the block's size and a serial number, the rest follows from
// it, so whoever gets the block, in whatever thread, handler or process, can check it without being told anything.
// Two owners of one block are found out because their serial numbers differ.
//
// Large blocks are written at a sample of places only (all of the first KiB, then 8 bytes of every 512, and the end):
// the point is to find damage, and damage by an allocator comes in blocks, lines or pages.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_PATTERNED_BLOCK_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_PATTERNED_BLOCK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

constexpr size_t kSmallestBlock = 16;
constexpr size_t kDensePart = 1024;
constexpr size_t kSparseStep = 512;

inline uint64_t pattern_seed(size_t size, uint32_t serial) { return uint64_t{serial} << 32 | size; }
inline size_t seed_size(uint64_t seed) { return static_cast<uint32_t>(seed); }
inline uint64_t pattern_word(uint64_t seed, size_t offset) {
  return offset == 0 ? seed : (seed ^ offset) * 0x9e3779b97f4a7c15u;
}
inline unsigned char pattern_byte(uint64_t seed, size_t offset) {
  return static_cast<unsigned char>(pattern_word(seed, offset) >> 56);
}
inline size_t next_pattern_offset(size_t offset) {
  return offset + 8 < kDensePart ? offset + 8 : (offset / kSparseStep + 1) * kSparseStep;
}

inline uint64_t read_word(const void* block, size_t offset) {
  uint64_t word;
  std::memcpy(&word, static_cast<const char*>(block) + offset, sizeof word);
  return word;
}
inline void write_word(void* block, size_t offset, uint64_t word) {
  std::memcpy(static_cast<char*>(block) + offset, &word, sizeof word);
}

inline uint64_t seed_of(const void* block) { return read_word(block, 0); }

// Writes the pattern over a block of `size` >= 16 bytes.
inline void stamp(void* block, size_t size, uint32_t serial) {
  const uint64_t seed = pattern_seed(size, serial);
  for (size_t offset = 0; offset + 8 <= size; offset = next_pattern_offset(offset))
    write_word(block, offset, pattern_word(seed, offset));
  for (size_t offset = size & ~size_t{7}; offset < size; offset++)
    static_cast<unsigned char*>(block)[offset] = pattern_byte(seed, offset);
}

// Checks the part of a block stamped with `seed` that lies in its first `kept` bytes.
inline void verify_prefix(const void* block, uint64_t seed, size_t kept, const char* where) {
  for (size_t offset = 0; offset + 8 <= kept; offset = next_pattern_offset(offset))
    if (read_word(block, offset) != pattern_word(seed, offset)) [[unlikely]] {
      Line()
          .text("block ")
          .hex(reinterpret_cast<uintptr_t>(block))
          .text(" of ")
          .number(seed_size(seed))
          .text(" bytes, seed ")
          .hex(seed)
          .text(": at offset ")
          .number(offset)
          .text(" found ")
          .hex(read_word(block, offset))
          .text(" instead of ")
          .hex(pattern_word(seed, offset))
          .write_to(2);
      fail(where, reinterpret_cast<uintptr_t>(block), offset);
    }
}

// Checks all of a stamped block; returns its size.
inline size_t verify(const void* block, const char* where) {
  const uint64_t seed = seed_of(block);
  const size_t size = seed_size(seed);
  // A damaged first word mostly gives a size that the block cannot have; do not run off its end.
  require(size >= kSmallestBlock && size <= (size_t{64} << 20), where, reinterpret_cast<uintptr_t>(block), seed);
  verify_prefix(block, seed, std::min(size, kSmallestBlock), where);
  verify_prefix(block, seed, size, where);
  for (size_t offset = size & ~size_t{7}; offset < size; offset++)
    require(static_cast<const unsigned char*>(block)[offset] == pattern_byte(seed, offset), where,
            reinterpret_cast<uintptr_t>(block), offset);
  return size;
}

// The last act of an owner: whoever else believes in owning the block will find it changed.
inline void unstamp(void* block) { write_word(block, 0, 0xdead'0000'dead'0000u); }

}  // namespace freeway_test
#endif
