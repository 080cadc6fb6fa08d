// SPDX-License-Identifier: MIT
// rseq_place.h: where the sections, and vfork.S, find libc's struct rseq: `freeway_hot`, in the flagship's layout
// (arch/offsets.h) as far as these two read it.
//
// Words     any_rseq: 0 -> the decoy's offset, or struct rseq's, from the thread pointer; stored with one value by all who
//           start. in_use: whether it is struct rseq's
// Decoy     where there is no rseq, or it is not to be used: its cpu_id says "not registered"
#pragma once

#include <cstddef>

#include "arch/offsets.h"
#include "base/compiler.h"
#include "base/integers.h"

namespace freeway::lfmalloc {

struct RseqPlace {
  u8 unused[HOT_ANY_RSEQ];
  u64 any_rseq;
  u64 in_use;
  u64 unused_too;
  u64 rseq_bytes;
};
static_assert(offsetof(RseqPlace, any_rseq) == HOT_ANY_RSEQ && offsetof(RseqPlace, rseq_bytes) == HOT_RSEQ_BYTES);

// Looks for libc's struct rseq, if `wanted`; with `force` also on a kernel that is not known to restart sections. Only the first call counts (or several at once, which find the same).
void find_rseq(bool wanted, bool force);

}  // namespace freeway::lfmalloc

extern "C" FREEWAY_HIDDEN freeway::lfmalloc::RseqPlace freeway_hot;
