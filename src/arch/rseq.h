// SPDX-License-Identifier: MIT
// rseq.h: restartable sections on the slab of the current CPU (rseq_sections.S), as C functions.
//
// A section reads the CPU's index, finds its slab, does plain loads and stores, and ends in one committing store. If the
// thread is preempted, migrated or gets a signal before that store, the kernel sends it back to the start; so what a
// section does to a slab happens at once, on the slab of the CPU it runs on, without an atomic instruction. Between two
// sections the CPU may change: each one re-reads all it needs.
//
// All: signal-safe, no system call, return kNoSlab if the thread is not registered or its CPU has no slab. Offsets are
// bytes from the slab's start. Registration is libc's, else os/rseq_area.h's; of struct rseq only rseq_cs is written.
// Checked by tests/rseq, which interrupts every instruction of every section.
#pragma once

#include "arch/rseq_layout.h"
#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {
constexpr u64 kNoSlab = static_cast<u64>(RSEQ_NO_SLAB);
}

extern "C" {
// The top block of class c's magazine, taken off; 0 if it is empty.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_pop(freeway::u64 c);
// Puts `block` on top: 1, or 0 if the magazine is full.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push(freeway::u64 c, freeway::u64 block);
// Takes up to `count` blocks, the top one to out[0]; how many.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_pop_batch(freeway::u64 c, void** out, freeway::u64 count);
// Puts blocks[count - 1], blocks[count - 2], … on top until all are there or it is full; how many.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push_batch(freeway::u64 c, void* const* blocks, freeway::u64 count);
// The same with `count` (at least 1) blocks of `size` bytes side by side, of which the one at `lowest` comes last.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push_run(freeway::u64 c, freeway::u64 lowest, freeway::u64 size,
                                                  freeway::u64 count);
// The word at `offset`, replaced by `value`.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_exchange(freeway::u64 offset, freeway::u64 value);
// The word at `offset`; replaced by `value` if it was `expected`.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_replace(freeway::u64 offset, freeway::u64 expected, freeway::u64 value);
// Gives class c, whose top is `closed`, an empty magazine of `bytes` at `area`: 1, or 0 if its top was another.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_open(freeway::u64 c, freeway::u64 area, freeway::u64 bytes,
                                              freeway::u64 closed);
// Moves class c's magazine, if it lies in the `old_bytes` at `old_area`, to `old_area + distance`, where it has
// `new_bytes`: 1, or 0 if it lies elsewhere.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_move(freeway::u64 c, freeway::u64 old_area, freeway::u64 old_bytes,
                                              freeway::u64 distance, freeway::u64 new_bytes);
// If the word at `capacity_at` is `expected`, moves the end sentinel at `end` up by `bytes`: 1; 2 if there was no
// sentinel (it was moved already); 0 if the word was another.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_grow(freeway::u64 capacity_at, freeway::u64 expected, freeway::u64 end,
                                              freeway::u64 bytes);
// Of no slab, but of the cache that a heap of one's own has for this CPU (heap/caches.h), of whose record the address is given;
// `entry`: how far the class's is from the cache. A block of it; 0: none, or no cache.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_give_own(const void* heap, freeway::u64 entry);
// The same; what freeway_malloc_own_slow says if there is none.
FREEWAY_HIDDEN void* freeway_rseq_malloc_own(void* heap, freeway::u64 entry, std::size_t bytes);
FREEWAY_HIDDEN void* freeway_malloc_own_slow(void* heap, freeway::u64 entry, std::size_t bytes);
// Puts the block of that slice, whose bit is `bit`, into the magazine: 1; 0: it is full, or no cache; 2: it is free already.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_lay_own(const void* heap, freeway::u64 entry, freeway::u64 block, const void* slice,
                                                 freeway::u64 bit);
// The same for a block of a strip; where it cannot go there, freeway_free_otherwise.
FREEWAY_HIDDEN void freeway_rseq_free_own(void* block, freeway::u64 entry, const void* heap);
FREEWAY_HIDDEN void freeway_free_otherwise(void* block);
// The top block of the magazine whose `top` lies there, taken off, if this thread runs where the word at `owner` is the CPU's index;
// else 0.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_pop_own(const void* owner, void* top);
// If this thread runs where the word at `owner` is the CPU's index, `word` is `expected` and `other` is `others`: word = value,
// 1; else 0.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_store_if(const void* owner, void* word, freeway::u64 expected, const void* other,
                                                  freeway::u64 others, freeway::u64 value);
}
