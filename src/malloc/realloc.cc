// SPDX-License-Identifier: MIT
// realloc.cc: resizing a block, in place where it can be.
#include <string.h>

#include "harden/guarded.h"
#include "malloc/errors.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"

namespace freeway {

namespace {

void release(void* block, const void* caller) {
  if (!guard::owns(reinterpret_cast<uptr>(block))) return freeway_free(block);
  family::free(block, caller);
}

// Of short blocks: memcpy's call would be longer than its work.
FREEWAY_INLINE void copy(void* to, const void* from, std::size_t bytes) {
  if (bytes > 128 || bytes < 16) return static_cast<void>(memcpy(to, from, bytes));
  const auto move = [&](std::size_t at, std::size_t count) {
    memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, count);
  };
  if (bytes > 64) {
    move(32, 32);
    move(bytes - 64, 32);
  }
  if (bytes > 32) {
    move(16, 16);
    move(bytes - 32, 16);
  }
  move(0, 16);
  move(bytes - 16, 16);
}

// `heap`: the handle of the one that a guarded block is of.
void* move_block(void* block, std::size_t old_bytes, std::size_t bytes, const void* caller, u64 heap = 0) {
  void* other = heap == 0 ? freeway_malloc(bytes) : heaps::allocate(heap, bytes, kMinBlock, /*zeroed=*/false, caller);
  if (other == nullptr) return nullptr;
  using Large = LargeBlocks<Machine>;
  const std::size_t kept = bytes < old_bytes ? bytes : old_bytes;
  const auto from = reinterpret_cast<uptr>(block);
  const auto to = reinterpret_cast<uptr>(other);
  Large& large = process_malloc.substrate().large();
  // A long one's pages could not be moved. A shorter one leaves its memory where it has got new memory (decision 048).
  if (from % kFrameSize == 0 && (kept >= Large::kLiftFrames * kFrameSize || large.is_new(to, kept)))
    large.carry(from, to, kept);
  else memcpy(other, block, kept);
  release(block, caller);
  return other;
}

void* resize(void* block, std::size_t bytes, const void* caller) {
  if (block == nullptr) return freeway_malloc(bytes);
  if (bytes == 0) {
    release(block, caller);
    return nullptr;
  }
  if (bytes > Malloc::kMaxSize || !process_malloc.start()) return refused();
  auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = process_malloc.map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t old_bytes = process_malloc.heap().usable(address, info.value()))
      return keeps(bytes, old_bytes) ? block : move_block(block, old_bytes, bytes, caller);
  } else if (info.kind() != FrameInfo::kNothing && begins_large(address)) {
    if (bytes > kMaxSmall && resize_large(address, info, bytes)) return reinterpret_cast<void*>(address);
    return move_block(block, large_bytes(info), bytes, caller);
  } else if (info.is_of_heap()) {
    return heaps::resize(address, info, bytes, caller);
  } else if (guard::owns(address)) {
    if (const std::size_t old_bytes = guard::usable(address))
      return bytes == old_bytes ? block : move_block(block, old_bytes, bytes, caller, guard::owner(address));
  }
  bad(classify(address, info), "realloc", block, caller);
  return refused();
}

}  // namespace

void* family::reallocate(void* block, std::size_t bytes, const void* caller) {
  if (FREEWAY_LIKELY(bytes - 1 < kMaxSmall))
    if (const std::size_t old_bytes = usable_open(process_malloc.heap(), reinterpret_cast<uptr>(block))) {
      if (keeps(bytes, old_bytes)) return block;
      void* other = freeway_malloc(bytes);
      if (other == nullptr) return nullptr;
      copy(other, block, bytes < old_bytes ? bytes : old_bytes);
      freeway_free(block);
      return guard::made_for(other, caller);
    }
  return guard::made_for(resize(block, bytes, caller), caller);
}

}  // namespace freeway
