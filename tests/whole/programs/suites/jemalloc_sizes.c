/* SPDX-License-Identifier: MIT
 *
 * jemalloc_sizes.c: jemalloc's tests ask mallctl for its size classes, which another malloc need not have. Linked with
 * --wrap, this answers instead: a few sizes of blocks that nallocx names, and the largest size that there may ever be.
 * All other names go on to the library. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define OWN_NAME ((size_t)-1) /* begins the numbers of the names below, and of no others */
#define SMALLEST_LARGE (14 * 1024 + 1)
#define LARGEST ((size_t)7 << 60)

size_t nallocx(size_t size, int flags);
int __real_mallctl(const char* name, void* old, size_t* old_size, void* new, size_t new_size);
int __real_mallctlnametomib(const char* name, size_t* numbers, size_t* count);
int __real_mallctlbymib(const size_t* numbers, size_t count, void* old, size_t* old_size, void* new, size_t new_size);

enum { SMALL = 3, LARGE = 5 };

/* The i-th size from `least` on. */
static size_t size_after(size_t least, size_t i) {
  size_t size = nallocx(least, 0);
  while (i-- != 0) size = nallocx(size + 1, 0);
  return size;
}

static size_t small_size(size_t i) { return i == SMALL - 1 ? nallocx(SMALLEST_LARGE - 1, 0) : size_after(1, i); }

static size_t large_size(size_t i) { return i == LARGE - 1 ? LARGEST : size_after(SMALLEST_LARGE, i); }

static bool is_own(const char* name) {
  return strcmp(name, "arenas.bin.0.size") == 0 || strcmp(name, "arenas.lextent.0.size") == 0;
}

int __wrap_mallctl(const char* name, void* old, size_t* old_size, void* new, size_t new_size) {
  if (strcmp(name, "arenas.nbins") == 0) return *(unsigned*)old = SMALL, 0;
  if (strcmp(name, "arenas.nlextents") == 0) return *(unsigned*)old = LARGE, 0;
  if (!is_own(name)) return __real_mallctl(name, old, old_size, new, new_size);
  return *(size_t*)old = strcmp(name, "arenas.bin.0.size") == 0 ? small_size(0) : large_size(0), 0;
}

int __wrap_mallctlnametomib(const char* name, size_t* numbers, size_t* count) {
  if (!is_own(name)) return __real_mallctlnametomib(name, numbers, count);
  if (*count < 4) return EINVAL;
  *count = 4;
  numbers[0] = OWN_NAME;
  numbers[1] = strcmp(name, "arenas.bin.0.size") == 0;
  return 0;
}

int __wrap_mallctlbymib(const size_t* numbers, size_t count, void* old, size_t* old_size, void* new, size_t new_size) {
  if (numbers[0] != OWN_NAME) return __real_mallctlbymib(numbers, count, old, old_size, new, new_size);
  return *(size_t*)old = numbers[1] ? small_size(numbers[2]) : large_size(numbers[2]), 0;
}
