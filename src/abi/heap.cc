// SPDX-License-Identifier: MIT
// heap.cc: heaps that the program makes (freeway/heap.h).
#include "freeway/heap.h"

#include <errno.h>
#include <string.h>

#include "malloc/heaps.h"

namespace heaps = freeway::heaps;

namespace {

freeway::u64 handle_of(freeway_heap_t heap) { return reinterpret_cast<freeway::u64>(heap); }

}  // namespace

extern "C" {

FREEWAY_EXPORT freeway_heap_t freeway_heap_new(const freeway_heap_options_t* options, std::size_t size) noexcept {
  freeway_heap_options_t mine = {};
  if (options != nullptr) memcpy(&mine, options, size < sizeof(mine) ? size : sizeof(mine));
  return reinterpret_cast<freeway_heap_t>(heaps::make(mine.limit, mine.name));
}

FREEWAY_EXPORT int freeway_heap_destroy(freeway_heap_t heap) noexcept {
  return heaps::destroy(handle_of(heap), __builtin_return_address(0));
}

FREEWAY_EXPORT void* freeway_heap_malloc(freeway_heap_t heap, std::size_t size) noexcept {
  return heaps::allocate(handle_of(heap), size);
}

FREEWAY_EXPORT void* freeway_heap_calloc(freeway_heap_t heap, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, nullptr;
  return heaps::allocate(handle_of(heap), bytes, freeway::kMinBlock, /*zeroed=*/true, __builtin_return_address(0));
}

FREEWAY_EXPORT void* freeway_heap_aligned_alloc(freeway_heap_t heap, std::size_t alignment, std::size_t size) noexcept {
  if (!freeway::is_power_of_two(alignment)) return errno = EINVAL, nullptr;
  return heaps::allocate_aligned(handle_of(heap), size, alignment, __builtin_return_address(0));
}

FREEWAY_EXPORT void* freeway_heap_realloc(freeway_heap_t heap, void* block, std::size_t size) noexcept {
  return heaps::reallocate(handle_of(heap), block, size, __builtin_return_address(0));
}

FREEWAY_EXPORT std::size_t freeway_heap_trim(freeway_heap_t heap) noexcept { return heaps::trim(handle_of(heap)); }

FREEWAY_EXPORT int freeway_heap_stats(freeway_heap_t heap, freeway_heap_stats_t* stats, std::size_t size) noexcept {
  freeway_heap_stats_t mine;
  const int error = heaps::fill_stats(handle_of(heap), mine);
  if (error == 0 && stats != nullptr) memcpy(stats, &mine, size < sizeof(mine) ? size : sizeof(mine));
  return error;
}
}
