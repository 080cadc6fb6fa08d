// SPDX-License-Identifier: MIT
// offsets.h: the assembly's offsets, in bytes: `freeway_hot` (HOT_) and a slab (SLAB_).
// Both processors have the same. Written by tests/whole/golden/offsets.py from malloc/offsets.cc, which says why.
#pragma once

#define HOT_FREE_SECTION 32
#define HOT_NEW_SECTION 544
#define HOT_RSEQ 448
#define HOT_CPU_RSEQ 456
#define HOT_ARENA 464
#define HOT_FRAMES 472
#define HOT_BYTE_LIMIT 480
#define HOT_STEP_LIMIT 488
#define HOT_NULL_SLAB 496
#define HOT_CHECKED 504
#define HOT_MALLOC_FORM 512
#define HOT_DELETE_FRAMES 520
#define HOT_BIRTH_SCALE 64
#define HOT_BIRTH_BASE 576
#define HOT_SPAN_MASK 960
#define HOT_FACTOR 1344
#define HOT_FACTOR_LIMIT 1728
#define HOT_BYTE_TABLE 2112
#define HOT_STEP_TABLE 3137
#define HOT_SLAB_OF 3456
#define HOT_FRAME_CLASS 68992
#define HOT_FRAME_HOME 68993
#define HOT_BYTE_SIZES 1025
#define HOT_STEP_SIZES 32769
#define SLAB_HOME 512
#define SLAB_PATIENCE 576
#define SLAB_REST 584
#define SLAB_GAP 1096
