// SPDX-License-Identifier: MIT
//
// prelude.h: before each source of the library: the thread pointer is the simulated thread's.
#include "tests/whole/simulator/hooks.h"

#define __builtin_thread_pointer() static_cast<void*>(sim_thread_pointer)
