// SPDX-License-Identifier: MIT
// rseq_place.h: the sections, and vfork.S, find libc's struct rseq where arch/rseq_place.h says: at its place, or at
// the decoy.
#pragma once

#include "arch/rseq_place.h"

namespace freeway::lfmalloc {

// Whether it is struct rseq's place.
extern bool rseq_in_use;

// Looks for libc's struct rseq, if `wanted`; with `force` also on a kernel that is not known to restart sections. Only
// the first call counts (or several at once, which find the same).
void find_rseq(bool wanted, bool force);

}  // namespace freeway::lfmalloc
