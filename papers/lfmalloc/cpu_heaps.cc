// SPDX-License-Identifier: MIT
#include "papers/lfmalloc/cpu_heaps.h"

#include "papers/lfmalloc/rseq_place.h"

extern "C" {
constinit freeway::u64 freeway_lfmalloc_restarts = 0;
constinit void* freeway_lfmalloc_heaps[RSEQ_IDS] = {};
}

namespace freeway::lfmalloc {

u32 cpu_now() {
  const uptr rseq = reinterpret_cast<uptr>(__builtin_thread_pointer()) + freeway_rseq.area;  // it may be before it
  const int cpu = *reinterpret_cast<const volatile int*>(rseq + RSEQ_CPU_ID);
  if (cpu >= 0) return static_cast<u32>(cpu);
  u32 asked = 0;
  raw_syscall(SYS_getcpu, reinterpret_cast<u64>(&asked));
  return asked;
}

}  // namespace freeway::lfmalloc
