// SPDX-License-Identifier: MIT
// heaps.h: heaps that the program makes (freeway/heap.h): its calls on them, and their blocks in free, realloc and the others.
//
// Handles are heap/heaps.h's. Functions that return an int: 0 or an error's number. Blocks: null with errno.
#pragma once

#include "freeway/heap.h"
#include "malloc/malloc.h"

namespace freeway {

// Whether realloc keeps a block of `old_bytes`: it is large enough, and not more than half of it would be wasted.
constexpr bool keeps(std::size_t bytes, std::size_t old_bytes) {
  return bytes <= old_bytes && (bytes > old_bytes / 2 || old_bytes <= kMinBlock);
}

namespace heaps {

inline heap::Heaps& all() { return process_malloc.heap().own_heaps; }

u64 make(std::size_t limit, const char* name);
int destroy(u64 handle);
void* allocate(u64 handle, std::size_t bytes, std::size_t alignment, bool zeroed);
void* reallocate(u64 handle, void* block, std::size_t bytes, const void* caller);
std::size_t trim(u64 handle);
int fill_stats(u64 handle, freeway_heap_stats_t& stats);

// Of an address whose page-map entry is_of_heap().
void free(uptr address, FrameInfo info, const void* caller);
// Bytes of the live block that begins at the address; 0: none does.
std::size_t usable(uptr address, FrameInfo info);
void* resize(uptr address, FrameInfo info, std::size_t bytes, const void* caller);
void fill_block_info(uptr address, FrameInfo info, freeway_block_info_t& found);
void explain(uptr address, FrameInfo info, freeway_explanation_t& found);
void write(int fd);
// As a member of its own behind the size classes, if there are heaps.
void write_json(int fd);

// As malloc. Blocks that a CPU has in hand come at once.
FREEWAY_INLINE void* allocate(u64 handle, std::size_t bytes) {
  auto* heap = all().find(handle);
  if (FREEWAY_LIKELY(heap != nullptr && bytes <= kByteTableMax))
    return freeway_rseq_malloc_own(heap, bytes, freeway_hot.byte_table[bytes]);
  if (const unsigned c = heap == nullptr ? 0 : class_of_request(bytes)) return freeway_rseq_malloc_own(heap, bytes, c);
  return allocate(handle, bytes, kMinBlock, /*zeroed=*/false);
}

}  // namespace heaps
}  // namespace freeway
