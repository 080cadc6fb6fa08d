// SPDX-License-Identifier: MIT
// account.cc: counting what the heap holds. Walks the metadata without stopping anybody: exact when nobody else
// allocates.
#include "engine/freeway/walk.h"

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

void Heap::account(Account& account) {
  const ClassAccount small = account_of(0);
  account.live_bytes = small.live_bytes;
  account.live_blocks = small.live_blocks;
  account.cached_bytes = small.cached_bytes;
  account.cached_blocks = small.cached_blocks;
  account.free_bytes = small.free_bytes;
  account.superblocks = small.superblocks;
  account.slow_mallocs = small.slow_mallocs;
  account.slow_frees = small.slow_frees;
  account.refills = small.refills;
  account.flushes = small.flushes;
  account.metadata_bytes = slabs_bytes_.load_relaxed() + own_frames_.records().committed();
}

bool Heap::owns(u32 descriptor, uptr address) {
  auto& d = *static_cast<Desc*>(metadata().at(descriptor));
  const unsigned c = d.size_class.load_relaxed();
  return is_in_use(d, c) && address - d.span.load_relaxed() < kSizeClasses[c].span_bytes();
}

}  // namespace freeway
