// SPDX-License-Identifier: MIT
// entry.cc: malloc, free and their kin, where the fast path has not done it: the first calls, every size, every kind of
// block.
//
//   small blocks   heap.h, small.cc          large blocks   large.h
//   realloc        realloc.cc                heaps          heaps.h
//   bad pointers   errors.h                  memory refused drain.h: scavenge
#include <string.h>

#include "harden/guarded.h"
#include "malloc/drain.h"
#include "malloc/errors.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"
#include "malloc/profile.h"
#include "malloc/spare_path.h"

namespace freeway {

namespace {

// The first calls, large blocks, and small ones that the heap did not have.
FREEWAY_NOINLINE void* allocate_slow(std::size_t bytes) {
  if (!process_malloc.start()) return refused();
  if (bytes <= kMaxSmall) {
    if (void* block = process_malloc.heap().allocate(bytes)) return block;
    scavenge();
    void* block = process_malloc.heap().allocate(bytes);
    return block != nullptr ? block : refused();
  }
  if (bytes > Malloc::kMaxSize) return refused();
  void* block = allocate_large(bytes, kMinBlock, nullptr);
  return block != nullptr ? block : refused();
}

void* allocate(std::size_t bytes) {
  if (FREEWAY_LIKELY(process_malloc.ready() && bytes <= kMaxSmall))
    if (void* block = process_malloc.heap().allocate(bytes)) return block;
  return allocate_slow(bytes);
}

void* aligned(std::size_t bytes, std::size_t alignment) {
  if (alignment <= kMinBlock) return freeway_malloc(bytes);
  if (bytes > Malloc::kMaxSize || !process_malloc.start()) return refused();
  if (bytes <= kMaxSmall)
    if (void* block = allocate_small_aligned(bytes, alignment)) return block;
  void* block = allocate_large(bytes, alignment, nullptr);
  return block != nullptr ? block : refused();
}

// Short blocks: memset's call would be longer than its work.
FREEWAY_INLINE void* zero(void* block, std::size_t bytes) {
  auto* begin = static_cast<char*>(block);
  if (bytes > 128 || bytes < 16) return memset(block, 0, bytes);
  char* const end = begin + bytes;
  if (bytes > 64) {
    memset(begin + 32, 0, 32);
    memset(end - 64, 0, 32);
  }
  if (bytes > 32) {
    memset(begin + 16, 0, 16);
    memset(end - 32, 0, 16);
  }
  memset(begin, 0, 16);
  memset(end - 16, 0, 16);
  return block;
}

void* zeroed(std::size_t bytes) {
  if (bytes <= kMaxSmall) {
    void* block = freeway_malloc(bytes);
    return FREEWAY_LIKELY(block != nullptr) ? zero(block, bytes) : nullptr;
  }
  if (bytes > Malloc::kMaxSize || !process_malloc.start()) return refused();
  bool zero = false;
  void* block = allocate_large(bytes, kMinBlock, &zero);
  if (block == nullptr) return refused();
  return zero ? block : memset(block, 0, bytes);
}

}  // namespace

// --- From the assembly, by way of spare_path.cc ----------------------------------------------------------------------

void* allocate_otherwise(std::size_t size, const void* caller) {
  void* guarded = guard::is_on() ? guard::sample(size, caller) : nullptr;
  return guarded != nullptr ? guarded : allocate(size);
}

void free_otherwise(void* block, const void* caller) {
  if (block != nullptr && process_malloc.start()) family::free(block, caller);
}

// --- From src/abi. Guarded blocks name our caller, not us. -----------------------------------------------------------

namespace family {

bool start() { return process_malloc.start(); }

void* allocate_aligned(std::size_t bytes, std::size_t alignment, const void* caller) {
  // malloc's blocks of such a size are so aligned (class_of_aligned). But a profile counts what the program asked for,
  // and a guarded block names the caller.
  if (FREEWAY_LIKELY(alignment <= kMaxSmall && bytes < freeway_hot.step_limit.load_relaxed() && !guard::is_on()))
    return freeway_malloc(align_up(bytes == 0 ? 1 : bytes, alignment));
  return guard::made_for(aligned(bytes, alignment), caller);
}

// The size of its class, not the block's: the first blocks of a class are another's (cache/loans.h).
freeway_sized_block_t allocate_at_least(std::size_t bytes, std::size_t alignment, const void* caller) {
  void* block = alignment <= kMinBlock ? guard::made_for(freeway_malloc(bytes), caller)
                                       : allocate_aligned(bytes, alignment, caller);
  if (FREEWAY_UNLIKELY(block == nullptr)) return {nullptr, 0};
  const unsigned c =
      bytes > kMaxSmall || alignment > kMaxSmall ? 0 : class_of_request(align_up(bytes == 0 ? 1 : bytes, alignment));
  if (FREEWAY_LIKELY(c != 0 && !guard::owns(reinterpret_cast<uptr>(block)))) return {block, kSizeClasses[c].size};
  return {block, usable_size(block, caller)};
}

// Who asks compares it with what malloc gives: so from now on no block is longer.
std::size_t bytes_for(std::size_t bytes, std::size_t alignment) {
  if (bytes > PTRDIFF_MAX - kFrameSize || alignment > PTRDIFF_MAX) return 0;
  const unsigned c = class_of_aligned(bytes, alignment);
  if (c == 0) return align_up(bytes == 0 ? 1 : bytes, kFrameSize);
  process_malloc.heap().loans.end_all();
  return kSizeClasses[c].size;
}

void* allocate_zeroed(std::size_t bytes, const void* caller) { return guard::made_for(zeroed(bytes), caller); }

std::size_t allocate_batch(std::size_t bytes, std::size_t count, void** blocks) {
  std::size_t got = 0;
  for (; got < count; ++got)
    if ((blocks[got] = freeway_malloc(bytes)) == nullptr) break;
  return got;
}

void free(void* block, const void* caller) {
  if (block == nullptr) return;
  const auto address = reinterpret_cast<uptr>(block);
  const FrameInfo info = process_malloc.map().get(address);
  if (FREEWAY_LIKELY(info.kind() == FrameInfo::kSmall)) {
    const Verdict verdict = process_malloc.heap().free(address, info.value());
    if (FREEWAY_UNLIKELY(verdict == Verdict::kInterior)) bad(classify(address, info), "free", block, caller);
    else if (FREEWAY_UNLIKELY(verdict != Verdict::kOk)) bad(verdict, "free", block, caller);
  } else if (info.kind() == FrameInfo::kNothing) {
    if (info.is_of_heap()) return heaps::free(address, info, caller);
    if (guard::owns(address)) return free_guarded(address, caller);
    bad(classify(address, info), "free", block, caller);
  } else {
    free_large(address, info, caller);
  }
}

void bad_batch(std::size_t count, const void* blocks, const void* caller) {
  report_batch(count, blocks, caller, process_malloc.options().report_only);
}

std::size_t usable_size(const void* block, const void* caller) {
  const auto address = reinterpret_cast<uptr>(block);
  if (const std::size_t bytes = usable_open(process_malloc.heap(), address)) return bytes;
  if (block == nullptr) return 0;
  const FrameInfo info = process_malloc.map().get(address);
  if (info.kind() == FrameInfo::kSmall) {
    if (const std::size_t bytes = process_malloc.heap().usable(address, info.value())) return bytes;
  } else if (info.kind() != FrameInfo::kNothing && begins_large(address)) {
    return large_bytes(info);
  } else if (info.is_of_heap()) {
    if (const std::size_t bytes = heaps::usable(address, info)) return bytes;
  } else if (guard::owns(address)) {
    if (const std::size_t bytes = guard::usable(address)) return bytes;
  }
  bad(classify(address, info), "malloc_usable_size", block, caller);
  return 0;
}

}  // namespace family
}  // namespace freeway
