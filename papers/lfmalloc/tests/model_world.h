// SPDX-License-Identifier: MIT
// model_world.h: LFMalloc's allocator.h, global_heap.h and protection.h in the smallest world around them, and threads
// that follow scripts.
//
// World     four headers, three superblocks' memory, two size classes of a few blocks each, two local heaps. Each block
// has
//           contents that its owner writes to, so that a block in two hands, or memory cut anew or given away under a
//           block's owner, is a race
// Heaps     *sections*: each heap is a CPU's. A restartable section is one atomic step on its CPU's heap: one RMW on
// the
//           CPU's `turn`, and then everything it does without a choice in between. What is interrupted within one
//           starts again, so nothing else can be seen. Local words and links are plain: whoever touches them without
//           having run on that CPU since, or holding the superblock, is a race *cas*: both heaps under CAS, any thread
//           in either *mixed*: heap 0 is a CPU's, and one thread is alone on that CPU; heap 1 is under CAS (threads
//           without rseq)
// Scripts   one letter an action: m malloc   f free the oldest block   c go on with the other class   s send, r receive
// a
//           block   t trim   < > go to heap 0, 1   w wander: from here on it may find itself on the other heap, once
//           d free the oldest block as the paper prints it (a mutant)
//           in the setup also: 0 1 2 give the oldest block to that thread
// Promises  checked by finish(): every header is in one place; every block is free once, or in one pair of hands; what
// has
//           free blocks is listed or on line, nothing else is; when all is freed, all memory can be given back. With a
//           thread stopped for ever: nothing is in two places, and one superblock at most is out of reach
#pragma once

#include "papers/lfmalloc/allocator.h"
#include "papers/lfmalloc/protection.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::lfmalloc::test {

using namespace freeway::model;

constexpr u32 kHeaders = 4;
constexpr u32 kFrames = 3;
constexpr uptr kFirstFrame = 0x100000;
constexpr u32 kMostBlocks = 4;

// A word that only those touch who have the superblock, or the heap, to themselves: a plain one, with an Atomic's
// names.
template <class T> class PlainWord {
 public:
  T load_relaxed() const { return value_.get(); }
  T load_acquire() const { return value_.get(); }
  void store_relaxed(T value) { value_.set(value); }
  void store_release(T value) { value_.set(value); }
  bool cas_acquire(T& expected, T desired) {
    if (value_.get() == expected) {
      value_.set(desired);
      return true;
    }
    expected = value_.get();
    return false;
  }

 private:
  ModelEnv::Plain<T> value_;
};

inline void* links_of_program = nullptr;  // kFrames * (kMostBlocks + 1) words

inline u32 frame_of(uptr address) {
  const u32 frame = static_cast<u32>((address - kFirstFrame) / kSuperblockBytes);
  model_check(address >= kFirstFrame && frame < kFrames, "an address within a superblock");
  return frame;
}

struct SectionEnv : ModelEnv {
  static constexpr bool kAtomicLocals = false;
  template <class T> using Local = PlainWord<T>;
  static Local<u64>& link(uptr block) {
    return static_cast<Local<u64>*>(links_of_program)[frame_of(block) * (kMostBlocks + 1) + unit_of(block)];
  }
};

struct CasEnv : ModelEnv {
  static constexpr bool kAtomicLocals = true;
  template <class T> using Local = ModelEnv::Atomic<T>;
  static Local<u64>& link(uptr block) {
    // Who comes too late may look at another superblock's memory, or where no block begins: his CAS fails.
    const u32 unit = unit_of(block) <= kMostBlocks ? unit_of(block) : 0;
    return static_cast<Local<u64>*>(links_of_program)[frame_of(block) * (kMostBlocks + 1) + unit];
  }
  static u64 link_unowned(uptr block) { return link(block).load_relaxed(); }
};

template <class Env> struct ModelMemory {
  Superblock<Env> headers[kHeaders + 1];
  ModelEnv::Atomic<u32> made;
  ModelEnv::Atomic<u64> used;          // superblocks' memory, as bits
  ModelEnv::Atomic<u32> map[kFrames];  // -> header
  ModelEnv::Plain<u32> content[kFrames][kMostBlocks];
  u32 blocks_of[2] = {};

  Superblock<Env>& at(u32 index) {
    model_check(index >= 1 && index <= kHeaders, "a header that exists");
    return headers[index];
  }
  static constexpr unsigned classes() { return 2; }
  static constexpr u32 most_swept() { return 2; }
  u32 blocks(unsigned c) const { return blocks_of[c]; }
  static u32 stride(unsigned) { return 16; }
  void cut_prefix(u32, uptr block) { content[frame_of(block)][unit_of(block) - 1].set(1); }

  u32 make_header() {
    const u32 index = made.fetch_add_relaxed(1) + 1;
    if (index > kHeaders) return 0;
    headers[index].index.store_relaxed(index);
    return index;
  }
  uptr take_memory(u32 index) {
    u64 seen = used.load_relaxed();
    while (seen != low_bits(kFrames)) {
      const u32 frame = lowest_bit(~seen);
      if (!used.cas_acquire(seen, seen | u64{1} << frame)) continue;
      map[frame].store_relaxed(index);
      return kFirstFrame + frame * kSuperblockBytes;
    }
    return 0;
  }
  void give_memory(uptr base) {
    const u32 frame = frame_of(base);
    for (auto& block : content[frame]) block.set(2);
    map[frame].store_relaxed(0);
    model_check((used.fetch_and_release(~(u64{1} << frame)) >> frame & 1) != 0, "memory is given away once");
  }
  bool rename(uptr base, u32 index) {
    map[frame_of(base)].store_relaxed(index);
    return true;
  }
};

