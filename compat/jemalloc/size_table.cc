// SPDX-License-Identifier: MIT
#include "size_table.h"

#include <atomic>

#include "freeway/freeway.h"

namespace freeway_jemalloc {
namespace {

constexpr unsigned kMostBins = 128;
constexpr unsigned kMostTries = 64;               // of a block that was not given at random to a guard or a profile
constexpr std::size_t kLargeUnit = std::size_t{64} << 10;  // larger blocks are whole frames
constexpr std::size_t kQuantum = 16;

struct Class {
  std::atomic<std::size_t> size, superblock;
  std::atomic<std::uint32_t> blocks;
};

constinit Class classes[kMostBins];
constinit std::atomic<unsigned> g_known{0};

// What a small block for `size` bytes is; size 0: there is none, or no memory.
Bin probe(std::size_t size) {
  for (unsigned tries = 0; tries < kMostTries; ++tries) {
    void* block = freeway_malloc(size);
    if (block == nullptr) return {};
    freeway_block_info_t info;
    freeway_block_info(block, &info, sizeof info);
    freeway_free(block);
    if (info.kind == FREEWAY_SMALL_BLOCK)
      return {info.size, static_cast<std::uint32_t>(info.superblock_blocks), info.superblock_size};
    if (info.kind == FREEWAY_LARGE_BLOCK) return {};
  }
  return {};
}

unsigned find_out() {
  unsigned count = 0;
  for (std::size_t size = 1; count < kMostBins; ++count) {
    const Bin found = probe(size);
    if (found.size == 0) break;
    classes[count].size.store(found.size, std::memory_order_relaxed);
    classes[count].blocks.store(found.blocks, std::memory_order_relaxed);
    classes[count].superblock.store(found.superblock, std::memory_order_relaxed);
    size = found.size + 1;
  }
  g_known.store(count, std::memory_order_release);  // [S1] pairs with [S2]
  return count;
}

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) & ~(unit - 1); }

}  // namespace

unsigned bin_count() {
  const unsigned count = g_known.load(std::memory_order_acquire);  // [S2] pairs with [S1]
  return count != 0 ? count : find_out();
}

Bin bin(unsigned index) {
  const Class& c = classes[index];
  return {c.size.load(std::memory_order_relaxed), c.blocks.load(std::memory_order_relaxed),
          c.superblock.load(std::memory_order_relaxed)};
}

std::size_t block_size(std::size_t size, std::size_t alignment) {
  if (size > PTRDIFF_MAX - kLargeUnit || alignment > PTRDIFF_MAX) return 0;
  const unsigned count = bin_count();
  if (count == 0) return round_up(size == 0 ? 1 : size, kQuantum);
  // A block of a class is aligned to the largest power of two that divides its size.
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t bytes = classes[i].size.load(std::memory_order_relaxed);
    if (bytes >= size && bytes % alignment == 0) return bytes;
  }
  return round_up(size == 0 ? 1 : size, kLargeUnit);
}

}  // namespace freeway_jemalloc
