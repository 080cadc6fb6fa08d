// SPDX-License-Identifier: MIT
#include "engine/lfmalloc/rseq_place.h"

#include "os/process.h"

extern "C" {
constinit freeway::lfmalloc::RseqPlace freeway_hot = {};
}

namespace freeway::lfmalloc {

namespace {

struct alignas(32) Decoy {
  u32 cpu_id_start = 0;
  int cpu_id = -1;
  u64 section = 0;
  u32 flags = 0, node_id = 0, mm_cid = 0, pad = 0;
};
constinit thread_local Decoy decoy;

u64 decoy_offset() {
  return static_cast<u64>(reinterpret_cast<const char*>(&decoy) - static_cast<const char*>(__builtin_thread_pointer()));
}

}  // namespace

void find_rseq(bool wanted) {
  if (freeway_hot.any_rseq != 0) return;
  const process::Rseq rseq = process::rseq();
  const bool use = wanted && rseq.registered;
  freeway_hot.rseq_bytes = rseq.bytes;
  freeway_hot.in_use = use ? 1 : 0;
  freeway_hot.any_rseq = use ? static_cast<u64>(rseq.offset) : decoy_offset();
}

}  // namespace freeway::lfmalloc
