/* SPDX-License-Identifier: MIT
 *
 * heap.h: heaps that the program makes. Any thread may use them; each may have a limit and statistics of its own,
 * and is destroyed with all its blocks in one call.
 *
 *     freeway_heap_options_t options = {.name = "requests", .limit = 64 << 20};
 *     freeway_heap_t heap = freeway_heap_new(&options, sizeof(options));
 *     void* block = freeway_heap_malloc(heap, 100);
 *     freeway_free(block);          one by one, by whichever thread, as any other block
 *     freeway_heap_destroy(heap);   or all of them
 *
 * All functions here are lock-free. They may be called from any thread, from any signal handler, and in the child of
 * any fork, which has all heaps of its parent. Nothing belongs to a thread, so nothing is left to do when one ends.
 * Blocks are aligned to 16 bytes. free, realloc, malloc_usable_size and the rest of freeway.h's family work on them;
 * realloc leaves them in their heap.
 *
 * ERRORS. A heap, and its blocks, must not be used while or after it is destroyed, as a block must not be used after
 * its free. The handle of a heap that is gone is refused with EINVAL, until four million others have had its place;
 * a pointer that never was a handle may fault. Freeing a block of a heap that is gone is reported as an invalid
 * free, as long as the memory has no new owner. A double free is reported if the block is in no cache, or on top of
 * one, as with malloc; FREEWAY_HARDEN=1 reports all of them. There may be about 64 GiB in heaps, or a million blocks
 * above 32 KiB.
 *
 * MEMORY. Each CPU on which a heap is used holds a frame of 64 KiB that it fills with new blocks, and for each size
 * in use blocks and a superblock (64 KiB to 1 MiB). A call that the limit would refuse takes all of that back
 * (membarrier), except frames that are being filled and have live blocks: a limit should leave room for those. Up to
 * a quarter of a frame of small blocks may be free and stay unused until more of it is free. Once all blocks are
 * freed the whole limit is available again, except to a call beside another refused call, or beside a trim, of the
 * same heap, which holds the heap's memory meanwhile. Without restartable sequences, and with FREEWAY_HARDEN=1, each
 * size of a heap above 256 KiB has a superblock of its own, unless the limit is 4 MiB or less. freeway_stats counts
 * the frames of heaps as large memory. freeway_trim and its like take back what CPUs hold of all heaps; so does a
 * call that the system refuses memory, and FREEWAY_BACKGROUND for a heap that was not used for a second.
 *
 * PROFILES AND GUARDS. Profiles sample blocks of heaps until the block is freed or its heap destroyed. A sampled
 * block above 8 KiB, or aligned to more than 16 bytes, takes a frame; it is not sampled if a limit has no room for
 * 16 more frames. FREEWAY_GUARD guards some blocks, as malloc's. Those count as live in the heap's figures, but
 * neither in `held` nor in its limit, and are inaccessible once they are freed or their heap is destroyed.
 *
 * The paper engines' libraries have no heaps: ENOTSUP.
 */
#ifndef FREEWAY_HEAP_H
#define FREEWAY_HEAP_H

#include <freeway/freeway.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A handle: to be passed on and compared, nothing else. */
typedef struct freeway_heap_s* freeway_heap_t;

typedef struct {
  const char* name; /* for statistics, may be NULL; copied, up to 31 bytes */
  size_t limit;     /* bytes that it may hold, 0: no limit; at least 64 KiB, and rounded down to a multiple of that */
} freeway_heap_options_t;

typedef struct {
  size_t live, live_blocks; /* bytes and blocks that the program holds */
  size_t held;              /* bytes of memory that it has: whole frames of 64 KiB */
  size_t limit, refusals;   /* see freeway_heap_options_t; how often a call failed because of it */
  size_t large_blocks;      /* those above 32 KiB */
  char name[32];
} freeway_heap_stats_t;

/* A new heap; NULL: ENOMEM, or EINVAL for a limit below 64 KiB. `options` may be NULL; `size` is sizeof(*options). */
freeway_heap_t freeway_heap_new(const freeway_heap_options_t* options, size_t size) FREEWAY_NOEXCEPT;
/* Ends the heap: all its blocks are gone, and their memory is ready for others at once, or, while another thread's
 * freeway_trim or its like looks into the heap, when that has looked. How much of it is returned to the kernel when is
 * as with free. Returns 0, or EINVAL: there is no such heap (any more). Of two such calls at once one succeeds. */
int freeway_heap_destroy(freeway_heap_t heap) FREEWAY_NOEXCEPT;

/* As malloc, calloc, aligned_alloc. NULL: ENOMEM (no memory, or the heap's limit), EINVAL (no such heap, or
 * alignment). */
void* freeway_heap_malloc(freeway_heap_t heap, size_t size) FREEWAY_NOEXCEPT;
void* freeway_heap_calloc(freeway_heap_t heap, size_t count, size_t size) FREEWAY_NOEXCEPT;
void* freeway_heap_aligned_alloc(freeway_heap_t heap, size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* As realloc; `block` is NULL or one of this heap, else NULL with EINVAL. */
void* freeway_heap_realloc(freeway_heap_t heap, void* block, size_t size) FREEWAY_NOEXCEPT;

/* Gives back wholly free superblocks and frames, also those that CPUs hold (membarrier), except frames that they fill
 * with new blocks, unless all of those were freed; and pages under free blocks to the kernel. Returns how many bytes
 * less the heap then holds: all of them if nothing is live. Where the kernel refuses membarrier, other CPUs keep what
 * they hold. 0 also where there is no such heap. */
size_t freeway_heap_trim(freeway_heap_t heap) FREEWAY_NOEXCEPT;
/* Fills in the first `size` bytes. Exact while no other thread uses the heap; takes time in proportion to the heap.
 * Returns 0, or EINVAL: no such heap. */
int freeway_heap_stats(freeway_heap_t heap, freeway_heap_stats_t* stats, size_t size) FREEWAY_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
