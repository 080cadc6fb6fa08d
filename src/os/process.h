// SPDX-License-Identifier: MIT
// process.h: facts about the process and its threads. All signal-safe.
#pragma once

#include "arch/rseq_layout.h"
#include "base/integers.h"
#include "sync/claim.h"

namespace freeway::process {

// The least length with which a struct rseq is registered.
constexpr u64 kRseqBytes = 32;

// A struct rseq of each thread, and the kernel's features in it.
struct Rseq {
  i64 offset = 0;            // struct rseq - thread pointer
  u64 bytes = 0;             // length with which it was registered; 0: there is none
  bool registered = false;   // whether the calling thread's is
  bool is_own = false;       // not libc's: rseq_area.h
  bool has_mm_cid = false;   // the kernel fills in the concurrency id
  const char* why_not = "";  // the reason if it is not to be used
};
// libc's.
Rseq rseq();
// Whether the kernel is known to restart all sections that it interrupts (kernel_release.h).
bool kernel_restarts_sections();

// Whether the calling thread is registered with the struct rseq at this distance from its thread pointer.
bool is_registered(u64 offset);

// The kernel's CPU mask of this process, in words. Returns their number; 0 if the kernel does not answer, or there are
// more.
constexpr unsigned kMaskWords = RSEQ_IDS / 64;
unsigned cpu_mask(u64 (&mask)[kMaskWords]);

// The kernel's facts about the CPUs.
struct Cpus {
  unsigned id_bound;  // its CPU numbers and concurrency ids are below this; over RSEQ_IDS: more than there is room for
  unsigned usable;    // CPUs this process may run on now, at least 1
};
Cpus cpus();
// Calls f(number) for each CPU that this process may run on now.
template <class F> void each_cpu(F&& f) {
  u64 mask[kMaskWords];
  for (unsigned word = 0, words = cpu_mask(mask); word < words; ++word)
    for (u64 bits = mask[word]; bits != 0; bits &= bits - 1) f(word * 64 + lowest_bit(bits));
}

// 1 if all memory of this process is on one NUMA node; else a bound above the numbers of its nodes.
unsigned nodes();
// The node of the CPU that the thread is on, or was on a moment ago. `rseq`: the distance of a struct rseq, which holds
// the node if the thread is registered (since Linux 6.3); 0: ask the kernel.
unsigned node(u64 rseq);

// Whether the kernel can interrupt all restartable sections of this process (registers for it; cheap while
// single-threaded). The second function interrupts them: afterwards no thread is inside a section that began before.
bool can_interrupt_sections();
bool interrupt_sections();

// Whether the kernel offers a full barrier in every thread of this process (registers for it). The second function
// makes one.
bool can_make_barriers();
bool make_barrier();
// Whether the 32 bits at `address`, a multiple of 4, may read `value`: false if they do not, or nothing is mapped
// there.
bool may_read(uptr address, u32 value);

// libc's flag for "one thread only so far"; the address of a 0 if libc has none.
const char* single_threaded_flag();

// 32 bits that spread threads over a table: a hint.
inline u64 thread_hash() {
  constexpr u64 kGolden = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
  return (reinterpret_cast<u64>(__builtin_thread_pointer()) >> 12) * kGolden >> 32;
}

// The time of a clock of the C library's (CLOCK_…) in ns.
u64 time_ns(int clock);
// Monotonic time, to the precision of a kernel tick.
u64 coarse_time_ns();
// The same by a system call (0: it is refused): a small process touches no page of the C library's and the vDSO for it.
u64 begin_time_ns();
// Nanoseconds since 1970.
u64 wall_time_ns();
// This process's number; its program's name without folders ("?" if there is none).
u64 id();
const char* program_name();
// Whether the program runs with more rights than its caller (setuid): the environment is not to be trusted.
bool is_privileged();

// Marks the calling thread as one that the C library does not know (background/bare_thread.h): the program's signal
// handlers must not run in it.
void become_bare();
bool is_bare();

// The calling thread's name for claims (sync/claim.h).
Claimant claimant();

}  // namespace freeway::process
