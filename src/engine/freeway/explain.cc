// SPDX-License-Identifier: MIT
// explain.cc: what an address in a superblock, or in the flagship's own memory, is.
#include "engine/freeway/walk.h"

namespace freeway {

using namespace walk;

// Where the block lies in a slab; null: in none. Others push and pop meanwhile: of a block that nobody has in hand it is
// exact.
const char* Heap::cache_of(unsigned c, uptr block) {
  const char* found = nullptr;
  each_slab([&](Slab& slab, auto) {
    const char* here = "in a magazine";
    each_magazine(slab, c, [&](u64 top) {
      for (u64 at = top - 8; found == nullptr; at -= 8) {
        const u64 slot = slab_ops::slot(at)->load_relaxed();
        if (slot == 0) break;
        if (slots::block_of(slot) == reinterpret_cast<void*>(block)) found = here;
      }
      here = "at rest since its free";
    });
  });
  return found;
}

// The one place that says whether a small block is live.
freeway_state_t Heap::state_of(unsigned c, u32 descriptor, u32 index, uptr block, const char*& what) {
  if (superblocks_.is_free(descriptor, index)) return FREEWAY_FREE;
  // Its frame may become another's meanwhile. While the fast path's byte says this class, or since, its births are there.
  const bool is_near = has_births() && substrate_->map().class_byte(block) == c;
  const bool is_dead = is_near && births_.near(block, kSizeClasses[c].size).load_relaxed() != birth::tag_of(block);
  const char* place = cache_of(c, block);
  if (!is_dead && place == nullptr) return FREEWAY_LIVE;
  what = place != nullptr ? place : "in the hand of a thread inside malloc or free";
  return FREEWAY_FREE;
}

void Heap::explain(uptr address, u32 descriptor, freeway_explanation_t& found) {
  const unsigned c = backing_.descriptor(descriptor).size_class.load_relaxed();
  const SizeClass& k = kSizeClasses[c];
  const uptr span = k.span_of(address);
  const u32 index = k.index_of(address - span);
  found.kind = FREEWAY_SMALL_BLOCK;
  if (index >= k.blocks) {
    found.kind = FREEWAY_FREE_MEMORY;
    found.what = "the unused end of a superblock";
    return;
  }
  const uptr begin = span + u64{index} * k.size;
  found.state = state_of(c, descriptor, index, begin, found.what);
  found.begin = reinterpret_cast<void*>(begin);
  found.size = k.size;
  found.offset = static_cast<ptrdiff_t>(address - begin);
}

const char* Heap::explain_metadata(uptr address) {
  if (address - reinterpret_cast<uptr>(&freeway_hot) < sizeof(freeway_hot)) return "the fast path's tables";
  const char* what = nullptr;
  each_slab([&](Slab& slab, auto) {
    if (address - reinterpret_cast<uptr>(&slab) < sizeof(Slab)) what = "a slab of magazines";
  });
  return what;
}

}  // namespace freeway
