// SPDX-License-Identifier: MIT
// rseq_sections.h: restartable sections on the slab of the current CPU (rseq_sections.S), as C functions.
//
// A section reads the CPU's index, finds its slab in a table (freeway_hot.slab_of is the malloc's), does plain loads
// and stores, and ends in one committing store. If the thread is preempted, migrated or gets a signal before that
// store, the kernel sends it back to the start; so a section changes the slab of the CPU that it runs on at once,
// without an atomic instruction. Between two sections the CPU may change: each one re-reads all it needs.
//
// `table`: the addresses of the slabs, by index; the null slab's where there is none.
// All: signal-safe, no system call, return kNoSlab if the thread is not registered or its CPU has no slab. Offsets are
// bytes from the slab's start. Registration is libc's, else os/rseq_area.h's; of struct rseq only rseq_cs is written.
// Checked by tests/cache/rseq, which interrupts every instruction of every section.
#pragma once

#include "arch/rseq_layout.h"
#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

constexpr u64 kNoSlab = static_cast<u64>(RSEQ_NO_SLAB);
// Where a magazine of `old_bytes` lies, how far behind it the larger one does, and how long that is.
struct MagazineMove {
  u64 old_area, old_bytes, distance, new_bytes;
};

}  // namespace freeway

extern "C" {
// The top block of class c's magazine, taken off; 0 if it is empty.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_pop(const void* table, freeway::u64 c);
// Puts `block` on top: 1, or 0 if the magazine is full.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push(const void* table, freeway::u64 c, freeway::u64 block);
// Takes up to `count` blocks, the top one to out[0]; how many.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_pop_batch(const void* table, freeway::u64 c, void** out, freeway::u64 count);
// Puts blocks[count - 1], blocks[count - 2], … on top until all are there or it is full; how many.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push_batch(const void* table, freeway::u64 c, void* const* blocks,
                                                    freeway::u64 count);
// The same with `count` (at least 1) blocks of `size` bytes side by side, of which the one at `lowest` comes last.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_push_run(const void* table, freeway::u64 c, freeway::u64 lowest,
                                                  freeway::u64 size, freeway::u64 count);
// The word at `offset`, replaced by `value`.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_exchange(const void* table, freeway::u64 offset, freeway::u64 value);
// The word at `offset`; replaced by `value` if it was `expected`.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_replace(const void* table, freeway::u64 offset, freeway::u64 expected,
                                                 freeway::u64 value);
// Gives class c, whose top is `closed`, an empty magazine of `bytes` at `area`: 1, or 0 if its top was another.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_open(const void* table, freeway::u64 c, freeway::u64 area, freeway::u64 bytes,
                                              freeway::u64 closed);
// Moves class c's magazine, if it lies in `move.old_bytes` at `move.old_area`: 1, or 0 if it lies elsewhere.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_move(const void* table, freeway::u64 c, const freeway::MagazineMove& move);
// If the word at `capacity_at` is `expected`, moves the end sentinel at `end` up by `bytes`: 1; 2 if there was no
// sentinel (it was moved already); 0 if the word was another.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_grow(const void* table, freeway::u64 capacity_at, freeway::u64 expected,
                                              freeway::u64 end, freeway::u64 bytes);
// If the word at `offset` is `expected`, and its neighbour (at offset ^ 8) is `other`: 1, and the word is `value` then;
// else 0.
FREEWAY_HIDDEN freeway::u64 freeway_rseq_store_if(const void* table, freeway::u64 offset, freeway::u64 expected,
                                                  freeway::u64 other, freeway::u64 value);
}
