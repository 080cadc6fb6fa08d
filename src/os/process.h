// SPDX-License-Identifier: MIT
// process.h: what the library must know of the process and its threads. All signal-safe.
#pragma once

#include "arch/rseq_layout.h"
#include "base/integers.h"

namespace freeway::process {

// The least length that a struct rseq is registered with.
constexpr u64 kRseqBytes = 32;

// A struct rseq of each thread, and what the kernel offers in it.
struct Rseq {
  i64 offset = 0;           // struct rseq - thread pointer
  u64 bytes = 0;            // length it was registered with; 0: there is none
  bool registered = false;  // the calling thread's is
  bool is_own = false;      // not libc's: rseq_area.h
  bool has_mm_cid = false;  // the kernel fills in the concurrency id
  const char* why_not = "";  // where it is not to be used
};
// libc's.
Rseq rseq();
// Whether the kernel is known to restart all sections that it interrupts (kernel_release.h).
bool kernel_restarts_sections();

// Whether the calling thread is registered with the struct rseq at this distance from its thread pointer.
bool is_registered(u64 offset);

// The kernel's CPU mask of this process, in words; how many there are, 0 where it does not say, or there are more.
constexpr unsigned kMaskWords = RSEQ_IDS / 64;
unsigned cpu_mask(u64 (&mask)[kMaskWords]);

// What the kernel tells of the CPUs.
struct Cpus {
  unsigned id_bound;  // its CPU numbers and concurrency ids are below this; over RSEQ_IDS: more than there is room for
  unsigned usable;    // CPUs this process may run on now, at least 1
};
Cpus cpus();
// Calls f(number) for each CPU that this process may run on now.
template <class F>
void each_cpu(F&& f) {
  u64 mask[kMaskWords];
  for (unsigned word = 0, words = cpu_mask(mask); word < words; ++word)
    for (u64 bits = mask[word]; bits != 0; bits &= bits - 1) f(word * 64 + lowest_bit(bits));
}

// 1 if all memory of this process is on one NUMA node; else what is above the numbers of its nodes.
unsigned nodes();
// The node of the CPU that the thread is on, or was on a moment ago. `rseq`: the distance of a struct rseq, in which the
// kernel says it where the thread is registered (since Linux 6.3); 0: it is asked.
unsigned node(u64 rseq);

// Whether the kernel can interrupt all restartable sections of this process (registers for it; cheap while
// single-threaded), and doing so: afterwards no thread is inside a section that began before.
bool can_interrupt_sections();
bool interrupt_sections();

// Whether the kernel offers a full barrier in every thread of this process (registers for it), and making it.
bool can_make_barriers();
bool make_barrier();
// Whether the 32 bits at `address`, a multiple of 4, may read `value`: false if they do not, or nothing is mapped there.
bool may_read(uptr address, u32 value);

// libc's flag that the process has had one thread only so far; points at a 0 where libc has none.
const char* single_threaded_flag();

// 32 bits by which threads spread over a table: a hint.
inline u64 thread_hash() {
  constexpr u64 kGolden = 0x9e3779b97f4a7c15;  // 2^64 / the golden ratio
  return (reinterpret_cast<u64>(__builtin_thread_pointer()) >> 12) * kGolden >> 32;
}

// Monotonic time in ns, to the precision of a kernel tick.
u64 coarse_time_ns();
// Nanoseconds since 1970.
u64 wall_time_ns();
// This process's number, and the name that its program was started by, without folders ("?" if there is none).
u64 id();
const char* program_name();
// Whether the program runs with more rights than its caller (setuid): the environment is not to be trusted.
bool is_privileged();

// The calling thread is one that the C library does not know (background/bare_thread.h): the program's signal handlers are
// not for it.
void become_bare();
bool is_bare();

// A thread's name in a word that says who holds something, and how to tell, in the child of a fork, a holder that is
// still there from one that stayed behind in the parent.
//
// Layout    thread pointer / 32 : 43 | a bit for whoever stores names : 1 | epoch : 20; 0 = nobody. The epoch counts the
//           forks, libc's or raw, that led to this process. The child has one thread, the one that forked, perhaps from a
//           handler that interrupted it while it held something: what bears its thread pointer may still be held
// Limits    nothing is ever taken over where the kernel wipes no pages (before Linux 4.14), or where a child's first
//           thread was not the first to claim something (lives.h)
struct Claimant {
  static constexpr unsigned kEpochBits = 20;
  static constexpr uptr kThreadUnit = 32;  // in which thread pointers are counted
  static constexpr u64 kSpareBit = u64{1} << kEpochBits;  // 0 in every name
  u64 self = 0;      // what this thread writes
  u64 survivor = 0;  // the same of the thread that this process began with; of thread 0: it is not known

  static constexpr u64 name(u64 thread, u64 in_epoch) { return (thread << (kEpochBits + 1)) | epoch(in_epoch); }
  static constexpr u64 epoch(u64 word) { return word & low_bits(kEpochBits); }
  static constexpr u64 thread(u64 word) { return word >> (kEpochBits + 1); }
  // Whether epoch `a` came before `b`. They wrap.
  static constexpr bool is_before(u64 a, u64 b) { return epoch(b - a) - 1 < low_bits(kEpochBits - 1); }
  // Whether a word that reads `seen` may be replaced by `self`: nobody holds it, or one who is not in this process. (A later
  // epoch is this process's own: a handler forked since this claimant was asked for, and has started a thread.)
  constexpr bool may_replace(u64 seen) const {
    return seen == 0 || (thread(survivor) != 0 && is_before(epoch(seen), epoch(survivor)) &&
                         thread(seen) != thread(survivor));
  }
};
Claimant claimant();

}  // namespace freeway::process
