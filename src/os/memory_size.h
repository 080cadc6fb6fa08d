// SPDX-License-Identifier: MIT
// memory_size.h: amounts of memory as people write them, and the memory that this process may have. All signal-safe.
#pragma once

#include "base/integers.h"

namespace freeway {

// Reads a decimal number at `text`. Returns its end; null if there is none or it does not fit.
const char* parse_decimal(const char* text, u64* value);

// Reads an amount at `text`: a decimal number of bytes, or with k, m, g or t behind it of KiB … TiB (either case); or
// with % that part, 0 to 100, of whole(). Returns its end; null if there is none, or it does not fit.
const char* parse_memory_size(const char* text, u64 (*whole)(), u64* bytes);

struct MemoryLimits {
  u64 soft = 0, hard = 0;  // bytes; 0: none
};
// Reads "soft", "soft,hard" or ",hard" (FREEWAY_LIMIT). False: it has none of these forms, the soft one is above the
// hard one, or one of them is not 0 and less than 64 KiB.
bool parse_memory_limits(const char* text, u64 (*whole)(), MemoryLimits* limits);

// The memory of the machine; the part of it that this process may have: the least limit of its cgroup and of those
// above it (version 2: memory.max; version 1: memory.limit_in_bytes). Missing files limit nothing.
u64 machine_memory();
u64 process_memory();
// The same under another root directory ("" is the real one), on a machine with `machine` bytes.
u64 process_memory_under(const char* root, u64 machine);

// The number of this process's pages that are resident now, code, stacks and all; 0 if it cannot be read.
u64 resident_pages();

}  // namespace freeway
