// SPDX-License-Identifier: MIT
// own_sections.h: restartable sections on the slab that a heap of the program's (heap/own_heap.h) has for the current
// CPU, as C functions; see cache/rseq_sections.h. Checked by tests/cache/rseq, which interrupts every instruction of
// every section.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

extern "C" {
// The top block of class c's magazine, or the next of the strip; 0: none, or no slab.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_give_own(const void* heap, std::size_t bytes, freeway::u64 c);
// The same; what freeway_malloc_own_slow says if there is none.
FREEWAY_HIDDEN void* freeway_rseq_malloc_own(void* heap, std::size_t bytes, freeway::u64 c);
FREEWAY_HIDDEN void* freeway_malloc_own_slow(void* heap, std::size_t bytes, freeway::u64 c);
// Puts the block on top of class c's magazine; where it cannot go there, freeway_free_otherwise.
FREEWAY_HIDDEN void freeway_rseq_free_own(void* block, freeway::u64 c, const void* heap);
FREEWAY_HIDDEN void freeway_free_otherwise(void* block);
}
