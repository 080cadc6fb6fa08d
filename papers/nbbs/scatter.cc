// SPDX-License-Identifier: MIT
#include "papers/nbbs/scatter.h"

#include "os/syscall.h"

namespace freeway::nbbs {

namespace {
thread_local constinit u64 scatter = 0;  // 0: not known yet
}

void set_thread_hash(u64 number) { scatter = (number * 0x9E3779B97F4A7C15 >> 16) | 1; }

u64 thread_hash() {
  if (scatter == 0) set_thread_hash(static_cast<u64>(raw_syscall(SYS_gettid)));
  return scatter >> 1;
}

}  // namespace freeway::nbbs
