// SPDX-License-Identifier: MIT
//
// allocx.cc: the functions with flags (mallocx and its like) over Freeway's.
#include <cstdint>
#include <cstring>

#include "exported.h"
#include "flags.h"
#include "freeway/freeway.h"

using freeway_jemalloc::Flags;

namespace {

constexpr std::size_t kMinAlignment = 16;  // every block has it

std::size_t block_size(std::size_t size, Flags flags = {}) { return freeway_nallocx(size, flags.bits); }

void* allocate(std::size_t size, Flags flags) {
  if (flags.alignment() <= kMinAlignment) return freeway_malloc(size);
  return freeway_aligned_alloc(flags.alignment(), size);
}

// All of the block is zeroed, not only what was asked for: rallocx later clears what is behind its real size.
void* allocate_zeroed(std::size_t size, Flags flags) {
  if (flags.alignment() <= kMinAlignment) {
    const std::size_t whole = block_size(size);
    return freeway_calloc(1, whole == 0 ? size : whole);
  }
  void* block = allocate(size, flags);
  return block == nullptr ? nullptr : std::memset(block, 0, freeway_malloc_usable_size(block));
}

// Moves what is aligned more than realloc knows; keeps all that fits, also behind what was asked for.
void* resize_aligned(void* block, std::size_t old_size, std::size_t size, Flags flags) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(block) % flags.alignment() == 0;
  if (aligned && block_size(size, flags) == old_size) return block;
  void* moved = allocate(size, flags);
  if (moved == nullptr) return nullptr;
  const std::size_t new_size = freeway_malloc_usable_size(moved);
  std::memcpy(moved, block, old_size < new_size ? old_size : new_size);
  freeway_free(block);
  return moved;
}

// The whole block is asked for, so that realloc keeps all that fits.
void* resize_whole(void* block, std::size_t size) {
  const std::size_t whole = block_size(size);
  return freeway_realloc(block, whole == 0 ? size : whole);
}

}  // namespace

extern "C" {

void* mallocx(std::size_t size, int bits) noexcept {
  const Flags flags{bits};
  if (size == 0) size = 1;
  return flags.zero() ? allocate_zeroed(size, flags) : allocate(size, flags);
}

void* rallocx(void* block, std::size_t size, int bits) noexcept {
  const Flags flags{bits};
  if (block == nullptr) return mallocx(size, bits);
  if (size == 0) size = 1;
  if (flags.alignment() <= kMinAlignment && !flags.zero()) return freeway_realloc(block, size);
  const std::size_t old_size = freeway_malloc_usable_size(block);
  void* resized =
      flags.alignment() <= kMinAlignment ? resize_whole(block, size) : resize_aligned(block, old_size, size, flags);
  if (resized == nullptr || !flags.zero()) return resized;
  const std::size_t new_size = freeway_malloc_usable_size(resized);
  if (new_size > old_size) std::memset(static_cast<char*>(resized) + old_size, 0, new_size - old_size);
  return resized;
}

std::size_t xallocx(void* block, std::size_t, std::size_t, int) noexcept { return freeway_malloc_usable_size(block); }

std::size_t sallocx(const void* block, int) noexcept { return freeway_malloc_usable_size(const_cast<void*>(block)); }

void dallocx(void* block, int) noexcept { freeway_free(block); }

// The size may be that of zeroed blocks, which are asked for whole: Freeway is not told it.
void sdallocx(void* block, std::size_t, int) noexcept { freeway_free(block); }

std::size_t nallocx(std::size_t size, int bits) noexcept { return block_size(size, Flags{bits}); }

int je_get_defrag_hint(void* block) noexcept { return freeway_should_move(block); }

}  // extern "C"
