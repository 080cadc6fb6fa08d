// SPDX-License-Identifier: MIT
// account.cc: counting what the heap holds. Walks the metadata without stopping anybody: exact when nobody else
// allocates.
#include "malloc/walk.h"

namespace freeway {

using namespace walk;

ClassAccount Heap::account_of(unsigned only) {
  ClassAccount total{};
  u64 taken_bytes = 0, taken_blocks = 0;
  each_descriptor(*this, [&](u32, const Desc& d, unsigned c) {
    if ((only != 0 && c != only) || !is_in_use(d, c)) return;
    const SizeClass& k = kSizeClasses[c];
    const u32 free = free_blocks(d, k);
    ++total.superblocks;
    total.mapped_bytes += k.span_bytes();
    total.blocks += k.blocks;
    ++total.occupancy[occupancy::tenth_of(k.blocks - free, k.blocks)];
    total.free_bytes += u64{free} * k.size;
    taken_bytes += u64{k.blocks - free} * k.size;
    taken_blocks += k.blocks - free;
  });
  each_slab([&](Slab& slab, auto) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      if (only != 0 && c != only) continue;
      const u32 blocks = cached_blocks(*this, slab, c);
      total.cached_blocks += blocks;
      total.cached_bytes += u64{blocks} * kSizeClasses[c].size;
      total.slow_mallocs += slab.counters[c].slow_mallocs;
      total.slow_frees += slab.counters[c].slow_frees;
      total.refills += slab.counters[c].refills;
      total.flushes += slab.counters[c].flushes;
    }
  });
  // While others allocate, a block may be counted as cached and, a moment later, as free.
  total.live_bytes = taken_bytes > total.cached_bytes ? taken_bytes - total.cached_bytes : 0;
  total.live_blocks = taken_blocks > total.cached_blocks ? taken_blocks - total.cached_blocks : 0;
  return total;
}

bool Heap::owns(u32 descriptor, uptr address) {
  auto& d = *static_cast<Desc*>(metadata().at(descriptor));
  const unsigned c = d.size_class.load_relaxed();
  return is_in_use(d, c) && address - d.span.load_relaxed() < kSizeClasses[c].span_bytes();
}

}  // namespace freeway
