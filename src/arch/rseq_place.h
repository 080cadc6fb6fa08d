// SPDX-License-Identifier: MIT
// rseq_place.h: where restartable sections that are off the fast path find their thread's struct rseq, and whether the
// process has one thread. The fast path has places of its own, with its tables (cache/hot.h).
//
// Words     area, id, bytes: 0 -> their values, by initialisation only; every thread that takes part stores the same
//           values. alone: null -> libc's flag <-> a 0, by the helper (malloc/idle.cc)
// Decoy     if there is no rseq, or it is not to be used: a struct whose cpu_id says "not registered"
#pragma once

#include "arch/atomic.h"
#include "arch/rseq_layout.h"

namespace freeway {

// The assembly's offsets: malloc/offsets.cc.
struct RseqPlace {
  u64 area;                   // struct rseq - thread pointer; else the decoy
  u64 id;                     // the field that is a slab's index - thread pointer
  u64 bytes;                  // length with which libc registered its struct rseq
  Atomic<const char*> alone;  // address of libc's __libc_single_threaded, or of a 0
};

}  // namespace freeway

extern "C" FREEWAY_HIDDEN freeway::RseqPlace freeway_rseq;

namespace freeway {

// Whether this thread is registered with a struct rseq there (relative to the thread pointer: may be negative).
inline bool rseq_is_registered(u64 area) {
  return *reinterpret_cast<const volatile int*>(reinterpret_cast<uptr>(__builtin_thread_pointer()) + area +
                                                RSEQ_CPU_ID) >= 0;
}
// The index of the slab on whose CPU this thread was a moment ago; whether that is its concurrency id, not the CPU's
// number.
inline u32 rseq_index() {
  return *reinterpret_cast<const volatile u32*>(reinterpret_cast<uptr>(__builtin_thread_pointer()) + freeway_rseq.id);
}
inline bool rseq_has_mm_cid() { return freeway_rseq.id == freeway_rseq.area + RSEQ_MM_CID; }

}  // namespace freeway
