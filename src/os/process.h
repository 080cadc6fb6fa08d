// SPDX-License-Identifier: MIT
// process.h: what the library must know of the process and its threads. All signal-safe.
#pragma once

#include "base/integers.h"

namespace freeway::process {

// Where libc keeps this process's struct rseq, and what the kernel offers in it.
struct Rseq {
  i64 offset = 0;         // struct rseq - thread pointer
  u64 bytes = 0;          // length it was registered with
  bool registered = false;  // libc registered the calling thread
  bool has_mm_cid = false;  // the kernel fills in the concurrency id
};
Rseq rseq();

// An upper bound of the kernel's CPU numbers and concurrency ids: they are all below it.
unsigned id_bound();
// CPUs this process may run on, at least 1.
unsigned usable_cpus();

// Whether the kernel can interrupt all restartable sections of this process (registers for it; cheap while
// single-threaded), and doing so: afterwards no thread is inside a section that began before.
bool can_interrupt_sections();
bool interrupt_sections();

// libc's flag that the process has had one thread only so far; points at a 0 where libc has none.
const char* single_threaded_flag();

// RLIMIT_AS in bytes, ~0 if unlimited.
u64 address_space_limit();
// Monotonic time in ns, to the precision of a kernel tick.
u64 coarse_time_ns();
// Whether the program runs with more rights than its caller (setuid): the environment is not to be trusted.
bool is_privileged();

// A number that is different in each process that descends from this one by fork, libc's or raw; never 0. Without kernel
// support (before Linux 4.14): 1, always.
u32 fork_epoch();

}  // namespace freeway::process
