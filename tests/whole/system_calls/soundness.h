// SPDX-License-Identifier: MIT
//
// soundness.h: that nothing is lost and nothing is broken once there is memory again.
#ifndef FREEWAY_TESTS_SYSTEM_CALLS_SOUNDNESS_H
#define FREEWAY_TESTS_SYSTEM_CALLS_SOUNDNESS_H

#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/engine_under_test.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

struct Leftovers {
  uint64_t live_blocks;    // what the C and C++ libraries keep, if the test itself has freed everything
  uint64_t address_space;  // bytes, of the process
};

// Trims, audits, and fails the test if frames, superblocks or memory are missing. What freeway_reserve keeps stays
// through a trim, but not beyond a limit: `reserved` says that some may be there.
inline Leftovers require_nothing_lost(bool reserved = false) {
  trim_heap();
  if (reserved) {
    heap_account.set_limit(0, kFrameBytes);
    heap_account.set_limit(0, 0);
  }
  const freeway_audit_t audit = require_clean_audit("audit after memory came back");
  require(audit.frames_stranded == 0, "frames were lost", audit.frames_stranded);
  require(superblocks_lost(audit) == 0, "superblocks were lost", superblocks_lost(audit));
  freeway_stats_t stats;
  heap_account.stats(&stats, sizeof stats);
  require(stats.dirty == 0, "a trim leaves dirty frames", stats.dirty);
  // Also other CPUs' slabs, where the kernel can interrupt their sections (MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ).
  const long barriers = ::syscall(SYS_membarrier, 0, 0, 0);
  if (freeway::test::on_flagship() && barriers > 0 && (barriers & 1 << 7) != 0)
    require(stats.cached == 0, "a trim leaves cached blocks", stats.cached);
  char text[128];
  require(read_start("/proc/self/statm", text, sizeof text) != 0, "statm");
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  return {stats.live_blocks, std::strtoull(text, nullptr, 10) * page};
}

}  // namespace freeway_test
#endif
