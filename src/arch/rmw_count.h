// SPDX-License-Identifier: MIT
// rmw_count.h: counts the atomic read-modify-write instructions of each thread: for the laboratory's counted builds
// only (bench/peers/CMakeLists.txt). In every other build count_rmw() is empty.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

#ifdef FREEWAY_COUNT_RMW
// The calling thread's. Zero from the start, so that no code runs before its first use; not atomic: a handler's
// additions come in between whole additions of the code that it interrupts, or are lost with at most one of them.
FREEWAY_HIDDEN extern __thread u64 rmw_count;
inline void count_rmw() { rmw_count = rmw_count + 1; }
#else
FREEWAY_INLINE void count_rmw() {}
#endif

}  // namespace freeway
