// SPDX-License-Identifier: MIT
// account.h: what the heap holds (statistics), and whether it adds up (audit).
#pragma once

#include "engine/freeway/heap.h"
#include "freeway/freeway.h"

namespace freeway {

// Bytes and counts of one size class, or of all.
struct ClassAccount {
  u64 live_bytes, live_blocks, cached_bytes, cached_blocks, free_bytes, superblocks, mapped_bytes;
  u64 slow_mallocs, slow_frees, refills, flushes;
};
ClassAccount account_of(Heap& owner, unsigned only);  // 0: all classes

void fill_stats(Heap& owner, freeway_stats_t& stats);
void fill_audit(Heap& owner, freeway_audit_t& audit);

}  // namespace freeway
