/* SPDX-License-Identifier: MIT
 *
 * buddy.h: the non-blocking buddy system on its own, over memory of yours. Exported by libfreeway-nbbs.so.
 *
 * A buddy manages `min_block << (levels - 1)` bytes and hands out blocks that are powers of two, each at a multiple of
 * its size from the start. Its state (the metadata) lies in memory that you give, and holds no address: several
 * processes that map metadata and memory MAP_SHARED, at whatever addresses, but at the same distance from each other,
 * use it at once. A process that is killed at any instruction leaves it usable for the others (see
 * freeway_buddy_repair).
 *
 * Every function is lock-free and may be called from any thread and any signal handler, except where it says otherwise
 * and except for buddies made with FREEWAY_BUDDY_SPIN. Failures return NULL, 0 or -1 and set errno; success keeps it.
 * A handle that is NULL or at which no buddy was made, and NULL for anything that a function reads or fills in, is
 * EINVAL.
 */
#ifndef FREEWAY_BUDDY_H
#define FREEWAY_BUDDY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct freeway_buddy freeway_buddy_t;

enum {
  FREEWAY_BUDDY_UP = 1,        /* a climb ends where all above is marked: pays where the tree is well filled */
  FREEWAY_BUDDY_PUBLISHED = 2, /* the paper's algorithms as printed: they can hand out a block twice; for measuring */
  FREEWAY_BUDDY_SPIN = 4,      /* a spin lock around each operation: waits for others, even for killed ones */
  FREEWAY_BUDDY_ZEROED = 8     /* the metadata's memory is known to be zero */
};

typedef struct freeway_buddy_options {
  unsigned levels;          /* of the tree, 1 to 40 */
  unsigned levels_per_word; /* 1, 3 or 4 */
  size_t min_block;         /* bytes, a power of two */
  size_t max_block;         /* bytes, a power of two from min_block to what is managed; 0: what is managed */
  unsigned flags;
} freeway_buddy_options_t;

/* Bytes of metadata for such a buddy; 0 with EINVAL for options that make no sense, among them a bad level count. */
size_t freeway_buddy_metadata_size(const freeway_buddy_options_t* options);

/* Makes a buddy in `metadata` (64-byte aligned, of at least freeway_buddy_metadata_size bytes; it is cleared first
 * unless FREEWAY_BUDDY_ZEROED says that it is zero) over `memory`, which is not touched, and whose alignment is the
 * largest that blocks can have. NULL with EINVAL: bad options, metadata misaligned or too small, or memory NULL. Once,
 * by one thread of one process, before all others use it. There is nothing to destroy. */
freeway_buddy_t* freeway_buddy_create(void* metadata, size_t metadata_bytes, void* memory,
                                      const freeway_buddy_options_t* options);
/* The buddy that another process made in this (mapped) metadata; NULL with EINVAL if there is none, or if its header is
 * not as it was made. All of the metadata must be mapped; the state of the tree behind the header is not checked. */
freeway_buddy_t* freeway_buddy_attach(void* metadata);

/* A block of at least `bytes`; NULL with ENOMEM if no such block is free, or `bytes` is more than max_block. The search
 * begins at a node that depends on the calling thread (freeway_buddy_scatter). */
void* freeway_buddy_alloc(freeway_buddy_t* buddy, size_t bytes);
/* The block of at least `bytes` that begins at `address`; NULL with EBUSY if it is not free, ENOMEM if `bytes` is more
 * than max_block, EINVAL if no block of that size begins there. */
void* freeway_buddy_alloc_at(freeway_buddy_t* buddy, void* address, size_t bytes);
/* The block of at least `bytes` that begins where `block` ends: contiguous memory, but a block of its own. Errors as of
 * freeway_buddy_alloc_at, and EINVAL if `block` is none. */
void* freeway_buddy_extend(freeway_buddy_t* buddy, void* block, size_t bytes);
/* Gives the block back: 0, or -1 with EINVAL if no block that is in use begins there (nothing was done). NULL: 0. */
int freeway_buddy_free(freeway_buddy_t* buddy, void* block);
/* The block's size in bytes, 0 with EINVAL if no block that is in use begins there. */
size_t freeway_buddy_usable_size(freeway_buddy_t* buddy, void* block);

typedef struct {
  size_t managed; /* bytes */
  size_t used;    /* bytes in blocks */
  size_t blocks;
  size_t largest_free; /* bytes of the largest block that could be had now; 0: none, or published form: not known */
  size_t metadata;     /* bytes */
} freeway_buddy_stats_t;
/* Reads the tree without stopping anybody: exact while nobody else is inside. O(blocks + words with free blocks). 0. */
int freeway_buddy_stats(freeway_buddy_t* buddy, freeway_buddy_stats_t* stats);

/* What a killed process had stays lost, until somebody who knows that it is dead frees it. If it was killed while
 * freeing, no block is lost, but bigger blocks around it may stay refused. This finds such places and heals them:
 * everywhere (address NULL, O(metadata)), or below the block of `bytes` at `address` which is wanted (O(what is in use
 * there)). Anybody may call it at any time. 0, or -1 with EINVAL. The published form cannot be healed. */
int freeway_buddy_repair(freeway_buddy_t* buddy, void* address, size_t bytes);

/* Where this thread's searches begin: any number, its own for each thread and process at best. By default it follows
 * the thread id at the thread's first call, so processes forked later should set it (to getpid(), say). */
void freeway_buddy_scatter(unsigned long number);

/* --- A buddy for each NUMA node. --------------------------------------------------------------------------------- */

typedef struct freeway_buddy_nodes freeway_buddy_nodes_t;

enum {
  FREEWAY_BUDDY_PREFERRED = 0,  /* the calling thread's node, then the others */
  FREEWAY_BUDDY_LOCAL_ONLY = 1, /* the calling thread's node only */
  FREEWAY_BUDDY_INTERLEAVE = 2  /* the nodes in turn */
};

/* Maps (MAP_SHARED: children of fork share it) metadata and memory for a buddy on each of `nodes` nodes (0: all that
 * this process may use, at most 64) and asks the kernel to place each there. The mapping is one, so that a child or
 * whoever gets it has all of it. NULL with EINVAL or ENOMEM. Not for signal handlers. */
freeway_buddy_nodes_t* freeway_buddy_nodes_create(const freeway_buddy_options_t* options, unsigned nodes);
/* Unmaps it; nobody may use it any more. 0 or -1. */
int freeway_buddy_nodes_destroy(freeway_buddy_nodes_t* nodes);
/* 0 for NULL. */
unsigned freeway_buddy_nodes_count(freeway_buddy_nodes_t* nodes);
/* The buddy of the node with this index, NULL with EINVAL beyond the last. `*placed` (may be NULL): whether the kernel
 * accepted to place it. */
freeway_buddy_t* freeway_buddy_nodes_buddy(freeway_buddy_nodes_t* nodes, unsigned index, int* placed);
/* As freeway_buddy_alloc; `policy` is one of the above, else EINVAL. */
void* freeway_buddy_nodes_alloc(freeway_buddy_nodes_t* nodes, size_t bytes, int policy);
/* As freeway_buddy_free; from any node. */
int freeway_buddy_nodes_free(freeway_buddy_nodes_t* nodes, void* block);

#if defined(__cplusplus)
}
#endif

#endif
