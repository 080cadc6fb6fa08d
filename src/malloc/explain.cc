// SPDX-License-Identifier: MIT
// explain.cc: what an address is.
//
// Reads Freeway's own maps and nothing at the address; takes nothing, stops nobody. The state of others' blocks may
// change meanwhile; descriptors and slabs are type-stable, so every address that is read stays readable.
#include <string.h>

#include "harden/guarded.h"
#include "look/explanation.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"
#include "malloc/walk.h"

namespace freeway {

namespace {

// The place of the block in a slab; null: it is in none. Others push and pop meanwhile: exact for a block that no
// thread has in hand.
const char* cache_of(unsigned c, uptr block) {
  const char* found = nullptr;
  const OwnWalk walk = own_walk();
  walk.each_slab([&](const char*, u32, const auto& slab) {
    walk.each_cached(slab, c, [&](u64 slot, bool rests) {
      if (slots::block_of(slot) == reinterpret_cast<void*>(block))
        found = rests ? "at rest since its free" : "in a magazine";
    });
  });
  return found;
}

}  // namespace

freeway_state_t state_of(Heap& heap, unsigned c, u32 descriptor, u32 index, uptr block, const char*& what) {
  if (heap.superblocks().is_free(descriptor, index)) return FREEWAY_FREE;
  // Its frame may become another's meanwhile. While the fast path's byte says this class, or since, its births are
  // there.
  const bool is_near = heap.births.are_kept() && heap.substrate().map().class_byte(block) == c;
  const bool is_dead = is_near && heap.births.near(block, kSizeClasses[c].size).load_relaxed() != birth::tag_of(block);
  const char* place = cache_of(c, block);
  if (!is_dead && place == nullptr) return FREEWAY_LIVE;
  what = place != nullptr ? place : "in the hand of a thread inside malloc or free";
  return FREEWAY_FREE;
}

namespace {

void explain_small(uptr address, u32 descriptor, freeway_explanation_t& found) {
  Heap& heap = process_malloc.heap();
  const unsigned c = heap.descriptor(descriptor).size_class.load_relaxed();
  const u32 index = explanation::small(found, kSizeClasses[c], address);
  if (index == SizeClass::kNoBlock) return;
  found.state = state_of(heap, c, descriptor, index, reinterpret_cast<uptr>(found.begin), found.what);
}

}  // namespace

void family::explain(uptr address, freeway_explanation_t& found) {
  memset(&found, 0, sizeof(found));
  found.what = "";
  if (!process_malloc.start()) return;
  if (guard::owns(address)) return explanation::guarded(found, guard::near(address), address);
  const auto entry = [](uptr frame) { return process_malloc.map().get_unowned(frame); };  // OPTIMISTIC: explain
  const FrameInfo info = entry(address);
  if (info.kind() == FrameInfo::kSmall) explain_small(address, info.value(), found);
  else if (info.is_of_heap()) heaps::explain(address, info, found);
  else if (!explanation::large(found, address, entry, large_bytes)) explanation::no_block(found, own_walk(), address);
}

}  // namespace freeway
