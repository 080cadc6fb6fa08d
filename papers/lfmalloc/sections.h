// SPDX-License-Identifier: MIT
// sections.h: the restartable critical sections (section 3.1.1), as C functions; {x86_64,aarch64}/sections.S.
//
// A section reads the CPU's number, finds its local heap, does plain loads and stores, and ends in one store that
// commits. The paper's kernel driver and notification routine are Linux's rseq: if the thread is preempted, migrated or
// gets a signal before that store, the kernel sends it back to the section's start. (The paper restarts only if a
// *related* thread ran meanwhile; rseq always does: more restarts, nothing else.)
//
// All: signal-safe, no system call. Registration is libc's alone; of struct rseq only rseq_cs is written.
// Checked by papers/lfmalloc/tests/sections_test.cc, which interrupts every instruction of every section.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"
#include "papers/lfmalloc/layout.h"

namespace freeway::lfmalloc {

constexpr uptr kNotRegistered = static_cast<uptr>(LFMALLOC_NOT_REGISTERED);
constexpr uptr kNoHeap = static_cast<uptr>(LFMALLOC_NO_HEAP);

struct SectionAnswer {
  uptr first, second;
};

}  // namespace freeway::lfmalloc

extern "C" {
// A block of class `c` of this CPU's heap: {block, -}; {0, superblock whose list is empty, or 0};
// {kNotRegistered or kNoHeap, -}.
FREEWAY_HIDDEN freeway::lfmalloc::SectionAnswer freeway_lfmalloc_pop(freeway::u64 c);
// Adds `block` to the local list of `superblock`, of class `c`: 1; 0 if that is not on line here, or there is no heap.
FREEWAY_HIDDEN freeway::u64 freeway_lfmalloc_push(freeway::u64 c, void* superblock, freeway::uptr block);
// The superblock of class `c` that is on line, replaced by `fresh` if it was `expected`; kNotRegistered, kNoHeap.
FREEWAY_HIDDEN freeway::uptr freeway_lfmalloc_install(freeway::u64 c, const void* expected, void* fresh);

// How many sections were interrupted and started again, in this process (a handler's count, too).
FREEWAY_HIDDEN extern freeway::u64 freeway_lfmalloc_restarts;
// The local heap of each CPU, null until a thread was there.
FREEWAY_HIDDEN extern void* freeway_lfmalloc_heaps[RSEQ_IDS];
}
