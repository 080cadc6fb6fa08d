// SPDX-License-Identifier: MIT
// entry.cc: malloc and free of the engines that have no assembly of their own for them.
#include "engine/selected.h"
#include "freeway/freeway.h"

using freeway::process_heap;

extern "C" {
FREEWAY_EXPORT void* freeway_malloc(std::size_t size) noexcept { return process_heap.allocate(size); }
FREEWAY_EXPORT void freeway_free(void* block) noexcept { process_heap.free(block, __builtin_return_address(0)); }
#ifndef FREEWAY_PREFIXED
FREEWAY_EXPORT void* malloc(std::size_t) noexcept __attribute__((alias("freeway_malloc")));
FREEWAY_EXPORT void free(void*) noexcept __attribute__((alias("freeway_free")));
#endif
}
