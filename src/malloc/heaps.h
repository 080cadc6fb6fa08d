// SPDX-License-Identifier: MIT
// heaps.h: heaps that the program makes (freeway/heap.h): its calls on them, and their blocks in free, realloc and the
// others.
//
// Handles are heap/heaps.h's. Functions that return an int: 0 or an error's number. Blocks: null with errno.
#pragma once

#include "freeway/heap.h"
#include "malloc/malloc.h"
#include "malloc/sizes.h"

namespace freeway {

namespace heaps {

inline heap::Heaps& all() { return process_malloc.heap().own_heaps; }

u64 make(std::size_t limit, const char* name);
int destroy(u64 handle, const void* caller);
void* allocate(u64 handle, std::size_t bytes, std::size_t alignment, bool zeroed, const void* caller);
void* reallocate(u64 handle, void* block, std::size_t bytes, const void* caller);
std::size_t trim(u64 handle);
// The malloc's own, which heaps may be destroyed beside. What CPUs have in hand of all heaps goes back; `now`: of those
// that have not been used for a while, if it is not 0.
void collect_all(u64 now = 0);
// Of all, with pages under free blocks, from a place on (0: the beginning) until that is all or the effort is spent.
// The place to go on with; 0: that was all.
u32 trim_some(u32 from, std::size_t& effort);
// Notes what has changed in all heaps; whether some have not been used for a while.
bool some_idle(u64 now);
int fill_stats(u64 handle, freeway_heap_stats_t& stats);

// Of an address whose page-map entry is_of_heap().
void free(uptr address, FrameInfo info, const void* caller);
// Bytes of the live block that begins at the address; 0: none does.
std::size_t usable(uptr address, FrameInfo info);
// Whether that block, for which usable() says so many bytes, may have been asked for as `told` says.
bool may_be(uptr address, FrameInfo info, std::size_t bytes, const Told& told);
void* resize(uptr address, FrameInfo info, std::size_t bytes, const void* caller);
void fill_block_info(uptr address, FrameInfo info, freeway_block_info_t& found);
void explain(uptr address, FrameInfo info, freeway_explanation_t& found);
void write(int fd);
// As a member of its own behind the size classes, if there are heaps.
void write_json(int fd);

// What allocate() goes on to by a jump: guarded blocks name whoever called that.
void* allocate_slow(u64 handle, std::size_t bytes);
// As malloc. Blocks that a CPU has in hand come at once, within malloc's limits: they are 0 while a profile is made.
FREEWAY_INLINE void* allocate(u64 handle, std::size_t bytes) {
  if (auto* heap = all().find(handle); FREEWAY_LIKELY(heap != nullptr)) {
    if (FREEWAY_LIKELY(bytes < freeway_hot.byte_limit.load_relaxed()))
      return freeway_rseq_malloc_own(heap, bytes, freeway_hot.byte_table[bytes]);
    if (FREEWAY_LIKELY(bytes < freeway_hot.step_limit.load_relaxed()))
      return freeway_rseq_malloc_own(heap, bytes, class_of_request(bytes));
  }
  return allocate_slow(handle, bytes);
}
// As aligned_alloc. What a CPU has in hand is aligned if it is of a superblock, and may be if it is of a strip.
FREEWAY_INLINE void* allocate_aligned(u64 handle, std::size_t bytes, std::size_t alignment, const void* caller) {
  const std::size_t rounded = align_up(bytes == 0 ? 1 : bytes, alignment);
  auto* heap = all().find(handle);
  if (FREEWAY_LIKELY(heap != nullptr && rounded >= bytes && rounded < freeway_hot.step_limit.load_relaxed())) {
    const unsigned c = class_of_request(rounded);
    const u64 block = freeway_rseq_give_own(heap, 0, c);
    if (FREEWAY_LIKELY(block != 0 && block % alignment == 0)) return reinterpret_cast<void*>(block);
    if (block != 0) heap->free(c, block);
  }
  return allocate(handle, bytes, alignment, /*zeroed=*/false, caller);
}

}  // namespace heaps
}  // namespace freeway
