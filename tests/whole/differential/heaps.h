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

// C23; older <stdlib.h> do not declare them.
extern "C" {
void free_sized(void* block, size_t size) noexcept;
void free_aligned_sized(void* block, size_t alignment, size_t size) noexcept;
}

namespace freeway::test {

// What both have in common.
struct HeapAccounts {
  static freeway_stats_t stats() {
    freeway_stats_t stats{};
    freeway_stats(&stats, sizeof stats);
    return stats;
  }
  static freeway_audit_t audit() {
    freeway_audit_t audit{};
    freeway_audit(&audit, sizeof audit);
    return audit;
  }
  static size_t malloc_batch(size_t size, size_t count, void** blocks) {
    return freeway_malloc_batch(size, count, blocks);
  }
  static void free_batch(size_t count, void** blocks) { freeway_free_batch(count, blocks); }
};

struct StandardHeap : HeapAccounts {
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
  static void* reallocarray(void* block, size_t count, size_t size) { return ::reallocarray(block, count, size); }
  static void* valloc(size_t size) { return ::valloc(size); }
  static void* pvalloc(size_t size) { return ::pvalloc(size); }
  static void free_sized(void* block, size_t size) { ::free_sized(block, size); }
  static void free_aligned_sized(void* block, size_t alignment, size_t size) {
    ::free_aligned_sized(block, alignment, size);
  }
  static void trim() { ::malloc_trim(0); }
};

struct FreewayHeap : HeapAccounts {
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
  static void* reallocarray(void* block, size_t count, size_t size) { return freeway_reallocarray(block, count, size); }
  static void* valloc(size_t size) { return freeway_valloc(size); }
  static void* pvalloc(size_t size) { return freeway_pvalloc(size); }
  static void free_sized(void* block, size_t size) { freeway_free_sized(block, size); }
  static void free_aligned_sized(void* block, size_t alignment, size_t size) {
    freeway_free_aligned_sized(block, alignment, size);
  }
  static void trim() { freeway_trim(0); }
};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_DIFFERENTIAL_HEAPS_H
