// SPDX-License-Identifier: MIT
// explanation.h: what an address is, for freeway_explain and `freeway blocks`: its parts, and the text.
#pragma once

#include "base/integers.h"
#include "freeway/freeway.h"
#include "harden/guard_slots.h"
#include "look/walk.h"
#include "pages/page_map.h"

namespace freeway {

// Writes one line to `fd`; of a guarded block also the calls that made and freed it. Signal-safe; a full pipe may block
// it.
void write_explanation(int fd, const void* address, const freeway_explanation_t& found);

namespace explanation {

inline void block(freeway_explanation_t& found, freeway_kind_t kind, freeway_state_t state, uptr begin,
                  std::size_t size, uptr address) {
  found.kind = kind;
  found.state = state;
  found.begin = reinterpret_cast<void*>(begin);
  found.size = size;
  found.offset = static_cast<ptrdiff_t>(address - begin);
}
inline void other(freeway_explanation_t& found, freeway_kind_t kind, const char* what) {
  found.kind = kind;
  found.what = what;
}

// An address in a superblock of the shape `k`: the block's index, or kNoBlock.
u32 small(freeway_explanation_t& found, const SizeClass& k, uptr address);
void guarded(freeway_explanation_t& found, const guard::Near& near, uptr address);

// Large blocks are known by their first frame: looks for it below the address, as far as a block can reach.
// entry(frame) is the page map's; a block of bytes_of(entry) begins `prefix` bytes behind its frame's beginning. False:
// there is none.
template <class Entry, class BytesOf>
bool large(freeway_explanation_t& found, uptr address, Entry&& entry, BytesOf&& bytes_of, std::size_t prefix = 0) {
  constexpr std::size_t kFurthest = std::size_t{1} << 16;  // frames: 4 GiB; of longer ones the rest is not found
  uptr frame = align_down(address, kFrameSize);
  for (std::size_t distance = 0; distance < kFurthest && frame >= kFrameSize; ++distance, frame -= kFrameSize) {
    const FrameInfo info = entry(frame);
    if (info.kind() == FrameInfo::kNothing) continue;
    if (info.kind() == FrameInfo::kSmall || info.frames() <= distance) return false;
    block(found, FREEWAY_LARGE_BLOCK, FREEWAY_LIVE, frame + prefix, bytes_of(info), address);
    if (found.offset >= static_cast<ptrdiff_t>(found.size)) found.what = "on the guard page behind it";
    else if (info.kind() == FrameInfo::kHuge) found.what = "a mapping of its own";
    return true;
  }
  return false;
}

// An address in no block: a frame of an arena, or metadata.
template <look::Reader R> void no_block(freeway_explanation_t& found, const look::Walk<R>& walk, u64 address) {
  const freeway_debug_t& d = walk.reader().layout();
  bool in_arena = false;
  walk.each_arena([&](const typename look::Walk<R>::Arena& arena) {
    const u64 offset = address - arena.base(), chunk = offset / kChunkSize, frame = offset % kChunkSize / kFrameSize;
    if (offset >= arena.bytes()) return;
    in_arena = true;
    if (offset >= arena.committed() || (arena.accessible(chunk) >> frame & 1) == 0) return;
    const bool used = (arena.used(chunk) >> frame & 1) != 0;
    other(found, FREEWAY_FREE_MEMORY, used ? "a thread inside malloc or free has it in hand" : "a free frame");
  });
  if (in_arena) return;
  const auto metadata = [&](u64 begin, u64 bytes, const char* what) {
    if (address - begin < bytes) other(found, FREEWAY_METADATA, what);
  };
  walk.each_segment([&](u32, u64 begin, u64 bytes) { metadata(begin, bytes, "descriptors"); });
  walk.each_slab(
      [&](const char*, u32, const auto& slab) { metadata(slab.address(), d.slab_bytes, "a slab of magazines"); });
  metadata(reinterpret_cast<u64>(d.heap), d.heap_bytes, "the heap's tables");
  metadata(reinterpret_cast<u64>(d.hot), d.hot_bytes, "the fast path's tables");
}

}  // namespace explanation
}  // namespace freeway
