// SPDX-License-Identifier: MIT
// memory_size.h: amounts of memory as people write them, and how much there is for this process. All signal-safe.
#pragma once

#include "base/integers.h"

namespace freeway {

// Reads a decimal number at `text`; where it ends, or null if there is none or it does not fit.
const char* parse_decimal(const char* text, u64* value);

// Reads an amount at `text`: a decimal number of bytes, or with k, m, g or t behind it of KiB … TiB (either case); or with %
// that part, 0 to 100, of what whole() answers. Where it ends; null if there is none, or it does not fit.
const char* parse_memory_size(const char* text, u64 (*whole)(), u64* bytes);

struct MemoryLimits {
  u64 soft = 0, hard = 0;  // bytes; 0: none
};
// Reads "soft", "soft,hard" or ",hard" (FREEWAY_LIMIT). False: it is not that, the soft one is above the hard one, or one of
// them is not 0 and less than 64 KiB.
bool parse_memory_limits(const char* text, u64 (*whole)(), MemoryLimits* limits);

// The memory of the machine; what of it this process may have, which is the least limit of its cgroup and of those above
// it (version 2: memory.max; version 1: memory.limit_in_bytes). Files that are not there limit nothing.
u64 machine_memory();
u64 process_memory();
// The same under another root directory ("" is the real one), where the machine has `machine` bytes.
u64 process_memory_under(const char* root, u64 machine);

// How many pages of this process the kernel backs with memory now, code, stacks and all; 0 if it cannot be read.
u64 resident_pages();

}  // namespace freeway
