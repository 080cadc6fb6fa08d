/* SPDX-License-Identifier: MIT
 *
 * debug.h: where libfreeway.so keeps its data, for tools that look into a process from outside: debuggers, `freeway
 * stat` and others.
 *
 * The symbol `freeway_debug`, in libfreeway.so and in whatever libfreeway.a was linked into, is constant data. A
 * reader finds it by its name, or by its first bytes at a multiple of 64 in a mapping of the file: `magic`, and
 * `self`, its own address once it has been relocated. That needs no symbols, no file and no load address, so it
 * works for stripped programs, other mount namespaces and core files.
 *
 * It tells addresses and offsets; the headers of the same version of Freeway say what the words mean. `version`
 * counts up with every change of either: a reader refuses any version that it was not made for. The libraries of the
 * paper engines have no such symbol. It is short, since each process has a copy of its page: it is relocated, and
 * core files are to have it.
 *
 * All words may change while they are read, each at once (they are naturally aligned and at most 8 bytes long). No
 * memory that is found through them is ever unmapped, but for blocks themselves.
 */
#ifndef FREEWAY_DEBUG_H
#define FREEWAY_DEBUG_H

#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define FREEWAY_DEBUG_MAGIC "Freeway's heap\n" /* with its zero: 16 bytes */
#define FREEWAY_DEBUG_VERSION 6
#define FREEWAY_DEBUG_CLASSES 48

/* A word of an object, or a row of them: word i is at the object's address + offset + i * stride. */
typedef struct freeway_debug_field_t {
  uint32_t offset;
  uint32_t count;
  uint16_t stride;
  uint16_t size; /* bytes of the word */
} freeway_debug_field_t;

/* A size class, and where a slab has its magazines: offsets in words of 8 bytes from the slab's beginning. A magazine
 * is what lies below the class's `top`, down to the first 0. */
typedef struct freeway_debug_class_t {
  uint32_t size;        /* of a block, in bytes */
  uint32_t small, big;  /* as many slots of `big` as of `small`: there is no `big` */
  uint32_t beds;        /* of blocks that rest: so many slots each, one behind the other, a 0 between them */
  uint16_t blocks;      /* in a superblock */
  uint16_t words;       /* of its bitmap; a set bit is a free block */
  uint16_t span_frames; /* frames of a superblock, which is aligned to so many */
  uint16_t small_slots, big_slots, bed_slots;
} freeway_debug_class_t;

