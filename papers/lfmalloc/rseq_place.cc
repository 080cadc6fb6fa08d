// SPDX-License-Identifier: MIT
#include "papers/lfmalloc/rseq_place.h"

#include "os/process.h"
#include "os/rseq_area.h"

extern "C" {
constinit freeway::lfmalloc::RseqPlace freeway_hot = {};
}

namespace freeway::lfmalloc {

void find_rseq(bool wanted, bool force) {
  if (freeway_hot.any_rseq != 0) return;
  process::Rseq rseq;
  if (wanted) rseq = process::choose_rseq({.own = false, .any_kernel = force});
  const bool use = rseq.registered;
  freeway_hot.rseq_bytes = rseq.bytes;
  freeway_hot.in_use = use ? 1 : 0;
  freeway_hot.any_rseq = use ? static_cast<u64>(rseq.offset) : static_cast<u64>(process::rseq_decoy_offset());
}

}  // namespace freeway::lfmalloc
