// SPDX-License-Identifier: MIT
//
// os/syscall.h: found before src/os/syscall.h: the pretended kernel (kernel.cc) answers.
#pragma once

#include <sys/syscall.h>

#include "base/integers.h"
#include "tests/whole/simulator/hooks.h"

namespace freeway {

inline long raw_syscall(long number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0, u64 f = 0) {
  return sim_syscall(number, a, b, c, d, e, f);
}

}  // namespace freeway
