// SPDX-License-Identifier: MIT
// sized.cc: choosing between small and large, alignment, realloc, usable sizes.
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "engine/freeway/heap.h"
#include "os/process.h"

extern "C" void* freeway_malloc(std::size_t) noexcept;
extern "C" void freeway_free(void*) noexcept;

namespace freeway {

namespace {
constexpr std::size_t kMaxSize = PTRDIFF_MAX;

void* refused() {
  errno = ENOMEM;
  return nullptr;
}
}  // namespace

void* Heap::malloc_slow(std::size_t size, const void*) {
  if (size > kMaxSize || !start()) return refused();
  void* block = size <= kMaxSmall ? small_slow(class_of_size(size)) : large_block(size, kFrameSize, nullptr);
  return block != nullptr ? block : refused();
}

void* Heap::large_block(std::size_t size, std::size_t alignment, bool* zero) {
  LargeBlocks<Machine>::Block block = large_.take(size, alignment);
  if (block.address == 0) {
    scavenge();
    block = large_.take(size, alignment);
  }
  if (block.address == 0) return nullptr;
  large_count_.fetch_add_relaxed(1);
  if (zero != nullptr) *zero = block.zero;
  return reinterpret_cast<void*>(block.address);
}

void* Heap::allocate_aligned(std::size_t size, std::size_t alignment) {
  if (alignment <= kMinBlock) return freeway_malloc(size);
  if (size > kMaxSize || !start()) return refused();
  const unsigned c = class_of_aligned(size, alignment);
  // A block of the class is what malloc of the class's size gives.
  if (c != 0) return freeway_malloc(kSizeClasses[c].size);
  void* block = large_block(size == 0 ? 1 : size, alignment, nullptr);
  return block != nullptr ? block : refused();
}

void* Heap::allocate_zeroed(std::size_t size) {
  if (size <= kMaxSmall) {
    void* block = freeway_malloc(size);
    return block == nullptr ? nullptr : memset(block, 0, size);
  }
  if (size > kMaxSize || !start()) return refused();
  bool zero = false;
  void* block = large_block(size, kFrameSize, &zero);
  if (block == nullptr) return refused();
  return zero ? block : memset(block, 0, size);
}

void Heap::free_slow(void* block, const void* caller) {
  if (block == nullptr || !start()) return;
  const FrameInfo info = map_.get(reinterpret_cast<uptr>(block));
  switch (info.kind()) {
    case FrameInfo::kSmall:
      return free_small_slow(block, info, caller);
    case FrameInfo::kLarge:
    case FrameInfo::kHuge:
      return free_large(block, info, caller);
    case FrameInfo::kNothing:
      return report(classify(block), "free", block, caller);
  }
}

void Heap::free(void* block, const void* caller) {
  if (options_.harden)
    free_slow(block, caller);
  else
    freeway_free(block);
}

void Heap::free_large(void* block, FrameInfo info, const void* caller) {
  const auto address = reinterpret_cast<uptr>(block);
  if (address % kFrameSize != 0) return report(classify(block), "free", block, caller);
  if (!large_.give(address, info, process::coarse_time_ns()))
    return report(Fault::kDoubleFree, "free", block, caller);
  large_count_.fetch_sub_relaxed(1);
}

// The size of the small block at `address`, whose frame has `info`; 0 if there is none, or (FREEWAY_HARDEN) it is free.
std::size_t Heap::small_size(uptr address, FrameInfo info) {
  const SizeClass& k = kSizeClasses[backing_.descriptor(info.value()).size_class.load_relaxed()];
  const u32 index = k.block_at(address);
  if (index == SizeClass::kNoBlock) return 0;
  return options_.harden && superblocks_.is_free(info.value(), index) ? 0 : k.size;
}

std::size_t Heap::usable_size(const void* block, const void* caller) {
  if (block == nullptr) return 0;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = map_.get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t size = small_size(address, info)) return size;
  } else if (info.kind() != FrameInfo::kNothing && address % kFrameSize == 0) {
    return std::size_t{info.value()} * kFrameSize;
  }
  report(classify(block), "malloc_usable_size", block, caller);
  return 0;
}

void* Heap::reallocate(void* block, std::size_t size, const void* caller) {
  if (block == nullptr) return freeway_malloc(size);
  if (size == 0) {
    free(block, caller);
    return nullptr;
  }
  if (size > kMaxSize || !start()) return refused();
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = map_.get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t old_size = small_size(address, info)) {
      // Keep the block unless it is too small, or more than half of it would be wasted.
      if (size <= old_size && (size > old_size / 2 || old_size == kMinBlock)) return block;
      return move_block(block, old_size, size, caller);
    }
  } else if (info.kind() != FrameInfo::kNothing && address % kFrameSize == 0) {
    const std::size_t old_size = std::size_t{info.value()} * kFrameSize;
    if (size > kMaxSmall) {
      if (large_.resize(address, info, size, process::coarse_time_ns())) return block;
      if (info.kind() == FrameInfo::kHuge && size >= LargeBlocks<Machine>::kHugeFrames * kFrameSize)
        if (uptr moved = large_.move_huge(address, info, size)) return reinterpret_cast<void*>(moved);
    }
    return move_block(block, old_size, size, caller);
  }
  report(classify(block), "realloc", block, caller);
  return refused();
}

void* Heap::move_block(void* block, std::size_t old_size, std::size_t size, const void* caller) {
  void* other = freeway_malloc(size);
  if (other == nullptr) return nullptr;
  memcpy(other, block, size < old_size ? size : old_size);
  free(block, caller);
  return other;
}

std::size_t Heap::allocate_batch(std::size_t size, std::size_t count, void** blocks) {
  std::size_t got = 0;
  for (; got < count; ++got)
    if ((blocks[got] = freeway_malloc(size)) == nullptr) break;
  return got;
}

}  // namespace freeway

extern "C" {
FREEWAY_HIDDEN void* freeway_malloc_slow(std::size_t size) {
  return freeway::process_heap.malloc_slow(size, __builtin_return_address(0));
}
FREEWAY_HIDDEN void freeway_free_slow(void* block) { freeway::process_heap.free_slow(block, __builtin_return_address(0)); }
}
