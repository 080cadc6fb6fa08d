// SPDX-License-Identifier: MIT
// explain.cc: what an address is.
//
// Reads Freeway's own maps and nothing at the address; takes nothing, stops nobody. What is read of others' blocks may
// change meanwhile; descriptors and slabs stay what they are (type-stable), so there is nothing to fall through.
#include "malloc/explain.h"

#include <string.h>

#include "harden/guarded.h"
#include "look/explanation.h"
#include "malloc/family.h"
#include "malloc/heaps.h"
#include "malloc/large.h"
#include "malloc/walk.h"

namespace freeway {

namespace {

// Where the block lies in a slab; null: in none. Others push and pop meanwhile: of a block that nobody has in hand it is
// exact.
const char* cache_of(unsigned c, uptr block) {
  const char* found = nullptr;
  const OwnWalk walk = own_walk();
  walk.each_slab([&](const char*, u32, const auto& slab) {
    walk.each_cached(slab, c, [&](u64 slot, bool rests) {
      if (slots::block_of(slot) == reinterpret_cast<void*>(block)) found = rests ? "at rest since its free" : "in a magazine";
    });
  });
  return found;
}

}  // namespace

freeway_state_t state_of(Heap& heap, unsigned c, u32 descriptor, u32 index, uptr block, const char*& what) {
  if (heap.superblocks().is_free(descriptor, index)) return FREEWAY_FREE;
  // Its frame may become another's meanwhile. While the fast path's byte says this class, or since, its births are there.
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
  found.state = state_of(heap, c, descriptor, index, begin, found.what);
  found.begin = reinterpret_cast<void*>(begin);
  found.size = k.size;
  found.offset = static_cast<ptrdiff_t>(address - begin);
}

const char* explain_metadata(uptr address) {
  if (address - reinterpret_cast<uptr>(&freeway_hot) < sizeof(freeway_hot)) return "the fast path's tables";
  const char* what = nullptr;
  process_malloc.heap().slabs.each([&](Slab& slab, auto) {
    if (address - reinterpret_cast<uptr>(&slab) < sizeof(Slab)) what = "a slab of magazines";
  });
  return what;
}

void explain_guarded(uptr address, freeway_explanation_t& found) {
  const guard::Near near = guard::near(address);
  if (near.kind == guard::Near::kNothing) return explanation::other(found, FREEWAY_METADATA, "pages for guarded blocks");
  const freeway_state_t state = !near.known ? FREEWAY_STATE_UNKNOWN : near.live ? FREEWAY_LIVE : FREEWAY_FREE;
  explanation::block(found, FREEWAY_GUARDED_BLOCK, state, near.birth.address, near.birth.size, address);
  if (!near.known) return;
  found.allocated_by = reinterpret_cast<void*>(near.birth.by.caller);
  found.allocated_in = near.birth.by.thread;
  if (near.live) return;
  found.freed_by = reinterpret_cast<void*>(near.death.caller);
  found.freed_in = near.death.thread;
}

// Large blocks are known by their first frame: looks for it below the address, as far as a block can reach.
bool explain_large(uptr address, freeway_explanation_t& found) {
  constexpr std::size_t kFurthest = std::size_t{1} << 16;  // frames: 4 GiB; of longer ones the rest is not found
  uptr frame = align_down(address, kFrameSize);
  for (std::size_t distance = 0; distance < kFurthest && frame >= kFrameSize; ++distance, frame -= kFrameSize) {
    const FrameInfo info = process_malloc.map().get_unowned(frame);  // OPTIMISTIC: explain
    if (info.kind() == FrameInfo::kNothing) continue;
    if (info.kind() == FrameInfo::kSmall || info.frames() <= distance) return false;
    const std::size_t bytes = large_bytes(info);
    explanation::block(found, FREEWAY_LARGE_BLOCK, FREEWAY_LIVE, frame, bytes, address);
    if (address >= frame + bytes)
      found.what = "on the guard page behind it";
    else if (info.kind() == FrameInfo::kHuge)
      found.what = "a mapping of its own";
    return true;
  }
  return false;
}

// No block's.
void explain_rest(uptr address, freeway_explanation_t& found) {
  using explanation::other;
  Substrate& substrate = process_malloc.substrate();
  if (Arena<Machine>* arena = substrate.frames().arena_of(address)) {
    const std::size_t offset = address - arena->base(), chunk = offset / kChunkSize;
    const std::size_t frame = offset % kChunkSize / kFrameSize;
    if (offset >= arena->committed() || (arena->holes_of(chunk) >> frame & 1) != 0) return;
    const bool used = (arena->used_word(chunk) >> frame & 1) != 0;
    return other(found, FREEWAY_FREE_MEMORY, used ? "a thread inside malloc or free has it in hand" : "a free frame");
  }
  if (substrate.metadata().contains(address)) return other(found, FREEWAY_METADATA, "descriptors");
  if (process_malloc.owns(address)) return other(found, FREEWAY_METADATA, "the heap's tables");
  if (const char* what = explain_metadata(address)) other(found, FREEWAY_METADATA, what);
}

}  // namespace

void family::explain(uptr address, freeway_explanation_t& found) {
  memset(&found, 0, sizeof(found));
  found.what = "";
  if (!process_malloc.start()) return;
  if (guard::owns(address)) return explain_guarded(address, found);
  const FrameInfo info = process_malloc.map().get_unowned(address);  // OPTIMISTIC: explain
  if (info.kind() == FrameInfo::kSmall)
    explain_small(address, info.value(), found);
  else if (info.is_of_heap())
    heaps::explain(address, info, found);
  else if (!explain_large(address, found))
    explain_rest(address, found);
}

}  // namespace freeway
