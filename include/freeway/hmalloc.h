/* SPDX-License-Identifier: MIT
 *
 * hmalloc.h: what libfreeway-hmalloc.so has beside malloc: the two kinds of memory of HMalloc (2020).
 *
 * *Local* memory is for one thread: only the thread that allocated a block may free it (or whoever inherited its heap
 * after it ended). Blocks have no header and are cut off one behind the other; they are used again when all blocks of
 * the same 64 KiB or 4 MiB are free.
 * *Shared* memory may be freed by any thread. Plain malloc's blocks are shared.
 * Blocks of both kinds are freed by free, and are aligned to 16 bytes.
 *
 * No other library of Freeway has these functions.
 */
#ifndef FREEWAY_HMALLOC_H
#define FREEWAY_HMALLOC_H

#include <stddef.h>

#if defined(__cplusplus)
#define FREEWAY_HMALLOC_NOEXCEPT noexcept
extern "C" {
#else
#define FREEWAY_HMALLOC_NOEXCEPT
#endif

/* A block of `size` bytes (0: a pointer that may only be freed) for the calling thread, or NULL with errno ENOMEM. From
 * half of the heap's current superblock on (32 KiB at first, then 2 MiB) it is a mapping of its own, which any thread
 * may free. free() by another thread is reported on fd 2 as "another thread's local block" and ends the process, or,
 * with FREEWAY_ON_ERROR=report, does nothing. In a signal handler that interrupted the allocator the block is a
 * mapping, too. */
void* freeway_malloc_local(size_t size) FREEWAY_HMALLOC_NOEXCEPT;

/* A block of `size` bytes that any thread may free, or NULL with errno ENOMEM; from 32 KiB on a mapping of its own. Two
 * such blocks never share a cache line of 64 bytes. */
void* freeway_malloc_shared(size_t size) FREEWAY_HMALLOC_NOEXCEPT;

#if defined(__cplusplus)
}
#endif
#endif
