// SPDX-License-Identifier: MIT
// scatter.h: a number that differs between threads, so that they begin to search at different nodes: the paper's
// process id.
#pragma once

#include "base/integers.h"
#include "os/syscall.h"

namespace freeway::nbbs {

inline constinit thread_local u64 scatter = 0;  // 0: not known yet

inline void set_thread_hash(u64 number) { scatter = (number * 0x9E3779B97F4A7C15 >> 16) | 1; }

inline u64 thread_hash() {
  if (scatter == 0) set_thread_hash(static_cast<u64>(raw_syscall(SYS_gettid)));
  return scatter >> 1;
}

}  // namespace freeway::nbbs
