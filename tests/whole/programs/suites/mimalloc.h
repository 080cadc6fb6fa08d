/* SPDX-License-Identifier: MIT
 *
 * mimalloc.h: mimalloc's names for what every malloc has, and its sizes: its tests are compiled with this instead of
 * mimalloc's own headers. */
#pragma once
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MI_DEBUG 0                   /* no blocks filled with patterns */
#define MI_ALIGNMENT_MAX (1UL << 24) /* as mimalloc's own: half a segment */
#define MI_MAX_ALIGN_SIZE 16
#define MI_SMALL_SIZE_MAX (128 * sizeof(void*))

#define mi_option_disable(option) ((void)0)
#define mi_malloc malloc
#define mi_malloc_small malloc
#define mi_calloc calloc
#define mi_zalloc(size) calloc(1, size)
#define mi_zalloc_small(size) calloc(1, size)
#define mi_realloc realloc
#define mi_reallocarray reallocarray
#define mi_free free
#define mi_usable_size malloc_usable_size
#define mi_memalign(alignment, size) memalign(alignment, size)
#define mi_posix_memalign posix_memalign
#define mi_malloc_aligned(size, alignment) memalign(alignment, size)
#define mi_realpath realpath

static inline void* mi_zalloc_aligned(size_t size, size_t alignment) {
  void* block = memalign(alignment, size);
  return block == NULL ? NULL : memset(block, 0, size);
}
