// SPDX-License-Identifier: MIT
// layout.h: where the sections' assembly finds what it reads. For the preprocessor; superblock.h and local_heap.h
// assert that the structures agree.
#pragma once

#include "arch/offsets.h"
#include "arch/rseq_layout.h"

// A superblock's header.
#define LFMALLOC_LOCAL 0  // its local word
#define LFMALLOC_BASE 8   // address of its memory

// A local word (local_word.h).
#define LFMALLOC_HEAD_MASK 0xfff
#define LFMALLOC_ONE_BLOCK 0x1000

// What the sections answer where there is no heap for them. No block has such an address, nor a superblock's header.
#define LFMALLOC_NOT_REGISTERED (-1)
#define LFMALLOC_NO_HEAP (-2)
