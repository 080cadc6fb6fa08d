// SPDX-License-Identifier: MIT
// rseq_area.h: the struct rseq that the restartable sections of this process use: the C library's; one of ours if that
// registers none (before glibc 2.35, GLIBC_TUNABLES=glibc.pthread.rseq=0, musl); or a decoy if none can be had.
//
// Ours lies in static thread-local storage, at one distance from the thread pointer in all threads, and says "not
// registered" until its thread has registered it, at its first call off the fast path. If another library registered
// first in a thread, the kernel refuses us and that thread has no rseq. One that comes later is refused.
//
// The decoy says "not registered" for ever, and its rseq_cs may be written: unused sections write there, and no section
// tests for it. It is a second struct: were it ours, a handler that registers the thread between the tests of
// two sections would send the second one into a slab of another numbering.
//
// Word      tried: 0 -> 1, once in a thread's life, by the thread or a handler in it; never back, so neither the child
//           of a vfork, which sees its parent's, nor a thread at its end registers once more
// Moves     cpu_id: -1 -> CPU (the kernel, at the system call)   CPU -> -1 (the kernel, when unregistered: by vfork.S,
//           or at the end of a thread, where the C library unmaps the struct before the thread has gone)
// fork      the child's thread has its parent's registration, in the kernel, and its memory
// Lost if killed: nothing; interrupted for ever between `tried` and the system call: the thread uses spare slabs
// Checked   tests named *.own, tests/cache/rseq/own_registration_test.cc
#pragma once

#include "os/process.h"

namespace freeway::process {

// The decoy's distance from the thread pointer, the same in all threads. Signal-safe.
i64 rseq_decoy_offset();

// Our struct rseq.
Rseq own_rseq();

// The kinds of rseq that may be used.
struct RseqWish {
  bool own = true;          // our own struct rseq, if the C library has none
  bool any_kernel = false;  // also on kernels that are known not to restart sections
};
// The struct rseq that this process may use; if it is ours, the calling thread has registered it. Once decided, for
// good.
Rseq choose_rseq(const RseqWish& wish);

// For a thread that is not registered, in a process whose sections use the struct at `offset`: registers the thread, if
// that struct is ours and it has not tried before. Whether it is registered now.
bool enter_own_rseq(u64 offset);

// For a thread that has not begun, whose thread-local storage at this thread pointer is all zero: makes it unregistered
// for ever.
void deny_rseq(uptr thread_pointer);

}  // namespace freeway::process
