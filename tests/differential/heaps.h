// SPDX-License-Identifier: MIT
//
// heaps.h: the allocators that a trace can be run on: the standard names, and their freeway_ twins (the only ones in
// sanitizer builds, and later the way to the other engines).
#ifndef FREEWAY_TESTS_DIFFERENTIAL_HEAPS_H
#define FREEWAY_TESTS_DIFFERENTIAL_HEAPS_H

#include <freeway/freeway.h>
#include <malloc.h>

#include <cstddef>
#include <cstdlib>

namespace freeway::test {

struct StandardHeap {
  static void* malloc(size_t size) { return ::malloc(size); }
  static void* calloc(size_t count, size_t size) { return ::calloc(count, size); }
  static void* realloc(void* block, size_t size) { return ::realloc(block, size); }
  static void* aligned_alloc(size_t alignment, size_t size) { return ::aligned_alloc(alignment, size); }
  static void* memalign(size_t alignment, size_t size) { return ::memalign(alignment, size); }
  static int posix_memalign(void** result, size_t alignment, size_t size) {
    return ::posix_memalign(result, alignment, size);
  }
  static size_t usable_size(void* block) { return ::malloc_usable_size(block); }
  static void free(void* block) { ::free(block); }
  static void trim() { ::malloc_trim(0); }
};

struct FreewayHeap {
  static void* malloc(size_t size) { return freeway_malloc(size); }
  static void* calloc(size_t count, size_t size) { return freeway_calloc(count, size); }
  static void* realloc(void* block, size_t size) { return freeway_realloc(block, size); }
  static void* aligned_alloc(size_t alignment, size_t size) { return freeway_aligned_alloc(alignment, size); }
  static void* memalign(size_t alignment, size_t size) { return freeway_memalign(alignment, size); }
  static int posix_memalign(void** result, size_t alignment, size_t size) {
    return freeway_posix_memalign(result, alignment, size);
  }
  static size_t usable_size(void* block) { return freeway_malloc_usable_size(block); }
  static void free(void* block) { freeway_free(block); }
  static void trim() { freeway_trim(0); }
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_HEAPS_H
