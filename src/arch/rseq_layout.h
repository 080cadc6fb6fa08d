// SPDX-License-Identifier: MIT
// rseq_layout.h: where the assembly finds what it reads. For the preprocessor, so that .S files can use it; cache/hot.h
// and cache/slab.h assert that the structures agree. All values are bytes from the start of `freeway_hot`, or of a slab.
#pragma once

// freeway_hot. The first two are struct rseq_cs of malloc's and free's section, so that one register is both the base of
// everything and what rseq_cs is set to.
#define HOT_MALLOC_SECTION 0
#define HOT_FREE_SECTION 32
#define HOT_RSEQ 64         // struct rseq - thread pointer, where mm_cid is the index; else the decoy
#define HOT_CPU_RSEQ 72     // the same, where cpu_id is the index; else the decoy
#define HOT_ARENA 80        // address of the primary arena
#define HOT_FRAMES 88       // frames it has; 0 sends every free to the slow path
#define HOT_BYTE_LIMIT 96   // malloc sizes below this use the byte table (1025); 0 sends every malloc to the slow path
#define HOT_STEP_LIMIT 104  // sizes below this use the step table (32769); 0 likewise
#define HOT_ANY_RSEQ 112    // struct rseq - thread pointer in either mode; else the decoy
#define HOT_ANY_ID 120      // the index field - thread pointer in either mode
#define HOT_NULL_SLAB 128   // address of the null slab
#define HOT_RSEQ_BYTES 136  // length with which libc registered its struct rseq
#define HOT_ALONE 144       // address of libc's __libc_single_threaded, or of a 0
#define HOT_CHECKED 152     // frames of the primary arena where free's checked path is used, else 0
#define HOT_MALLOC_FORM 160  // where malloc goes while its limits are 0:
#define MALLOC_SLOW 0
#define MALLOC_COUNTED 1    // a profile is made, and bytes are counted
#define MALLOC_CHECKED 2
#define MALLOC_DRAWN 3      // a profile is made, and all is left to freeway_malloc_drawn
#define HOT_BIRTH_SCALE 192 // 2^(8 - shift) for each class
#define HOT_BIRTH_BASE 704  // what to add to (address >> shift), for each class
#define HOT_SPAN_MASK 1216  // bytes of the class's span, less 1
#define HOT_FACTOR 1728     // which offsets in the span are blocks': SizeClass::begin_factor
#define HOT_FACTOR_LIMIT 2240
#define HOT_BYTE_TABLE 2752
#define HOT_STEP_TABLE 3777
#define HOT_BYTE_SIZES 1025
#define HOT_STEP_SIZES 32769
#define HOT_SLAB_OF 4096
#define RSEQ_IDS 8192        // entries of slab_of: as many CPUs as Linux can have
#define HOT_FRAME_CLASS (HOT_SLAB_OF + 8 * RSEQ_IDS)
#define HOT_HOME (HOT_FRAME_CLASS + 1048576)

// A slab, from its start: the words `top` of 64 classes, then:
#define SLAB_HOME 512      // a byte for each class
#define SLAB_PATIENCE 576  // foreign frees until blocks are sent home
#define SLAB_REST 584      // the word `top` of each class's magazine of blocks that rest (cache/quarantine.h)
#define SLAB_GAP 1096      // bytes up to the next one that the profile samples (profile/gap_word.h)

// struct rseq of the kernel.
#define RSEQ_CPU_ID 4    // negative: this thread is not registered
#define RSEQ_SECTION 8   // rseq_cs
#define RSEQ_FLAGS 16    // bit 5: the thread's time slice may be extended (since Linux 7.0)
#define RSEQ_NODE_ID 20  // since Linux 6.3, as what follows
#define RSEQ_MM_CID 24

// The system call's flags, and the number it is told beside them. Who has bit 5 of RSEQ_FLAGS registers again with the
// second flag (RSEQ_FLAG_SLICE_EXT_DEFAULT_ON of the kernel).
#define RSEQ_UNREGISTER 1
#define RSEQ_SLICE_EXTENSION 2
#if defined(__x86_64__)
#define RSEQ_SIGNATURE 0x53053053  // what stands before an abort address: arch/*/section.inc
#else
#define RSEQ_SIGNATURE 0xd428bc00
#endif

// What the section functions answer when the thread has no slab (not registered, or none was made for its CPU yet).
#define RSEQ_NO_SLAB (-1)

// Of a heap of one's own (heap/records.h): how many CPU numbers it has caches for, and their addresses; of a cache its entries,
// one for each class, and its strip; of an entry and of a slice some words.
#define OWN_IDS 76
#define OWN_CACHE_OF 512
#define OWN_STRIP_BASE 32
#define OWN_STRIP_NEXT 40
#define OWN_ENTRIES 64
#define OWN_ENTRY_BYTES 32
#define OWN_BASE 0
#define OWN_FREE 8
#define OWN_TOP 16
#define OWN_SIZE 24
#define OWN_CLASS 28
#define OWN_SLICE_ADDRESS 16
#define OWN_SLICE_SIZE 24
#define OWN_SLICE_END 48
#define OWN_SLICE_KINDS 56
