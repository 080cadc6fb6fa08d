// SPDX-License-Identifier: MIT
// syscall.h: in the place of src/os/syscall.h where the machine is pretended: what the kernel answers is what
// pretended_kernel.cc makes of it.
#pragma once

#include <sys/syscall.h>

#include "base/integers.h"

namespace freeway {

long raw_syscall(long number, u64 a = 0, u64 b = 0, u64 c = 0, u64 d = 0, u64 e = 0, u64 f = 0);

}  // namespace freeway
