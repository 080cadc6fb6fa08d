// SPDX-License-Identifier: MIT
#include "size_table.h"

#include <atomic>
#include <cstdint>

#include "freeway/freeway.h"

namespace freeway_jemalloc {
namespace {

constexpr unsigned kMostClasses = 128;
constexpr unsigned kMostLoans = 64;                        // a class's first blocks may be a larger one's
constexpr unsigned kMostTries = 128;                       // some blocks are given at random to a guard
constexpr std::size_t kLargeUnit = std::size_t{64} << 10;  // larger blocks are whole frames
constexpr std::size_t kQuantum = 16;

constinit std::atomic<std::size_t> g_classes[kMostClasses];
constinit std::atomic<unsigned> g_known{0};

// The size of a small block for `size` bytes, once the loans of its class have ended; 0: there is none, or no memory.
std::size_t probe(std::size_t size) {
  std::size_t least = 0;
  for (unsigned tries = 0, found = 0; tries < kMostTries && found <= kMostLoans; ++tries) {
    void* block = freeway_malloc(size);
    if (block == nullptr) return 0;
    freeway_block_info_t info;
    freeway_block_info(block, &info, sizeof info);
    freeway_free(block);
    if (info.kind == FREEWAY_LARGE_BLOCK) return 0;
    if (info.kind != FREEWAY_SMALL_BLOCK) continue;
    ++found;
    if (least != 0 && info.size != least) return info.size < least ? info.size : least;
    least = info.size;
  }
  return least;
}

unsigned find_out() {
  unsigned count = 0;
  for (std::size_t size = 1; count < kMostClasses; ++count) {
    const std::size_t found = probe(size);
    if (found == 0) break;
    g_classes[count].store(found, std::memory_order_relaxed);
    size = found + 1;
  }
  g_known.store(count, std::memory_order_release);  // [S1] pairs with [S2]
  return count;
}

std::size_t round_up(std::size_t size, std::size_t unit) { return (size + unit - 1) & ~(unit - 1); }

}  // namespace

std::size_t block_size(std::size_t size, std::size_t alignment) {
  if (size > PTRDIFF_MAX - kLargeUnit || alignment > PTRDIFF_MAX) return 0;
  unsigned count = g_known.load(std::memory_order_acquire);  // [S2] pairs with [S1]
  if (count == 0) count = find_out();
  if (count == 0) return round_up(size == 0 ? 1 : size, kQuantum);
  // A block of a class is aligned to the largest power of two that divides its size.
  for (unsigned i = 0; i < count; ++i) {
    const std::size_t bytes = g_classes[i].load(std::memory_order_relaxed);
    if (bytes >= size && bytes % alignment == 0) return bytes;
  }
  return round_up(size == 0 ? 1 : size, kLargeUnit);
}

}  // namespace freeway_jemalloc
