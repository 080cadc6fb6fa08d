// SPDX-License-Identifier: MIT
// fault.h: a program's errors with pointers, and reports of them.
#pragma once

#include "base/integers.h"

namespace freeway {

enum class Fault { kOk, kDoubleFree, kForeign, kMisaligned, kInterior, kOtherThreads };

// Writes one line to fd 2: the error with `pointer` in `function` ("free", "realloc", …), called from `caller` (null:
// no longer known), then aborts unless `go_on`. Signal-safe; a full pipe may block it.
void report(Fault fault, const char* function, const void* pointer, const void* caller, bool go_on);
// The same of blocks that were free already: those of `size` bytes, from `span` on, for which word `word` of a bitmap
// has a bit in `twice`.
void report_twice(uptr span, u64 size, unsigned word, u64 twice, bool go_on);
// The same of a small block of `bytes` that was written to after it was freed: the eight bytes at `offset`.
void report_written(const void* block, std::size_t bytes, std::size_t offset, bool go_on);
// The same of a live block of `bytes` that is freed as one of `size`.
void report_size(const void* block, std::size_t size, std::size_t bytes, const void* caller, bool go_on);
// The same of a batch of `count` pointers at `blocks`, which cannot be a batch.
void report_batch(std::size_t count, const void* blocks, const void* caller, bool go_on);

}  // namespace freeway
