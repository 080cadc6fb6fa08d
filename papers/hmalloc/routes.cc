// SPDX-License-Identifier: MIT
//
// routes.cc: the interface that says which kind of memory a block is (HMalloc 2020, section 3).
#include "papers/hmalloc/engine.h"
#include "freeway/hmalloc.h"

using freeway::process_heap;

// What a route does not serve (too large, refused, interrupted inside the heap) plain malloc gets from elsewhere.
extern "C" {
FREEWAY_EXPORT void* freeway_malloc_local(std::size_t size) noexcept {
  if (process_heap.open())
    if (void* block = process_heap.engine().allocate_local(size)) return block;
  return process_heap.allocate(size);
}

FREEWAY_EXPORT void* freeway_malloc_shared(std::size_t size) noexcept {
  if (size <= freeway::hmalloc::kMaxShared && process_heap.open())
    if (void* block = process_heap.engine().allocate_shared(size)) return block;
  return process_heap.allocate(size);
}
}
