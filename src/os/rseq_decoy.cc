// SPDX-License-Identifier: MIT
#include "os/rseq_decoy.h"

namespace freeway::process {

namespace {

// As the kernel lays struct rseq out.
struct alignas(32) Decoy {
  u32 cpu_id_start = 0;
  int cpu_id = -1;
  u64 rseq_cs = 0;
  u32 flags = 0, node_id = 0, mm_cid = 0, pad = 0;
};
constinit thread_local Decoy decoy;

}  // namespace

i64 rseq_decoy_offset() {
  return reinterpret_cast<const char*>(&decoy) - static_cast<const char*>(__builtin_thread_pointer());
}

}  // namespace freeway::process
