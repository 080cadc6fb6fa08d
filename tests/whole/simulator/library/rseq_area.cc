// SPDX-License-Identifier: MIT
//
// rseq_area.cc: in the place of src/os/rseq_area.cc: each simulated thread has a struct rseq that the C library
// registered, or none.
#include "os/rseq_area.h"

namespace freeway::process {

i64 rseq_decoy_offset() { return kSimDecoyOffset; }

Rseq own_rseq() {
  Rseq none;
  none.offset = kSimDecoyOffset;
  return none;
}

bool enter_own_rseq(u64) { return false; }
void deny_rseq(uptr) {}

Rseq choose_rseq(const RseqWish&) {
  Rseq found = rseq();
  if (found.registered) return found;
  Rseq none;
  none.why_not = "the C library registers no rseq";
  return none;
}

}  // namespace freeway::process
