// SPDX-License-Identifier: MIT
// heap_world.h: a heap of one region, for the models of src/heap/slices.h.
#pragma once

#include "heap/slices.h"
#include "model/explorer.h"
#include "model/model_env.h"

namespace freeway::model {

// Records are named by what they are.
struct HeapWorld {
  static constexpr u32 kHeap = 1, kRegion = 2, kFirstSlice = 4;  // as in a Region: two units before the slices
  heap::Record<ModelEnv> heap;
  heap::Region<ModelEnv> region;
  u32 given = 0;                   // frames that went back
  ModelEnv::Plain<u32> content[4];  // of the blocks

  // What the heap has: the region, all of whose units are free, and which the caller holds.
  HeapWorld() {
    heap.self.store_relaxed(kHeap);
    heap.held.store_relaxed(1);
    heap.regions.store_relaxed(kRegion);
    region.self.store_relaxed(kRegion);
    region.heap.store_relaxed(reinterpret_cast<u64>(&heap));
    region.frames.store_relaxed(1);
    region.word.store_relaxed(cell::born(cell::kItems));
    memset(region.kinds, 0, sizeof(region.kinds));
    model_name(region.word, "region");
    model_name(heap.lists[0], "regions");
  }

  void* at(u32 index) {
    if (index == kHeap) return &heap;
    if (index == kRegion) return &region;
    return &region.slices[index - kFirstSlice];
  }
  u32 make(u32) { return 0; }
  uptr take_frames(std::size_t, std::size_t, u32, bool&) { return 0; }
  void give_frames(uptr, std::size_t frames) {
    given += static_cast<u32>(frames);
    for (auto& each : content) each.set(0);  // they are another's, who writes
  }

  // How many are in the list; each of them says so.
  u32 listed(TaggedStack<ModelEnv>& list) {
    u32 count = 0;
    for (u32 index = list.peek(); index != 0; index = region.slices[index - kFirstSlice].link.load_relaxed()) {
      model_check(cell::is_listed(region.slices[index - kFirstSlice].word.load_relaxed()), "what is in a list says so");
      model_check(++count <= 2, "a list ends");
    }
    return count;
  }
};

}  // namespace freeway::model
