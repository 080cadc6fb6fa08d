// SPDX-License-Identifier: MIT
#include "malloc/walk.h"

namespace freeway {

u64 OwnMemory::View::any_word(u64 offset, u32 bytes) const {
  switch (bytes) {
    case 1: return load<u8>(offset);
    case 2: return load<u16>(offset);
    case 4: return load<u32>(offset);
    default: return load<u64>(offset);
  }
}

template class look::Walk<OwnMemory>;

// Not all classes at once, since handlers' stacks are small; not one by one, since each walk goes through the whole heap.
void each_account(FunctionRef<void(unsigned c, const look::ClassAccount& account)> f) {
  constexpr unsigned kAtATime = 2;
  const OwnWalk walk = own_walk();
  for (unsigned first = 1; first < kClassCount; first += kAtATime) {
    look::ClassAccount accounts[kAtATime] = {};
    walk.each_superblock([&](const OwnWalk::Descriptor& each) {
      if (each.size_class() - first < kAtATime) accounts[each.size_class() - first].add(each);
    });
    walk.each_slab([&](const char*, u32, const OwnMemory::View& slab) {
      for (unsigned i = 0; i < kAtATime && first + i < kClassCount; ++i) {
        accounts[i].cached += look::cached_blocks(walk, slab, first + i);
        accounts[i].add_counters(walk, slab, first + i);
      }
    });
    for (unsigned i = 0; i < kAtATime; ++i)
      if (accounts[i].superblocks + accounts[i].slow_mallocs + accounts[i].slow_frees != 0) f(first + i, accounts[i]);
  }
}

}  // namespace freeway
