// SPDX-License-Identifier: MIT
// offsets.h: the offsets by which the assembly reads, in bytes: `freeway_hot` (HOT_) and a slab (SLAB_).
// Written by tests/golden/offsets.py from malloc/offsets.cc, which says why it is kept. Both processors have the same.
#pragma once

#define HOT_FREE_SECTION 32
#define HOT_RSEQ 64
#define HOT_CPU_RSEQ 72
#define HOT_ARENA 80
#define HOT_FRAMES 88
#define HOT_BYTE_LIMIT 96
#define HOT_STEP_LIMIT 104
#define HOT_NULL_SLAB 112
#define HOT_CHECKED 120
#define HOT_MALLOC_FORM 128
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
#define SLAB_HOME 512
#define SLAB_PATIENCE 576
#define SLAB_REST 584
#define SLAB_GAP 1096
