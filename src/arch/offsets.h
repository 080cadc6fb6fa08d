// SPDX-License-Identifier: MIT
// offsets.h: where the assembly finds what it reads, in bytes: in `freeway_hot` (HOT_), in a slab (SLAB_), in what a
// heap of one's own has (OWN_). Written by tests/golden/offsets.py from malloc/offsets.cc, which says why it is kept.
// Both processors have the same numbers.
#pragma once

#define HOT_FREE_SECTION 32
#define HOT_RSEQ 64
#define HOT_CPU_RSEQ 72
#define HOT_ARENA 80
#define HOT_FRAMES 88
#define HOT_BYTE_LIMIT 96
#define HOT_STEP_LIMIT 104
#define HOT_ANY_RSEQ 112
#define HOT_ANY_ID 120
#define HOT_NULL_SLAB 128
#define HOT_RSEQ_BYTES 136
#define HOT_ALONE 144
#define HOT_CHECKED 152
#define HOT_MALLOC_FORM 160
#define HOT_BIRTH_SCALE 192
#define HOT_BIRTH_BASE 704
#define HOT_SPAN_MASK 1216
#define HOT_FACTOR 1728
#define HOT_FACTOR_LIMIT 2240
#define HOT_BYTE_TABLE 2752
#define HOT_STEP_TABLE 3777
#define HOT_SLAB_OF 4096
#define HOT_FRAME_CLASS 69632
#define HOT_HOME 1118208
#define HOT_BYTE_SIZES 1025
#define HOT_STEP_SIZES 32769
#define MALLOC_COUNTED 1
#define MALLOC_CHECKED 2
#define SLAB_HOME 512
#define SLAB_PATIENCE 576
#define SLAB_REST 584
#define SLAB_GAP 1096
#define OWN_IDS 76
#define OWN_CACHE_OF 512
#define OWN_STRIP_BASE 32
#define OWN_STRIP_NEXT 40
#define OWN_BASE 0
#define OWN_FREE 8
#define OWN_TOP 16
#define OWN_SIZE 24
#define OWN_CLASS 28
#define OWN_SLICE_ADDRESS 16
#define OWN_SLICE_SIZE 24
#define OWN_SLICE_END 48
#define OWN_SLICE_KINDS 56
