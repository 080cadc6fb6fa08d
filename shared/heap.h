// SPDX-License-Identifier: MIT
// Heap: the heap that processes share, as its C interface has it: blocks of any size. One object a process; it has no
// state.
//
// `seat`: the caller sits there (join), and is alone with it until it returns: one thread, no handler. Blocks are named
// by their offset in the file.
#pragma once

#include "shared/audit.h"
#include "shared/into.h"
#include "shared/recover.h"
#include "shared/seat.h"

namespace freeway::shared {

template <class World> class Heap {
 public:
  explicit Heap(World& world) : world_(world), tables_(world.tables) {}

  bool join(u32 seat, u32 token) { return Seats(world_).join(seat, token); }
  void leave(u32 seat) { Seats(world_).leave(seat); }
  bool recover(u32 seat, u32 own) { return Recovery(world_).recover(seat, own); }
  u32 recover_all(u32 own) { return Recovery(world_).recover_all(own); }
  Audit audit() { return Auditor(world_).audit(); }
  // Gives the memory of the frame `f` back, if it is free and may have some.
  bool trim(u32 seat, u32 f) { return f < world_.frames() && Runs(world_).trim(seat, f); }

  // A block of `bytes` at a multiple of `alignment` (a power of two up to 64 KiB) from the start of the data; 0: no
  // memory.
  u64 malloc(u32 seat, u64 bytes, u64 alignment = kMinBlock) {
    if (const u32 c = class_of_aligned(bytes, alignment); c != 0) return Small(world_).malloc(seat, c);
    const u32 n = frames_for(bytes);
    const u32 first = with_memory(seat, [&] { return Runs(world_).take_large(seat, n, [](u32) {}); });
    return first == kNone ? 0 : tables_.offset_of(first);
  }

  Freed free(u32 seat, u64 offset) {
    const Place p = place(tables_, offset, world_.frames());
    if (p.size_class != 0) return Small(world_).free(seat, offset, p);
    return Runs(world_).free_large(seat, offset, [] {});
  }

  // Bytes of the block that begins at `offset`; 0: none that is LIVE does.
  u64 usable(u64 offset) {
    const u32 frames = world_.frames();
    const Place p = place(tables_, offset, frames);
    if (p.size_class != 0) {
      const bool live = tables_.state(p.frame, p.index).load_relaxed() == state::kLive;
      return live ? World::Shape::size_class(p.size_class).size : 0;
    }
    const u64 f = tables_.frame_of(offset);
    if (f >= frames || tables_.offset_of(static_cast<u32>(f)) != offset) return 0;
    const u64 entry = tables_.entries[f].load_relaxed();
    const bool large = entry::kind(entry) == entry::Kind::kLarge;
    return large ? u64{tables_.count_at(entry, static_cast<u32>(f), frames)} << kFrameShift : 0;
  }

  // Whether the byte at `offset` lies in a block that is LIVE.
  bool is_in_live_block(u64 offset) {
    const u32 frames = world_.frames();
    if (const Place p = place_around(tables_, offset, frames); p.size_class != 0)
      return tables_.state(p.frame, p.index).load_relaxed() == state::kLive;
    const u64 f = tables_.frame_of(offset);
    if (f >= frames) return false;
    const auto run = tables_.run_at(f);
    return entry::kind(run.entry) == entry::Kind::kLarge &&
           f - run.head < tables_.count_at(run.entry, static_cast<u32>(run.head), frames);
  }

  // into.h: the block's offset, which is in the slot at the offset `at`, too; 0: no memory, or no slot.
  u64 alloc_into(u32 seat, u64 at, u64 bytes, u64 alignment = kMinBlock) {
    if (const u32 c = class_of_aligned(bytes, alignment); c != 0) return Into(world_).alloc_small(seat, at, c);
    return with_memory(seat, [&] { return Into(world_).alloc_large(seat, at, frames_for(bytes)); }, u64{0});
  }
  Freed free_from(u32 seat, u64 at) { return Into(world_).free_from(seat, at); }

 private:
  static constexpr u32 kNone = ~u32{0};

  // 0: more than there can be.
  static u32 frames_for(u64 bytes) {
    const u64 n = bytes == 0 ? 1 : bytes / kFrameSize + (bytes % kFrameSize != 0);
    return n <= World::Tables::kMaxFrames ? static_cast<u32>(n) : 0;
  }

  // Tries again without what the seat has in its magazines: it may be all that there is.
  template <class Take, class Result = u32> Result with_memory(u32 seat, Take&& take, Result none = kNone) {
    Result taken = take();
    if (taken != none) return taken;
    Small(world_).drain(seat);
    return take();
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared
