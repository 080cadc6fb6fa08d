// SPDX-License-Identifier: MIT
#include "profile/probes.h"

#include "arch/probe.h"
#include "profile/gap.h"
#include "profile/live_blocks.h"

FREEWAY_PROBE_SEMAPHORE(otel_memory, alloc)
FREEWAY_PROBE_SEMAPHORE(otel_memory, free)
FREEWAY_PROBE_SEMAPHORE(freeway, sample_alloc)
FREEWAY_PROBE_SEMAPHORE(freeway, sample_free)

namespace freeway::profile {

bool anybody_listens() {
  return is_listened_to(otel_memory_alloc_semaphore) || is_listened_to(otel_memory_free_semaphore) ||
         is_listened_to(freeway_sample_alloc_semaphore) || is_listened_to(freeway_sample_free_semaphore);
}

void tell_allocated(uptr block, std::size_t bytes, u64 interval, u64 tag) {
  if (is_listened_to(freeway_sample_alloc_semaphore)) FREEWAY_PROBE(freeway, sample_alloc, block, bytes, tag);
  if (!is_listened_to(otel_memory_alloc_semaphore)) return;
  // NOLINTNEXTLINE(bugprone-incorrect-roundings): lround is in libm, which the library does without
  const u64 weighted = static_cast<u64>(static_cast<double>(bytes) / sampled_share(bytes, interval) + 0.5);
  FREEWAY_PROBE(otel_memory, alloc, block, bytes, bytes == 0 ? 0 : weighted);
}

void tell_freed(const LiveBlock& block, u64 now_ms) {
  if (is_listened_to(freeway_sample_free_semaphore))
    FREEWAY_PROBE(freeway, sample_free, block.address, block.bytes, now_ms - block.born);
  if (is_listened_to(otel_memory_free_semaphore)) FREEWAY_PROBE(otel_memory, free, block.address, 0, 0);
}

}  // namespace freeway::profile
