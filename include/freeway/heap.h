/* SPDX-License-Identifier: MIT
 *
 * heap.h: heaps that the program makes: made, used from any thread, limited, counted, and destroyed with all their
 * blocks at once.
 *
 *     freeway_heap_options_t options = {.name = "requests", .limit = 64 << 20};
 *     freeway_heap_t heap = freeway_heap_new(&options, sizeof(options));
 *     void* block = freeway_heap_malloc(heap, 100);
 *     freeway_free(block);          one by one, by whichever thread, as any other block
 *     freeway_heap_destroy(heap);   or all of them
 *
 * All functions here are lock-free and may be called from any thread, from any signal handler and in the child of any
 * fork, which has all heaps of its parent. Nothing belongs to a thread, and nothing is left to do when one ends. Blocks
 * are aligned to 16 bytes. free, realloc, malloc_usable_size and the rest of freeway.h's family work on them; realloc
 * leaves them in their heap.
 *
 * Nobody may use a heap, or a block of it, while or after it is destroyed, as nobody may use a block after its free. A
 * handle of a heap that is gone is refused with EINVAL, until four million others have had its place; what never was a
 * handle may fault. A free of one of its blocks is named as an invalid free, as long as the memory is not another's. A
 * double free is named if the block is in no cache, or on top of one, as with malloc; FREEWAY_HARDEN=1 names them all.
 * There may be about 64 GiB in heaps, or a million blocks above 32 KiB.
 *
 * Each CPU on which a heap is used has a frame of 64 KiB that it fills with new blocks, and blocks and a superblock (64
 * KiB to 1 MiB) of each size in use. A call that the limit would refuse takes all of that back (membarrier), but for
 * frames that are being filled and have live blocks: a limit should leave room for those. Of a frame of small blocks up
 * to a quarter may be free and not be used before more of it is. Once all blocks are freed the whole limit is there
 * again, but for a call beside another refused one, or a trim, of the heap, which has its memory in hand. Without
 * restartable sequences, and with FREEWAY_HARDEN=1, each size of a heap above 256 KiB has a superblock of its own,
 * unless its limit is 4 MiB or less. In freeway_stats the frames of heaps are large memory. freeway_trim and its like
 * take back what CPUs have in hand of all heaps, as does a call that the system refuses memory; FREEWAY_BACKGROUND
 * where a heap has not been used for a second. Profiles sample blocks of heaps, until they are freed or their heap is
 * destroyed; a sampled block above 8 KiB, or aligned to more than 16 bytes, is a frame, and where a limit has no room
 * for 16 frames more, no sample. FREEWAY_GUARD guards some of them, as malloc's: those are live in a heap's figures,
 * but in neither `held` nor its limit, and inaccessible once they are freed or their heap is destroyed.
 *
 * The paper engines' libraries have no heaps: ENOTSUP.
 */
#ifndef FREEWAY_HEAP_H
#define FREEWAY_HEAP_H

#include <freeway/freeway.h>

#if defined(__cplusplus)
extern "C" {
#endif

/* A heap's name, as it were: to be passed on and compared, nothing else. */
typedef struct freeway_heap_s* freeway_heap_t;

typedef struct {
  const char* name; /* for statistics, may be NULL; copied, up to 31 bytes */
  size_t limit;     /* bytes that it may hold, 0: no limit; at least 64 KiB, and rounded down to a multiple of that */
} freeway_heap_options_t;

typedef struct {
  size_t live, live_blocks; /* bytes and blocks in the program's hands */
  size_t held;              /* bytes of memory that it has: whole frames of 64 KiB */
  size_t limit, refusals;   /* see freeway_heap_options_t; how often a call failed because of it */
  size_t large_blocks;      /* those above 32 KiB */
  char name[32];
} freeway_heap_stats_t;

/* A new heap; NULL: ENOMEM, or EINVAL for a limit below 64 KiB. `options` may be NULL; `size` is sizeof(*options). */
freeway_heap_t freeway_heap_new(const freeway_heap_options_t* options, size_t size) FREEWAY_NOEXCEPT;
/* Ends the heap: all its blocks are gone, and their memory is anybody's at once; how much of it the kernel gets back
 * when is as with free. While another thread's freeway_trim, or its like, looks into the heap: when that has looked. 0,
 * or EINVAL: there is no such heap (any more). Of two at once one succeeds. */
int freeway_heap_destroy(freeway_heap_t heap) FREEWAY_NOEXCEPT;

/* As malloc, calloc, aligned_alloc. NULL: ENOMEM (no memory, or the heap's limit), EINVAL (no such heap, or
 * alignment). */
void* freeway_heap_malloc(freeway_heap_t heap, size_t size) FREEWAY_NOEXCEPT;
void* freeway_heap_calloc(freeway_heap_t heap, size_t count, size_t size) FREEWAY_NOEXCEPT;
void* freeway_heap_aligned_alloc(freeway_heap_t heap, size_t alignment, size_t size) FREEWAY_NOEXCEPT;
/* As realloc; `block` is NULL or one of this heap, else NULL with EINVAL. */
void* freeway_heap_realloc(freeway_heap_t heap, void* block, size_t size) FREEWAY_NOEXCEPT;

/* Gives back what is wholly free, also of what CPUs have in hand (membarrier), but for the frames that they fill with
 * new blocks, unless all of them have come back; and to the kernel pages under free blocks. Bytes that the heap then
 * holds less. With nothing live, that is all that the heap holds. Where the kernel refuses membarrier, what other CPUs
 * have in hand stays. 0 also where there is no such heap. */
size_t freeway_heap_trim(freeway_heap_t heap) FREEWAY_NOEXCEPT;
/* Fills in the first `size` bytes. Exact while nobody else uses the heap; takes time in proportion to what the heap
 * has. 0, or EINVAL: no such heap. */
int freeway_heap_stats(freeway_heap_t heap, freeway_heap_stats_t* stats, size_t size) FREEWAY_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