enum class Kind { kSections, kCas, kMixed };

// Both local heaps, and what a thread sees of them.
template <class Env> struct ModelHeaps {
  LocalHeap<Env> heaps[2];
  ModelEnv::Atomic<u64> turn[2];
  Kind kind = Kind::kSections;
};

template <class Env> class View {
 public:
  using Block = Superblock<Env>;
  u32 here = 0;
  int moves = 0;  // how often it may still be moved to the other heap, between any two sections
  ModelHeaps<Env>* all = nullptr;

  Popped<Env> pop(unsigned c) {
    const Section section(*this);
    if constexpr (Env::kAtomicLocals)
      if (!is_cpu()) return ByCas<Env>::pop(heap(), c);
    return alone::pop(heap(), c);
  }
  bool push(unsigned c, Block* s, uptr block) {
    if (Env::mutant("local outside")) {  // whether the block is local is found out in a section of its own
      {
        const Section first(*this);
        if (heap().online[c].load_relaxed() != s) return false;
      }
      const Section second(*this);
      const u64 list = s->local.load_relaxed();
      Env::link(block).store_relaxed(local::head(list));
      s->local.store_relaxed(local::pushed(list, unit_of(block)));
      return true;
    }
    const Section section(*this);
    if constexpr (Env::kAtomicLocals)
      if (!is_cpu()) return ByCas<Env>::push(heap(), c, s, block);
    return alone::push(heap(), c, s, block);
  }
  bool install(unsigned c, Block* expected, Block* fresh) {
    const Section section(*this);
    if constexpr (Env::kAtomicLocals)
      if (!is_cpu()) return ByCas<Env>::install(heap(), c, expected, fresh) == expected;
    return alone::install(heap(), c, expected, fresh) == expected;
  }
  Block* online(unsigned c) {
    const Section section(*this);
    return heap().online[c].load_relaxed();
  }

 private:
  // From here on to its end there is no choice, if the heap is a CPU's.
  class Section {
   public:
    explicit Section(View& view) : step_(view.all->kind == Kind::kSections) {
      if (view.moves > 0 && model_choose(2) == 1) {
        view.here = 1 - view.here;
        --view.moves;
      }
      if (step_) view.all->turn[view.here].fetch_add_acq_rel(1);
    }
    ~Section() {
      if (step_) model_end_of_step();
    }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    bool step_;
  };

  bool is_cpu() const { return all->kind == Kind::kSections || (all->kind == Kind::kMixed && here == 0); }
  LocalHeap<Env>& heap() { return all->heaps[here]; }
};

struct Script {
  Kind kind;
  u32 blocks[2];  // in a superblock of each class
  u32 limit;      // entirely free superblocks to keep
  const char* setup;
  const char* thread[3];
};

struct Held {
  uptr block;
  u32 d;
  unsigned c;
};

struct Hands {
  static constexpr int kMost = 16;
  Held held[kMost] = {};
  int from = 0, to = 0;
  unsigned c = 0;
  bool any() const { return from < to; }
  void add(const Held& one) {
    model_check(to < kMost, "the script fits");
    held[to++] = one;
  }
  Held remove() { return held[from++]; }
};

template <class Env> struct Program {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  using Global = GlobalHeap<Env, ModelMemory<Env>, RemoteByCas, LockFreeList>;
  using Word = typename Env::template Local<u64>;

  Script script;
  ModelMemory<Env> memory;
  ModelHeaps<Env> heaps;
  Global global;
  Word links[kFrames * (kMostBlocks + 1)];
  View<Env> view[kThreads + 1];
  Allocator<Env, View<Env>, Global> allocator[kThreads + 1];
  Hands hands[kThreads + 1];
  ModelEnv::Atomic<u32> mail;
  Held letter = {};

  explicit Program(Script s);
  void thread(int id) { follow(script.thread[id], id); }
  void finish();

 private:
  void follow(const char* moves, int id);
  void act(char move, int id);
  void allocate(int id);
  void release(int id, const Held& one);
  void release_as_printed(const Held& one);
  void count_places(int (&places)[kHeaders + 1]);
  void check_superblock(u32 d, const u64 (&owned)[kFrames]);
  u64 walk(u32 d, u32 head, u32 count);
  void drain();
};

extern template struct Program<SectionEnv>;
extern template struct Program<CasEnv>;

}  // namespace freeway::lfmalloc::test
