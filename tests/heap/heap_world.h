// SPDX-License-Identifier: MIT
// heap_world.h: a heap of strips of a few blocks, and who has which of them, for the model of src/heap/strips.h.
#pragma once

#include <cstring>

#include "heap/strips.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {

// Records are named by what they are. A strip's frame is a number: nothing is stored there.
struct HeapWorld {
  static constexpr u32 kStrips = 2;
  static constexpr int kThreads = 3;
  struct Strip {
    heap::Run<ModelEnv> run;
    u8 kinds[heap::Run<ModelEnv>::kKinds];
  };
  heap::Record<ModelEnv> heap;
  Strip strips[kStrips];
  u32 made = 0, taken = 0;
  u32 given = 0;          // frames that went back
  unsigned in_frame = 4;  // how many lie in each
  static constexpr unsigned kBlocks = 16;
  ModelEnv::Plain<u32> content[kBlocks];                 // of the blocks
  unsigned kept[kThreads][8] = {};                       // blocks
  int kept_from[kThreads] = {}, kept_to[kThreads] = {};  // which of them a thread still has

  HeapWorld() { memset(static_cast<void*>(strips), 0, sizeof(strips)); }

  void* at(u32 index) { return &strips[index - 1]; }
  u32 make(u32) { return made == kStrips ? 0 : ++made; }
  static uptr frame(u32 number) { return (number + 1) * kFrameSize; }
  uptr take_frames(std::size_t, std::size_t, u32 index, bool&) {
    return ++taken, frame(index - 1);
  }  // each has its own
  void give_frames(uptr address, std::size_t frames) {
    given += static_cast<u32>(frames);
    const uptr first = (address - frame(0)) / kFrameSize * in_frame;
    for (unsigned i = 0; i < in_frame; ++i) content[first + i].set(0);  // the next owner writes there
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
    model_check(given <= taken, "a frame goes back once");
  }
  void check_all_given() {
    model_check(given == taken, "what is free goes back");
    model_check(limit_word::held(heap.held.load_relaxed()) == 0, "what went back is held no more");
  }
  void check_list() {
    u32 say_so = 0, count = 0;
    for (u32 i = 0; i < made; ++i) say_so += strip::is_listed(strips[i].run.word.load_relaxed());
    for (u32 index = heap.strips.peek(); index != 0; index = strips[index - 1].run.link.load_relaxed()) {
      model_check(strip::is_listed(strips[index - 1].run.word.load_relaxed()), "what is in a list says so");
      model_check(++count <= kStrips, "a list ends");
    }
    model_check(count == say_so, "who says that it is listed is");
  }
};

}  // namespace freeway::model