typedef struct freeway_debug_t {
  char magic[16];
  const void* self;
  uint32_t version;
  uint32_t bytes; /* of this structure */
  char engine[16];
  char library[16]; /* "0.2.0": freeway_version() */

  const void* heap; /* the object that `heap_...` are fields of; all zero until the first allocation */
  const void* hot;  /* the fast path's tables */
  const void* guard_range;
  const void* guard_slots;
  const void* guard_faults; /* a word of 8 bytes */
  const void* window;       /* a word of 8 bytes: os/vm.h */
  const void* profile;      /* the object that `profile_...` are fields of */

  uint32_t heap_bytes, hot_bytes;
  uint32_t frame_shift;   /* log2 of a frame's bytes */
  uint32_t chunk_frames;  /* frames of a chunk: bits of its words */
  uint32_t unit_bytes;    /* of descriptors */
  uint32_t segment_shift; /* log2 of the units of a segment */
  uint32_t leaf_shift;    /* log2 of the entries of a leaf of the page map */
  uint32_t class_count;   /* classes are 1 .. class_count - 1 */
  uint32_t slab_bytes;    /* of a slab without beds */
  uint32_t beds;          /* of each class, beside the first one */
  uint32_t birth_skew;    /* bytes */
  uint32_t guard_slot_count;
  freeway_debug_class_t classes[FREEWAY_DEBUG_CLASSES];

  /* The heap. */
  freeway_debug_field_t heap_ready;      /* not 0: options have been read */
  freeway_debug_field_t heap_mode;       /* malloc/slabs.h: Mode */
  freeway_debug_field_t heap_why_spare;  /* address of a text: why there is no rseq; or 0 */
  freeway_debug_field_t heap_harden;     /* FREEWAY_HARDEN */
  freeway_debug_field_t heap_quarantine; /* bytes that rest, by class and slab */
  freeway_debug_field_t heap_cpu_ids;    /* of `heap_cpu_slabs` the first so many may be other than 0 */
  freeway_debug_field_t heap_cpu_slabs;  /* addresses of slabs, or 0, in both */
  freeway_debug_field_t heap_spare_slabs;
  freeway_debug_field_t heap_slabs_bytes;
  freeway_debug_field_t heap_map_roots;   /* addresses of the page map's leaves, or 0 */
  freeway_debug_field_t heap_map_primary; /* address of the primary arena */
  freeway_debug_field_t heap_map_frames;  /* of the primary arena */
  freeway_debug_field_t heap_map_classes; /* address of two bytes for each of these frames; the first is its class */
  freeway_debug_field_t heap_map_infos;   /* address of an entry (4 bytes) for each of them */
  freeway_debug_field_t heap_map_leaves;  /* count */
  freeway_debug_field_t heap_arena;       /* the primary arena: an object in the heap */
  freeway_debug_field_t heap_arenas;      /* addresses of further ones, or 0 */
  freeway_debug_field_t heap_live_frames;
  freeway_debug_field_t heap_dirty_frames;
  freeway_debug_field_t heap_purges;
  freeway_debug_field_t heap_purged;
  freeway_debug_field_t heap_limit; /* pages/limits.h: limit_word */
  freeway_debug_field_t heap_soft_limit;
  freeway_debug_field_t heap_limit_refusals;
  freeway_debug_field_t heap_limit_pressures;
  freeway_debug_field_t heap_segments;     /* pages/metadata.h: packed */
  freeway_debug_field_t heap_segment_ends; /* pages/committed_range.h: range_word */
  freeway_debug_field_t heap_record_ends;  /* range_word: of the segments for the records of the program's heaps */
  freeway_debug_field_t heap_units;        /* the first unit that was never handed out */
  freeway_debug_field_t heap_large_blocks;
  freeway_debug_field_t heap_huge_blocks;
  freeway_debug_field_t heap_huge_frames;
  freeway_debug_field_t heap_guard_bytes; /* of the page that ends a large block with a guard */
  freeway_debug_field_t heap_span_frames; /* frames of superblocks */
  freeway_debug_field_t heap_births_off;  /* not 0: no birth bytes */
  freeway_debug_field_t heap_births_place;
  freeway_debug_field_t heap_births_arena;
  freeway_debug_field_t heap_births_bytes;

  /* An arena. */
  freeway_debug_field_t arena_base;
  freeway_debug_field_t arena_bytes;
  freeway_debug_field_t arena_watermark; /* range_word */
  freeway_debug_field_t arena_holes;     /* of which the watermark tells how many there are */
  freeway_debug_field_t arena_chunks;    /* address of its chunks; of `chunk_bytes` each */
  freeway_debug_field_t chunk_used;
  freeway_debug_field_t chunk_dirty;
  uint32_t chunk_bytes;

  uint32_t descriptor_bytes; /* up to its words */
  freeway_debug_field_t descriptor_anchor;
  freeway_debug_field_t descriptor_span;
  freeway_debug_field_t descriptor_class;
  freeway_debug_field_t descriptor_node;
  freeway_debug_field_t descriptor_kind;  /* not 0: of blocks that a profile samples */
  freeway_debug_field_t descriptor_words; /* as many as the class says */

  freeway_debug_field_t slab_tops;  /* by class */
  freeway_debug_field_t slab_rests; /* by class: the first bed */
  freeway_debug_field_t slab_beds;  /* by class: the others, side by side; only where blocks rest */
  freeway_debug_field_t slab_node;
  freeway_debug_field_t slab_slow_mallocs; /* by class */
  freeway_debug_field_t slab_slow_frees;
  freeway_debug_field_t slab_refills;
  freeway_debug_field_t slab_flushes;

  freeway_debug_field_t guard_range_begin;
  freeway_debug_field_t guard_range_bytes; /* 0: nothing is guarded */
  freeway_debug_field_t guard_word;        /* by slot: harden/guard_word.h */
  freeway_debug_field_t guard_address;
  freeway_debug_field_t guard_size;
  freeway_debug_field_t guard_allocated_by;
  freeway_debug_field_t guard_allocated_in;
  freeway_debug_field_t guard_freed_by;
  freeway_debug_field_t guard_freed_in;
  freeway_debug_field_t guard_owner; /* of a live block: a heap of the program, 0: none */

  /* The profile: src/profile/profiler.h. Its tables have 0 entries until the first profile is begun. */
  freeway_debug_field_t profile_wanted; /* profile/wanted.h: the word, with the interval */
  freeway_debug_field_t profile_began;  /* ms of CLOCK_MONOTONIC_COARSE: when the first one was begun */
  freeway_debug_field_t profile_samples;
  freeway_debug_field_t profile_lost_stacks;
  freeway_debug_field_t profile_lost_blocks;
  freeway_debug_field_t profile_sites; /* address of its sites; behind them are words that tell of their stacks */
  freeway_debug_field_t profile_site_count;
  freeway_debug_field_t profile_live; /* address of the sampled blocks that are live */
  freeway_debug_field_t profile_live_count;
  freeway_debug_field_t profile_copies; /* address of copies of stacks */
  freeway_debug_field_t profile_copy_count;
  freeway_debug_field_t profile_copy_piece; /* bytes of a stack, behind `copy_head_bytes` */
  freeway_debug_field_t profile_top;        /* profile/peak.h: the word, with the epoch; 0: no peak is kept */
  freeway_debug_field_t profile_top_interval;
  freeway_debug_field_t profile_top_began; /* ms since `profile_began` */
  uint32_t site_bytes;
  uint32_t site_words; /* that tell of stacks: so many for each site, in a common heap */
  uint32_t site_depth_bits;
  uint32_t site_head;               /* words before the addresses: tag, interval */
  freeway_debug_field_t site_facts; /* 0, or the first of these words << site_depth_bits | depth of the stack */
  freeway_debug_field_t site_allocated;
  freeway_debug_field_t site_allocated_bytes;
  freeway_debug_field_t site_freed;
  freeway_debug_field_t site_freed_bytes;
  freeway_debug_field_t site_born;       /* sums of ms: when all its blocks were allocated; when the freed ones were; */
  freeway_debug_field_t site_born_freed; /* when these were freed */
  freeway_debug_field_t site_died;
  freeway_debug_field_t site_at_peak; /* the epoch, and what was live when it began */
  freeway_debug_field_t site_copy;    /* 0, or the number of a copy, + 1 */
  uint32_t live_bytes;                /* of a live block's entry */
  uint32_t copy_head_bytes;
  freeway_debug_field_t live_address; /* 0: none; odd: it is being filled in */
  freeway_debug_field_t live_site;
  freeway_debug_field_t live_size;
  freeway_debug_field_t live_born;      /* ms since `profile_began` */
  freeway_debug_field_t copy_length;    /* bytes of the stack that were copied */
  freeway_debug_field_t copy_registers; /* src/arch/registers.h */
} freeway_debug_t;

extern const freeway_debug_t freeway_debug;

#if defined(__cplusplus)
}
#endif
#endif
