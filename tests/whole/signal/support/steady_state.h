// SPDX-License-Identifier: MIT
//
// Whether a heap that has lost things still works as well as before: a program with a constant set of large blocks
// needs no memory from the kernel and gives none back. If a lost call leaves a count of free memory too high for ever,
// every free believes that there is too much of it and gives memory back, which the next allocation must fault in
// again; the program is then tens of times slower. Counted by the allocator's own statistics, not timed.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_STEADY_STATE_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_STEADY_STATE_H

#include "tests/support/engine_under_test.h"
#include "tests/whole/signal/support/block_mix.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway_test {

inline void replace_large_blocks(Random& random, void* (&table)[64], size_t times) {
  for (size_t i = 0; i < times; i++) {
    void*& block = table[random.below(64)];
    ::free(block);
    block = ::malloc(random.between(40'000, 400'000));
    require(block != nullptr, "no memory");
  }
}

// Only while this is the only thread that allocates. What the heap needed before is forgotten over a second or two, and
// given back meanwhile: so it may take some turns until nothing more is given back. With a wrong count it never comes
// to that.
inline void require_steady_state(uint64_t seed) {
  if (heap_account.stats == nullptr) return;
  constexpr size_t kTimes = 5000, kTurns = 60;
  Random random(seed);
  void* table[64] = {};
  replace_large_blocks(random, table, kTimes);
  uint64_t purges = kTimes;
  for (size_t turn = 0; turn < kTurns && purges * 10 > kTimes; turn++) {
    freeway_stats_t before, after;
    heap_account.stats(&before, sizeof before);
    replace_large_blocks(random, table, kTimes);
    heap_account.stats(&after, sizeof after);
    purges = after.purges - before.purges;
  }
  for (void* block : table) ::free(block);
  require(purges * 10 <= kTimes,
          "a constant set of blocks, but memory is given back at every turn (purges, of so many frees)", purges,
          kTimes);
}

// Whether blocks that this thread frees are kept for it to have again: a slab that a call has taken and not given back
// would show as nothing but slowness. Not under FREEWAY_HARDEN, where nothing is kept.
inline void require_caches_in_use() {
  if (heap_account.stats == nullptr || !freeway::test::on_flagship() || ::getenv("FREEWAY_HARDEN") != nullptr) return;
  trim_heap();  // what is in caches is now in none
  void* blocks[50];
  for (void*& block : blocks) block = ::malloc(64);
  for (void* block : blocks) ::free(block);
  freeway_stats_t stats;
  heap_account.stats(&stats, sizeof stats);
  require(stats.cached >= sizeof blocks / sizeof *blocks * 64,
          "freed blocks are not kept: where is this thread's slab?", stats.cached);
}

}  // namespace freeway_test
#endif
