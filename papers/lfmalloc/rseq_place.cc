// SPDX-License-Identifier: MIT
#include "papers/lfmalloc/rseq_place.h"

#include "os/process.h"
#include "os/rseq_area.h"

namespace freeway::lfmalloc {

constinit bool rseq_in_use = false;

void find_rseq(bool wanted, bool force) {
  if (freeway_rseq.area != 0) return;
  process::Rseq rseq;
  if (wanted) rseq = process::choose_rseq({.own = false, .any_kernel = force});
  const bool use = rseq.registered;
  freeway_rseq.bytes = rseq.bytes;
  rseq_in_use = use;
  freeway_rseq.area = use ? static_cast<u64>(rseq.offset) : static_cast<u64>(process::rseq_decoy_offset());
}

}  // namespace freeway::lfmalloc
