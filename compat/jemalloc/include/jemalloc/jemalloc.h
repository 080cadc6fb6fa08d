/* SPDX-License-Identifier: MIT
 *
 * jemalloc/jemalloc.h: what libfreeway-jemalloc offers of jemalloc 5's interface, over Freeway.
 *
 * For programs that are compiled against it instead of jemalloc's own header: the names, arguments and flags are the
 * same. Everything that is declared here is defined in that library (malloc, free and their like: in libfreeway.so,
 * which it brings along; see <stdlib.h> and <malloc.h>). freeway-jemalloc(3) has each function and all names of
 * mallctl.
 *
 * Unless a comment says otherwise a function here is lock-free, and may be called from any thread and any signal
 * handler.
 */
#ifndef FREEWAY_JEMALLOC_JEMALLOC_H
#define FREEWAY_JEMALLOC_JEMALLOC_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* The version whose interface this is. mallctl("version") says which Freeway is behind it, too. */
#define JEMALLOC_VERSION "5.3.0-0-g0"
#define JEMALLOC_VERSION_MAJOR 5
#define JEMALLOC_VERSION_MINOR 3
#define JEMALLOC_VERSION_BUGFIX 0
#define JEMALLOC_VERSION_NREV 0
#define JEMALLOC_VERSION_GID "0"
/* je_get_defrag_hint is there: a program like redis can defragment itself. */
#define JEMALLOC_FRAG_HINT

/* Flags of the functions that end in x. An alignment is a power of two. Caches and arenas are accepted and mean
 * nothing: there is one heap. */
#define MALLOCX_LG_ALIGN(la) ((int)(la))
#define MALLOCX_ALIGN(a) ((int)__builtin_ctzll((unsigned long long)(a)))
#define MALLOCX_ZERO ((int)0x40)
#define MALLOCX_TCACHE(tc) ((int)(((tc) + 2) << 8))
#define MALLOCX_TCACHE_NONE MALLOCX_TCACHE(-1)
#define MALLOCX_ARENA(a) ((((int)(a)) + 1) << 20)

/* Numbers of arenas for mallctl: all of them, and those that were destroyed. */
#define MALLCTL_ARENAS_ALL 4096
#define MALLCTL_ARENAS_DESTROYED 4097

#if defined(__cplusplus)
#define FREEWAY_JEMALLOC_NOEXCEPT noexcept
extern "C" {
#else
#define FREEWAY_JEMALLOC_NOEXCEPT
#endif

/* A block of at least `size` bytes as `flags` say; NULL where there is no memory. `size` 0 counts as 1. */
void* mallocx(size_t size, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
/* The block with `size` bytes, moved where it must; NULL where there is no memory: then `block` is untouched. With
 * MALLOCX_ZERO what is behind the old block's real size is zero. */
void* rallocx(void* block, size_t size, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
/* Resizes without moving. Freeway never does: returns the block's real size, and nothing changes. */
size_t xallocx(void* block, size_t size, size_t extra, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
/* The block's real size. */
size_t sallocx(const void* block, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
/* Frees. `size`, where given, is what was asked for, or the real size. */
void dallocx(void* block, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
void sdallocx(void* block, size_t size, int flags) FREEWAY_JEMALLOC_NOEXCEPT;
/* The real size that mallocx(size, flags) would give: all of it may be used. 0 where no block can be so large. */
size_t nallocx(size_t size, int flags) FREEWAY_JEMALLOC_NOEXCEPT;

/* Reads the value `name` to *old_value, whose size is *old_size, and writes *new_value, of new_size bytes, to it; both
 * may be left out (NULL, 0). 0, or ENOENT (no such name), EINVAL (wrong sizes; *old_size is then how much was read),
 * EPERM (cannot be read, or cannot be set to that), EAGAIN (no memory), EFAULT (what it asks for failed). Signal-safe.
 * What acts makes the system calls of the function of freeway.h that stands behind it. */
int mallctl(const char* name, void* old_value, size_t* old_size, void* new_value,
            size_t new_size) FREEWAY_JEMALLOC_NOEXCEPT;
/* The name as numbers, at most *length of them, for mallctlbymib; *length becomes their count. Numbers within a name
 * are themselves, and may be changed. */
int mallctlnametomib(const char* name, size_t* mib, size_t* length) FREEWAY_JEMALLOC_NOEXCEPT;
int mallctlbymib(const size_t* mib, size_t length, void* old_value, size_t* old_size, void* new_value,
                 size_t new_size) FREEWAY_JEMALLOC_NOEXCEPT;

/* Gives the statistics as text to `write` piece by piece, with `opaque`; NULL: to malloc_message. `options`: "J" for
 * JSON, "g" without configuration and options; others are accepted. As signal-safe as `write`. */
void malloc_stats_print(void (*write)(void* opaque, const char* text), void* opaque,
                        const char* options) FREEWAY_JEMALLOC_NOEXCEPT;
/* A program may set it; NULL, as it is at first, stands for fd 2. */
extern void (*malloc_message)(void* opaque, const char* text);

/* 1 if the program should move the block, so that memory can go back: freeway_should_move. Redis asks for it by this
 * name. */
int je_get_defrag_hint(void* block) FREEWAY_JEMALLOC_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

/* Sources that say je_malloc and so on, as jemalloc's own header lets them. */
#ifndef JEMALLOC_NO_RENAME
#define je_malloc malloc
#define je_calloc calloc
#define je_realloc realloc
#define je_free free
#define je_posix_memalign posix_memalign
#define je_aligned_alloc aligned_alloc
#define je_memalign memalign
#define je_valloc valloc
#define je_malloc_usable_size malloc_usable_size
#define je_mallocx mallocx
#define je_rallocx rallocx
#define je_xallocx xallocx
#define je_sallocx sallocx
#define je_dallocx dallocx
#define je_sdallocx sdallocx
#define je_nallocx nallocx
#define je_mallctl mallctl
#define je_mallctlnametomib mallctlnametomib
#define je_mallctlbymib mallctlbymib
#define je_malloc_stats_print malloc_stats_print
#define je_malloc_message malloc_message
#endif

#endif
