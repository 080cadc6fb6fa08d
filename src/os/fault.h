// SPDX-License-Identifier: MIT
// fault.h: what a program did wrong with a pointer, and saying so.
#pragma once

#include "base/integers.h"

namespace freeway {

enum class Fault { kOk, kDoubleFree, kForeign, kMisaligned, kInterior, kOtherThreads };

// Writes one line to fd 2: what happened to `pointer` in `function` ("free", "realloc", …), called from `caller` (null:
// not known any more), then aborts unless `go_on`. Signal-safe; a full pipe may block it.
void report(Fault fault, const char* function, const void* pointer, const void* caller, bool go_on);
// The same of a small block of `bytes` in which somebody wrote, after it was freed, to the eight bytes at `offset`.
void report_written(const void* block, std::size_t bytes, std::size_t offset, bool go_on);
// The same of a batch of `count` pointers at `blocks`, which cannot be.
void report_batch(std::size_t count, const void* blocks, const void* caller, bool go_on);

}  // namespace freeway
