// SPDX-License-Identifier: MIT
//
// rmw_count.cc: linked into the counted builds only: where each thread's count lies, and the function that reads it.
#include "arch/rmw_count.h"

namespace freeway {
__thread u64 rmw_count;
}

// The atomic read-modify-write instructions that the calling thread has executed in this library. Any thread may call
// it, handlers too.
extern "C" FREEWAY_EXPORT unsigned long freeway_counted_rmw() { return freeway::rmw_count; }
