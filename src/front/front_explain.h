// SPDX-License-Identifier: MIT
// front_explain.h: the part of Front that says what an address is. Included by front.h.
//
// Reads Freeway's own maps and nothing at the address; takes nothing, stops nobody. What is read of others' blocks may
// change meanwhile; descriptors and slabs stay what they are (type-stable), so there is nothing to fall through.
#pragma once

#include "front/explanation.h"

namespace freeway {

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

inline void guarded(uptr address, freeway_explanation_t& found) {
  const guard::Near near = guard::near(address);
  if (near.kind == guard::Near::kNothing) return other(found, FREEWAY_METADATA, "pages for guarded blocks");
  const freeway_state_t state = !near.known ? FREEWAY_STATE_UNKNOWN : near.live ? FREEWAY_LIVE : FREEWAY_FREE;
  block(found, FREEWAY_GUARDED_BLOCK, state, near.birth.address, near.birth.size, address);
  if (!near.known) return;
  found.allocated_by = reinterpret_cast<void*>(near.birth.by.caller);
  found.allocated_in = near.birth.by.thread;
  if (near.live) return;
  found.freed_by = reinterpret_cast<void*>(near.death.caller);
  found.freed_in = near.death.thread;
}

}  // namespace explanation

// Large blocks are known by their first frame: looks for it below the address, as far as a block can reach.
template <Engine E>
bool Front<E>::explain_large(uptr address, freeway_explanation_t& found) {
  constexpr std::size_t kFurthest = std::size_t{1} << 16;  // frames: 4 GiB; of longer ones the rest is not found
  uptr frame = align_down(address, kFrameSize);
  for (std::size_t distance = 0; distance < kFurthest && frame >= kFrameSize; ++distance, frame -= kFrameSize) {
    const FrameInfo info = substrate_.map().get_unowned(frame);  // OPTIMISTIC: explain
    if (info.kind() == FrameInfo::kNothing) continue;
    if (info.kind() == FrameInfo::kSmall || info.frames() <= distance) return false;
    const std::size_t prefix = E::kLargePrefix;
    const std::size_t bytes = substrate_.large().bytes_of(info) - prefix;
    const uptr begin = frame + prefix;
    explanation::block(found, FREEWAY_LARGE_BLOCK, FREEWAY_LIVE, begin, bytes, address);
    if (address >= begin + bytes)
      found.what = "on the guard page behind it";
    else if (info.kind() == FrameInfo::kHuge)
      found.what = "a mapping of its own";
    return true;
  }
  return false;
}

// No block's.
template <Engine E>
void Front<E>::explain_rest(uptr address, freeway_explanation_t& found) {
  using explanation::other;
  if (Arena<Machine>* arena = substrate_.frames().arena_of(address)) {
    const std::size_t offset = address - arena->base(), chunk = offset / kChunkSize;
    const std::size_t frame = offset % kChunkSize / kFrameSize;
    if (offset >= arena->committed() || (arena->holes_of(chunk) >> frame & 1) != 0) return;
    const bool used = (arena->used_word(chunk) >> frame & 1) != 0;
    return other(found, FREEWAY_FREE_MEMORY, used ? "a thread inside malloc or free has it in hand" : "a free frame");
  }
  if (substrate_.metadata().contains(address)) return other(found, FREEWAY_METADATA, "descriptors");
  if (address - reinterpret_cast<uptr>(this) < sizeof(*this))
    return other(found, FREEWAY_METADATA, "the heap's tables");
  if constexpr (requires { engine_.explain_metadata(address); })
    if (const char* what = engine_.explain_metadata(address)) other(found, FREEWAY_METADATA, what);
}

template <Engine E>
void Front<E>::explain(uptr address, freeway_explanation_t& found) {
  memset(&found, 0, sizeof(found));
  found.what = "";
  if (!has_engine()) return;
  if (guard::owns(address)) return explanation::guarded(address, found);
  const FrameInfo info = substrate_.map().get_unowned(address);  // OPTIMISTIC: explain
  if (info.kind() == FrameInfo::kSmall) {
    if constexpr (requires { engine_.explain(address, info.value(), found); })
      engine_.explain(address, info.value(), found);
    else
      explanation::other(found, FREEWAY_SMALL_BLOCK, "of this engine no more is known");
  } else if (info.is_of_heap()) {
    explain_of_heap(address, info, found);
  } else if (!explain_large(address, found)) {
    explain_rest(address, found);
  }
}

// The papers' engines do not know which of their small blocks are live.
template <Engine E>
void Front<E>::block_info(uptr address, freeway_block_info_t& info) {
  memset(&info, 0, sizeof(info));
  if (!has_engine()) return;
  const FrameInfo frame = substrate_.map().get_unowned(address);  // OPTIMISTIC: explain
  if (frame.kind() == FrameInfo::kSmall) {
    if constexpr (requires { engine_.block_info(address, frame.value(), info); })
      engine_.block_info(address, frame.value(), info);
    return;
  }
  const bool is_large = frame.kind() != FrameInfo::kNothing && begins_large(address);
  if (frame.is_of_heap()) return block_info_of_heap(address, frame, info);
  if (is_large)
    info.size = substrate_.large().bytes_of(frame) - prefix_of(address);
  else if (guard::owns(address))
    info.size = guard::usable(address);
  if (info.size == 0) return;
  info.kind = is_large ? FREEWAY_LARGE_BLOCK : FREEWAY_GUARDED_BLOCK;
  info.superblock_size = is_large ? frame.frames() * kFrameSize : vm::page_size();
  info.superblock_blocks = info.superblock_live = 1;
  info.class_permille = 1000;
}

template <Engine E>
bool Front<E>::should_move(uptr address) {
  if (!start() || !ready()) return false;
  const FrameInfo frame = substrate_.map().get_unowned(address);  // OPTIMISTIC: explain
  if (frame.kind() != FrameInfo::kSmall) return false;
  if constexpr (requires { engine_.should_move(address, frame.value()); })
    return engine_.should_move(address, frame.value());
  return false;
}

}  // namespace freeway
