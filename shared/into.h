// SPDX-License-Identifier: MIT
// Into: handing out a block and noting it in a slot of the program's as one step: wherever the caller is killed,
// afterwards the block is either in the slot and LIVE, or free and the slot is 0.
//
// Words     in_slot: the seat's record: offset of the slot, while the two steps may be undone; else 0
//           *slot: offset of the block, or 0. Contract: before alloc_into it holds no block; until the call returns (or
//           whoever cleans up after the caller is done) it is the caller's alone
// Steps     alloc_into: the block is named, its state CACHED(P) (or its frames CLAIM(P,n)); A1 in_slot = slot; A2 *slot
//           = block; A3 the block is LIVE (LARGE); A4 in_slot = 0
//           free_from: B0 the block is named; B1 in_slot = slot; B2 CAS LIVE -> CACHED(P) (LARGE -> CLAIM); B3 *slot =
//           0; B4 top + 1 (the frames are freed); B5 in_slot = 0
// Invariant both roll the same way: *slot names a block that is CACHED(P), or a CLAIM of P => *slot becomes 0
// (recover.h)
// Who       who sits at `seat`; a signal handler sits elsewhere
// Orders    all relaxed: the slot is the caller's alone
// Progress  that of small.h and runs.h       Lost if killed: nothing
// Checked   shared/tests/into_model.cc, shared/tests/heap_test.cc
#pragma once

#include "shared/runs.h"
#include "shared/small.h"

namespace freeway::shared {

template <class World> class Into {
 public:
  using Env = typename World::Env;
  using Slot = typename World::Env::template Atomic<u64>;

  explicit Into(World& world) : world_(world), tables_(world.tables) {}

  // A block of class `c` in the program's slot at the offset `at`; 0: no memory, or no slot.
  u64 alloc_small(u32 seat, u64 at, u32 c) {
    Slot* slot = world_.slot(at);
    if (slot == nullptr) return 0;
    Small small(world_);
    const auto block = small.pick(seat, c);
    if (block.offset == 0) return 0;
    in_order<Env>([&] { note(seat, at, *slot, block.offset); }, [&] { small.set_live(block.place); });
    forget(seat);
    return block.offset;
  }

  // The same with a block of `frames` frames.
  u64 alloc_large(u32 seat, u64 at, u32 frames) {
    Slot* slot = world_.slot(at);
    if (slot == nullptr) return 0;
    const u32 first =
        Runs(world_).take_large(seat, frames, [&](u32 f) { note(seat, at, *slot, tables_.offset_of(f)); });
    if (first == Runs<World>::kNone) return 0;
    forget(seat);
    return tables_.offset_of(first);
  }

  // Frees the block in the slot, which is 0 afterwards.
  Freed free_from(u32 seat, u64 at) {
    Slot* slot = world_.slot(at);
    if (slot == nullptr) return Freed::kNoBlock;
    const u64 block = slot->load_relaxed();
    const auto empty = [&] {
      slot->store_relaxed(0);
      Env::fence_signal();
    };
    Freed freed = Freed::kDone;
    if (const Place p = place(tables_, block, world_.frames()); p.size_class != 0) {
      Small small(world_);
      small.make_room(seat, p.size_class);
      small.name(seat, block, p);
      record(seat, at);
      if (small.set_cached(seat, p)) {
        empty();
        small.count(seat, p);
      } else {
        freed = Freed::kNotLive;
      }
    } else {
      record(seat, at);
      freed = Runs(world_).free_large(seat, block, empty);
    }
    forget(seat);
    return freed;
  }

 private:
  void note(u32 seat, u64 at, Slot& slot, u64 block) {
    in_order<Env>([&] { record(seat, at); }, [&] { slot.store_relaxed(block); });
  }
  void record(u32 seat, u64 at) {
    tables_.slab(seat).in_slot.store_relaxed(at);
    Env::fence_signal();
  }
  void forget(u32 seat) {
    Env::fence_signal();
    tables_.slab(seat).in_slot.store_relaxed(0);
    Env::fence_signal();
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared
