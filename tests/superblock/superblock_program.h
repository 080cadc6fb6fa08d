// SPDX-License-Identifier: MIT
// superblock_program.h: src/superblock/superblocks.h in the smallest world around it, and threads that follow scripts.
//
// World     three descriptors, two spans, class 1 with one bitmap word and class 2 with two. Each block has contents
//           that its owner writes to, so that a block in two hands, or a span given back or purged under a block's
//           owner, is a race
// Scripts   one letter an action. A *group* is some blocks of one bitmap word: what one free_group frees.
//             h hold           a adopt only                   g let go        c go on with the other class
//             n hold what lies in one of the spans, without its list
//             t take a block   T take up to 64                y take one at a random place
//             k take_one, as a thread without a slab          u, U refill: t, T of what is held, else of another one
//             f free the oldest group                         l free the newest one
//             x split the newest group: its first block, the rest
//             s send the oldest group                         r receive it
//             p purge what is held                            m trim
//             o go to the other NUMA node (programs without it have one)
//             d allocate a block without a slab (src/heap/direct.h)         e let go what that holds
//           in the setup also: 0 1 2 give the oldest group to that thread, A B C give it what is held
//           in mutants: P purge without holding, G let go as an earlier form of the protocol did
// Promises  checked by finish(): every descriptor is in one place; every block is free once or in one pair of hands;
//           when all is freed, every span has been given back; threads of each node find all that is listed, before
//           they say that there is no memory. With a thread stopped for ever: nothing is in two places, and what is out
//           of reach is one superblock at most. And by stepped(), after each write: superblock_invariant.h
#pragma once

#include <cstddef>
#include <cstring>
#include <new>

#include "heap/direct.h"
#include "superblock/superblocks.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/superblock/superblock_invariant.h"

namespace freeway::model {

constexpr u32 kSpans = 2;
constexpr u32 kMostBlocks = 68;
constexpr uptr kFirstSpan = 0x100000;
constexpr u32 kBlockBytes = 16;

constexpr SizeClass model_class(u32 blocks) {
  SizeClass k{};
  k.size = kBlockBytes;
  k.blocks = blocks;
  k.words = static_cast<u32>(ceil_div(blocks, 64));
  k.span_frames = 1;
  k.last_word = low_bits(blocks - (k.words - 1) * 64);
  return k;
}

struct ModelBacking {
  SizeClass classes[3];
  ModelEnv::Atomic<u32> made;
  ModelEnv::Atomic<u64> used;         // spans, as bits
  ModelEnv::Atomic<u32> map[kSpans];  // span -> descriptor
  ModelEnv::Plain<u32> content[kSpans][kMostBlocks];
  alignas(64) std::byte descriptors[kDescriptors + 1][256];
  unsigned class_of_span[kSpans] = {};
  unsigned nodes[4] = {};  // that threads are on, the constructor's and finish()'s first
  u32 latest = 0;          // descriptor asked for last, by the running thread: for the mutant "late span"

  const SizeClass& size_class(unsigned c) const { return classes[c]; }
  Descriptor<ModelEnv>& descriptor(u32 index) {
    static_assert(offsetof(Descriptor<ModelEnv>, words) + 2 * sizeof(ModelEnv::Atomic<u64>) <= 256);
    model_check(index >= 1 && index <= kDescriptors, "a descriptor that exists");
    latest = index;
    return *std::launder(reinterpret_cast<Descriptor<ModelEnv>*>(descriptors[index]));
  }

  u32 make_descriptor(unsigned c) {
    u32 index = made.fetch_add_relaxed(1) + 1;
    if (index > kDescriptors) return 0;
    descriptor(index).size_class.store_relaxed(c);
    return index;
  }

  uptr take_span(unsigned c, u32 d) {
    u64 seen = used.load_relaxed();
    while (seen != low_bits(kSpans)) {
      u32 span = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | (u64{1} << span))) continue;
      class_of_span[span] = c;
      touch(span, c);
      map[span].store_release(d);
      return kFirstSpan + span * kFrameSize;
    }
    return 0;
  }

  u32 descriptor_at(uptr address, unsigned c) {
    if (address - kFirstSpan >= kSpans * kFrameSize) return 0;
    const u32 d = map[(address - kFirstSpan) / kFrameSize].load_acquire();
    return d != 0 && descriptor(d).size_class.load_relaxed() == c ? d : 0;
  }

  void give_span(uptr address, unsigned c) {
    if (ModelEnv::mutant("late span")) address = descriptor(latest).span.load_relaxed();
    u32 span = span_index(address);
    touch(span, c);
    map[span].store_relaxed(0);
    u64 before = used.fetch_and_release(~(u64{1} << span));
    model_check((before >> span & 1) != 0, "a span is given back once");
  }

  unsigned& here() { return nodes[model_thread() + 1]; }
  unsigned node() { return here(); }

  static u32 span_index(uptr address) {
    u32 span = static_cast<u32>((address - kFirstSpan) / kFrameSize);
    model_check(address >= kFirstSpan && span < kSpans, "an address within a span");
    return span;
  }
  // Whoever has the span to himself may write all over it.
  void touch(u32 span, unsigned c) {
    for (u32 block = 0; block < classes[c].blocks; ++block) content[span][block].set(1);
  }
  bool purge(uptr address, std::size_t bytes) {
    const u32 span = span_index(address);
    u32 first = static_cast<u32>((address - kFirstSpan) % kFrameSize / kBlockBytes);
    for (u32 block = first; block < first + bytes / kBlockBytes && block < classes[class_of_span[span]].blocks; ++block)
      content[span][block].set(2);
    return true;
  }
};

struct Group {
  u32 d, span, word, c;
  u64 mask;
};

class Hands {  // what a thread owns
 public:
  void add(const Group& group) {
    model_check(to_ < kMost, "the script fits");
    groups_[to_++] = group;
  }
  bool any() const { return from_ < to_; }
  Group& newest() { return groups_[to_ - 1]; }
  Group remove() {
    model_check(any(), "the script gives what there is");
    return groups_[from_++];
  }
  Group remove_newest() { return groups_[--to_]; }
  template <class F> void each(F&& f) const {
    for (int i = from_; i < to_; ++i) f(groups_[i]);
  }
  u32 held = 0;

 private:
  static constexpr int kMost = 16;
  Group groups_[kMost] = {};
  int from_ = 0, to_ = 0;
};

struct SuperblockScript {
  u32 blocks;   // in a superblock of class 1
  u32 blocks2;  // of class 2
  const char* setup;
  const char* thread[3];

  unsigned nodes() const {
    for (const char* moves : {setup, thread[0], thread[1], thread[2]})
      if (std::strchr(moves, 'o') != nullptr) return 2;
    return 1;
  }
  bool is_direct() const {
    for (const char* moves : {setup, thread[0], thread[1], thread[2]})
      if (std::strchr(moves, 'd') != nullptr) return true;
    return false;
  }
};

struct SuperblockProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once

  SuperblockScript script;
  ModelBacking backing;
  Superblocks<ModelEnv, ModelBacking> heap;
  heap::DirectSuperblocks<ModelEnv, SuperblockProgram> direct;
  Hands hands[kThreads];
  Hands main;
  ModelEnv::Atomic<u32> mail;
  ModelEnv::Plain<u32> letter_seal;
  Group letter = {};

  explicit SuperblockProgram(SuperblockScript s);
  void thread(int id) { follow(script.thread[id], hands[id]); }
  void finish();
  // The invariant of the proof.
  const char* stepped(int id);
  // For direct.h: whoever takes a superblock off its shelf is the holder from then on.
  u32 hold(unsigned c) { return heap.hold(c); }
  void let_go(u32 d) {
    take_over(d);
    heap.let_go(d);
  }

 private:
  SuperblockGhost ghosts[kDescriptors + 1];
  SuperblockGhost::Place places_[kDescriptors + 1] = {};
  u32 purged[kThreads] = {};  // where a thread's next bits are put back, not freed

  void know();
  void find_places();
  void hand_over(const Group& group, int from, int to);
  void take_over(u32 d);
  void purge(u32 d);
  void follow(const char* moves, Hands& mine);
  void act(char move, Hands& mine, unsigned& c);
  void refill(Hands& mine, unsigned c, unsigned want);
  void allocate_direct(Hands& mine, unsigned c);
  void received(Hands& mine, u32 d, void* const* blocks, unsigned count);
  void release(const Group& group);
  void purge_without_holding(u32 span);
  void let_go_after_one_scan(u32 d, Hands& mine);
  void count_places(int (&places)[kDescriptors + 1]);
  void check_blocks(const int (&places)[kDescriptors + 1]);
  void check_reach();
  void drain();
};

}  // namespace freeway::model
