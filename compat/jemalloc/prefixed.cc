// SPDX-License-Identifier: MIT
//
// prefixed.cc: the same functions as je_malloc and so on, the names that jemalloc has where it was built with that
// prefix. Weak: a program's own come first.
#define JEMALLOC_NO_RENAME
#include "exported.h"
#include "freeway/freeway.h"

#pragma GCC diagnostic ignored "-Wmissing-declarations"
#define WEAK __attribute__((weak, visibility("default")))

using std::size_t;

extern "C" {

WEAK void* je_malloc(size_t size) noexcept { return freeway_malloc(size); }
WEAK void* je_calloc(size_t count, size_t size) noexcept { return freeway_calloc(count, size); }
WEAK void* je_realloc(void* block, size_t size) noexcept { return freeway_realloc(block, size); }
WEAK void je_free(void* block) noexcept { freeway_free(block); }
WEAK int je_posix_memalign(void** result, size_t alignment, size_t size) noexcept {
  return freeway_posix_memalign(result, alignment, size);
}
WEAK void* je_aligned_alloc(size_t alignment, size_t size) noexcept { return freeway_aligned_alloc(alignment, size); }
WEAK void* je_memalign(size_t alignment, size_t size) noexcept { return freeway_memalign(alignment, size); }
WEAK void* je_valloc(size_t size) noexcept { return freeway_valloc(size); }
WEAK size_t je_malloc_usable_size(void* block) noexcept { return freeway_malloc_usable_size(block); }

WEAK void* je_mallocx(size_t size, int flags) noexcept { return mallocx(size, flags); }
WEAK void* je_rallocx(void* block, size_t size, int flags) noexcept { return rallocx(block, size, flags); }
WEAK size_t je_xallocx(void* block, size_t size, size_t extra, int flags) noexcept {
  return xallocx(block, size, extra, flags);
}
WEAK size_t je_sallocx(const void* block, int flags) noexcept { return sallocx(block, flags); }
WEAK void je_dallocx(void* block, int flags) noexcept { dallocx(block, flags); }
WEAK void je_sdallocx(void* block, size_t size, int flags) noexcept { sdallocx(block, size, flags); }
WEAK size_t je_nallocx(size_t size, int flags) noexcept { return nallocx(size, flags); }

WEAK int je_mallctl(const char* name, void* old_value, size_t* old_size, void* new_value, size_t new_size) noexcept {
  return mallctl(name, old_value, old_size, new_value, new_size);
}
WEAK int je_mallctlnametomib(const char* name, size_t* mib, size_t* length) noexcept {
  return mallctlnametomib(name, mib, length);
}
WEAK int je_mallctlbymib(const size_t* mib, size_t length, void* old_value, size_t* old_size, void* new_value,
                         size_t new_size) noexcept {
  return mallctlbymib(mib, length, old_value, old_size, new_value, new_size);
}
WEAK void je_malloc_stats_print(void (*write)(void*, const char*), void* opaque, const char* options) noexcept {
  malloc_stats_print(write, opaque, options);
}

}  // extern "C"
