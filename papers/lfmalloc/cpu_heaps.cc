// SPDX-License-Identifier: MIT
#include "papers/lfmalloc/cpu_heaps.h"

#include "os/process.h"
#include "os/rseq_area.h"
#include "papers/lfmalloc/rseq_place.h"

extern "C" {
constinit freeway::u64 freeway_lfmalloc_restarts = 0;
constinit void* freeway_lfmalloc_heaps[RSEQ_IDS] = {};
}

namespace freeway::lfmalloc {

constinit bool rseq_in_use = false;

void find_rseq(bool wanted, bool force) {
  if (freeway_rseq.area != 0) return;
  process::Rseq rseq;
  if (wanted) rseq = process::choose_rseq({.own = false, .any_kernel = force});
  const bool use = rseq.registered;
  freeway_rseq.bytes = rseq.bytes;
  rseq_in_use = use;
  freeway_rseq.area = use ? static_cast<u64>(rseq.offset) : static_cast<u64>(process::rseq_decoy_offset());
}

u32 cpu_now() {
  const uptr rseq = reinterpret_cast<uptr>(__builtin_thread_pointer()) + freeway_rseq.area;  // it may be before it
  const int cpu = *reinterpret_cast<const volatile int*>(rseq + RSEQ_CPU_ID);
  if (cpu >= 0) return static_cast<u32>(cpu);
  u32 asked = 0;
  raw_syscall(SYS_getcpu, reinterpret_cast<u64>(&asked));
  return asked;
}

}  // namespace freeway::lfmalloc
