// SPDX-License-Identifier: MIT
// heap_world.h: a heap of one region, and who has which of its blocks, for the models of src/heap/slices.h.
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
  static constexpr int kThreads = 3;
  u32 given = 0;                                      // frames that went back
  ModelEnv::Plain<u32> content[4];                    // of the blocks
  unsigned kept[kThreads][8] = {};                    // blocks
  int kept_from[kThreads] = {}, kept_to[kThreads] = {};  // which of them a thread still has

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

  // Gives each thread as many blocks as its digit says; how many that are.
  u32 hand_out(const char* owned) {
    u32 next = 0;
    for (int id = 0; id < kThreads; ++id)
      for (int i = owned[id] - '0'; i > 0; --i) kept[id][kept_to[id]++] = next++;
    return next;
  }
  // A race unless the block is the thread's alone.
  void touch(unsigned block) { content[block].set(content[block].get() + 1); }
  void keep(int id, unsigned block) {
    touch(block);
    kept[id][kept_to[id]++] = block;
  }
  bool has_blocks(int id) const { return kept_from[id] != kept_to[id]; }
  // The one that the thread has kept for the longest time.
  unsigned leave(int id) {
    const unsigned block = kept[id][kept_from[id]++];
    touch(block);
    return block;
  }
  // The blocks that are somebody's, as bits.
  u64 in_hand() const {
    u64 blocks = 0;
    for (int id = 0; id < kThreads; ++id)
      for (int i = kept_from[id]; i < kept_to[id]; ++i) {
        model_check((blocks >> kept[id][i] & 1) == 0, "a block is in one pair of hands");
        blocks |= u64{1} << kept[id][i];
      }
    return blocks;
  }
  void check_given() const {
    model_observe(given);
    model_check(given <= 1, "a frame goes back once");
  }
  void check_all_given() {
    model_check(given == 1, "what is free goes back");
    model_check(limit_word::held(heap.held.load_relaxed()) == 0, "what went back is held no more");
  }
  void check_list(TaggedStack<ModelEnv>& list) {
    u32 say_so = 0;
    for (unsigned i = 0; i < 4; ++i) say_so += cell::is_listed(region.slices[i].word.load_relaxed());
    model_check(listed(list) == say_so, "who says that it is listed is");
  }

 private:
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
