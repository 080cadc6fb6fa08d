// SPDX-License-Identifier: MIT
// audit_frames.h: the part of Substrate that accounts for every frame of every arena. Included by substrate.h.
//
// Each frame is counted once, by its state in the arena and the page map; the two must agree with each other, and with
// the engine's own counts. Every rule here also holds beside threads that vanished inside a call, or stayed in the
// parent at a fork: the map's entry comes after the frame is owned, and goes before it is given back.
#pragma once

#include "os/report.h"

namespace freeway {

// One broken invariant: counted, and reported on fd 2 unless too many were.
inline void audit_error(freeway_audit_t& audit, const char* what, u64 value) {
  if (audit.errors++ < 20) Line().text("freeway: audit: ").text(what).text(" ").hex(value).write();
}

template <class Owns> void Substrate::audit_frames(freeway_audit_t& audit, Owns&& owns) {
  const auto is_used = [](const Arena<Machine>& arena, std::size_t f) {
    return (arena.used_word(f / kChunkFrames) >> (f % kChunkFrames) & 1) != 0;
  };
  frames_.each_arena([&](Arena<Machine>& arena) {
    const std::size_t all = arena.bytes() / kFrameSize, end = arena.end_of_used();
    const std::size_t accessible = ceil_div(arena.committed(), kFrameSize);
    u64 holes = 0;              // frames of the chunk that can never be accessible
    std::size_t large_end = 0;  // the end of the large block that this frame may belong to
    for (std::size_t f = 0; f < end; ++f) {
      const uptr address = arena.base() + f * kFrameSize;
      const FrameInfo info = map_.get(address);
      if (f % kChunkFrames == 0) holes = arena.holes_of(f / kChunkFrames);
      if ((holes >> (f % kChunkFrames) & 1) != 0) {  // used or not, it has no owner
        if (info.bits != 0 || f < large_end) audit_error(audit, "frame in a hole that has an owner, address", address);
        ++audit.frames_unused;
        continue;
      }
      if (info.kind() != FrameInfo::kSmall && map_.class_byte(address) != 0)
        audit_error(audit, "size class of a frame that is no superblock's, address", address);
      if (!is_used(arena, f)) {
        audit.frames_dirty += (arena.dirty_word(f / kChunkFrames) >> (f % kChunkFrames) & 1) != 0;
        if (info.bits != 0 || f < large_end) audit_error(audit, "free frame that has an owner, address", address);
        ++(f < accessible ? audit.frames_free : audit.frames_unused);
      } else if (f < large_end) {
        if (info.bits != 0) audit_error(audit, "frame inside a large block that has another owner, address", address);
        ++audit.frames_large;
      } else if (info.kind() == FrameInfo::kLarge) {
        large_end = f + info.frames();
        if (info.frames() == 0 || large_end > all)
          audit_error(audit, "large block of impossible length, address", address);
        ++audit.frames_large;
      } else if (info.is_of_heap()) {
        ++audit.frames_large;
      } else {
        if (info.kind() == FrameInfo::kHuge) audit_error(audit, "huge block inside an arena, address", address);
        const bool owned = info.kind() == FrameInfo::kSmall && owns(info.value(), address);
        ++(owned ? audit.frames_small : audit.frames_stranded);
      }
    }
    audit.frames_unused += all - end;
    audit.frames += all;
    return true;
  });
  map_.each_outside([&](uptr address, FrameInfo info) {
    if (info.kind() == FrameInfo::kHuge) audit.frames_huge += info.frames();
    else if (frames_.arena_of(address) == nullptr)
      audit_error(audit, "owner of memory that is in no arena, address", address);
  });
  const std::size_t counted =
      audit.frames_small + audit.frames_large + audit.frames_free + audit.frames_stranded + audit.frames_unused;
  if (counted != audit.frames) audit_error(audit, "frames do not add up, difference", audit.frames - counted);
  audit.frames_tables += metadata_.charged() + map_.leaf_bytes() / kFrameSize;
  audit.frames_charged = frames_.limits().held();
  const std::size_t backed =
      audit.frames_small + audit.frames_large + audit.frames_huge + audit.frames_dirty + audit.frames_tables;
  if (audit.frames_charged < backed)
    audit_error(audit, "memory that is not charged, frames", backed - audit.frames_charged);
  const std::size_t known = audit.frames_live + audit.frames_cached + audit.frames_held;
  if (known != 0 && known != audit.frames_small)
    audit_error(audit, "superblocks have other frames than the map says, difference", known - audit.frames_small);
}

}  // namespace freeway
