// SPDX-License-Identifier: MIT
// explain.cc: what an address in a superblock, or in the flagship's own memory, is.
#include "engine/freeway/walk.h"

namespace freeway {

using namespace walk;

// Whether the block lies in a magazine. Others push and pop meanwhile: of a block that nobody has in hand it is exact.
bool Heap::is_cached(unsigned c, uptr block) {
  bool found = false;
  each_slab([&](Slab& slab, auto) {
    u64 at = slab.top[c].load_relaxed() - 8;
    for (u64 word; !found && (word = slab_ops::slot(at)->load_relaxed()) != 0; at -= 8) found = slots::block_of(word) == reinterpret_cast<void*>(block);
  });
  return found;
}

// The one place that says whether a small block is live.
freeway_state_t Heap::state_of(unsigned c, u32 descriptor, u32 index, uptr block, const char*& what) {
  if (superblocks_.is_free(descriptor, index)) return FREEWAY_FREE;
  // Its frame may become another's meanwhile. While the fast path's byte says this class, or since, its births are there.
  const bool is_near = has_births() && substrate_->map().class_byte(block) == c;
  const bool is_dead = is_near && births_.near(block, kSizeClasses[c].size).load_relaxed() != birth::tag_of(block);
  if (!is_dead && !is_cached(c, block)) return FREEWAY_LIVE;
  what = "in a magazine";
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
