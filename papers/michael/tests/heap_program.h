// SPDX-License-Identifier: MIT
// heap_program.h: papers/michael/proc_heap.h in the smallest world around it, and threads that follow scripts.
//
// World     up to four descriptors, three superblocks of two to four blocks, two processor heaps of one size class.
//           Each block has contents that its owner writes to, so that a block in two hands, or a superblock given back
//           under a block's owner, is a race; a descriptor's plain fields do the same for descriptors
// Scripts   one letter an action.
//             m malloc         f free the oldest block   F free the newest one   h go on with the other heap
//             t trim the heap  s send the oldest block   r receive it
//           in the setup also: 0 1 2 give the oldest block to that thread
// Promises  checked by finish(): each block is free, reserved or in one pair of hands; each descriptor is in the one
//           place that its state says; when all is freed and trimmed, every superblock and every descriptor has come
//           back. With a thread stopped for ever: nothing is in two places, and one superblock at most is out of reach
#pragma once

#include "papers/michael/proc_heap.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {

using michael::Descriptor;
using michael::Heaps;
using michael::ListKind;
using michael::Policy;
using michael::ProcHeap;
using michael::SizeClass;

constexpr u32 kDescriptors = 4;
constexpr u32 kDummy = kDescriptors + 1;  // index of the list's first node
constexpr u32 kSuperblocks = 3;
constexpr u32 kMostBlocks = 4;
constexpr u32 kBlockBytes = 16;
static_assert(sizeof(ModelEnv::Atomic<u64>) == kBlockBytes,
              "a block is its first word, and the room it takes in the model");

struct ModelLevel {
  u32 maxcount = 0;
  Descriptor<ModelEnv> descriptors[kDescriptors + 2];
  ModelEnv::Atomic<u32> idle;  // descriptors without a superblock, as bits
  ModelEnv::Atomic<u32> used;  // superblocks, as bits
  ModelEnv::Atomic<u64> memory[kSuperblocks][kMostBlocks];
  ModelEnv::Plain<u32> content[kSuperblocks][kMostBlocks];

  auto nodes() {
    return [this](u32 index) -> Descriptor<ModelEnv>& {
      model_check(index >= 1 && index <= kDummy, "a node that exists");
      return descriptors[index];
    };
  }
  Descriptor<ModelEnv>* desc_alloc() {
    u32 seen = idle.load_relaxed();
    while (seen != 0)
      if (idle.cas_acquire(seen, seen & (seen - 1))) return &descriptors[lowest_bit(seen)];
    return nullptr;
  }
  void desc_retire(Descriptor<ModelEnv>* desc) {
    const u64 anchor = desc->anchor.load_relaxed();
    model_check(anchor == 0 || michael::anchor::state(anchor) == michael::anchor::kEmpty,
                "a descriptor is retired EMPTY, or new");
    const u32 bit = u32{1} << desc->self.get();
    model_check((idle.fetch_or_release(bit) & bit) == 0, "a descriptor is retired once");
  }
  uptr alloc_sb(Descriptor<ModelEnv>&, const SizeClass<ModelEnv>&) {
    u32 seen = used.load_relaxed();
    while (seen != low_bits(kSuperblocks)) {
      const u32 sb = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u32{1} << sb)) continue;
      touch(sb);
      return reinterpret_cast<uptr>(memory[sb]);
    }
    return 0;
  }
  void free_sb(uptr address, Descriptor<ModelEnv>&) {
    const u32 sb = place(address).first;
    touch(sb);
    const u32 bit = u32{1} << sb;
    model_check((used.fetch_and_release(~bit) & bit) != 0, "a superblock is given back once");
  }
  // Whoever has the superblock to himself may write all over it.
  void touch(u32 sb) {
    for (u32 i = 0; i < maxcount; ++i) content[sb][i].set(1);
  }

  struct Place {
    u32 first, index;
  };
  Place place(uptr block) {
    const uptr offset = block - reinterpret_cast<uptr>(memory);
    model_check(offset < sizeof(memory) && offset % kBlockBytes == 0, "an address that is a block's");
    return {static_cast<u32>(offset / sizeof(memory[0])), static_cast<u32>(offset % sizeof(memory[0]) / kBlockBytes)};
  }
};

class Blocks {  // in a thread's hands
 public:
  void add(uptr block) {
    model_check(to_ < kMost, "the script fits");
    blocks_[to_++] = block;
  }
  bool any() const { return from_ < to_; }
  uptr oldest() { return blocks_[from_++]; }
  uptr newest() { return blocks_[--to_]; }
  template <class F> void each(F&& f) const {
    for (int i = from_; i < to_; ++i) f(blocks_[i]);
  }

 private:
  static constexpr int kMost = 12;
  uptr blocks_[kMost] = {};
  int from_ = 0, to_ = 0;
};

struct HeapScript {
  u32 maxcount;
  Policy policy;
  ListKind list;
  const char* setup;
  const char* thread[3];
};

struct HeapProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once

  HeapScript script;
  ModelLevel level;
  SizeClass<ModelEnv> sc;
  ProcHeap<ModelEnv> heap[2];
  Heaps<ModelEnv, ModelLevel> heaps;
  Blocks hands[kThreads], main;
  ModelEnv::Atomic<u64> mail;

  explicit HeapProgram(HeapScript s);
  void thread(int id) { follow(script.thread[id], hands[id]); }
  void finish();

 private:
  void follow(const char* moves, Blocks& mine);
  void act(char move, Blocks& mine, unsigned& h);
  void release(uptr block);
  void count_places(int (&places)[kDescriptors + 1]);
  void check_blocks(const int (&places)[kDescriptors + 1]);
  void drain();
  u32 reserved_in_active(const Descriptor<ModelEnv>& desc);
};

// The scenarios, chosen by hand (heap_scenarios.cc). `limit`: executions of each one; 0 = all of them.
std::vector<Scenario> heap_scenarios(std::uint64_t limit = 0);
// How a pop is fooled by an anchor without a tag: the counts must come out as they were, too.
std::vector<Scenario> heap_aba_scenarios();
// What is removed from a list was made EMPTY by another thread.
std::vector<Scenario> heap_removal_scenarios();
std::vector<Scenario> heap_long_scenarios();  // with three threads: minutes
// Every pair of threads' scripts in every situation, for one policy; every three.
std::vector<Scenario> heap_pairs(const Policy& policy, ListKind list);
std::vector<Scenario> heap_triples();

}  // namespace freeway::model
