// SPDX-License-Identifier: MIT
//
// heap_program.h: HMalloc's heaps in the smallest world around them, and threads that follow scripts.
//
// World     six heaps; one size class with superblocks of two blocks (or one), cache lists of one block; local
//           superblocks of five blocks. Each block has contents that its owner writes to, so that a block in two hands,
//           or a superblock given back under a block's user, is a race
// Scripts   one letter an action:
//             j join: get a heap       e end: leave it          w walk over all heaps
//             m malloc (shared)        f free the oldest block  F free it without touching a heap: its flag
//             s send the oldest block  r receive one
//             l malloc, local          d free the oldest local block; after e: late
//             t trim the own heap      T trim the heaps of ended threads
//           in the setup, done by one thread after the other, "j…A" gives heap and blocks to the first thread, B and C
//           to the others; a digit gives the oldest block to that thread
// Promises  checked by finish(): each heap is in one place; each block is free, cached, or in one pair of hands, and
//           what a thread has is nobody else's; with all blocks freed, all superblocks are given back. With a thread
//           stopped for ever: no block is in two hands; out of reach are at most one heap with its superblocks, and of
//           others the blocks that the thread has, in its list, too, and one in its hands, and one superblock in its
//           hands; while it trims others' heaps, those
#ifndef FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_PROGRAM_H
#define FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_PROGRAM_H

#include <cstring>
#include <utility>

#include "papers/hmalloc/heaps.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::hmalloc {

using model::model_check;
using model::model_name;
using model::model_observe;
using model::ModelEnv;

template <unsigned kBlocks> struct ModelSizes {
  static constexpr bool kPaperLayout = false;
  static constexpr std::size_t kFirst = 512, kLater = 512;
  static constexpr std::size_t kLine = 256 / kBlocks;  // the header of a superblock takes 256 bytes here
  static constexpr std::size_t kFlagArea = 16, kLocalStep = 16;
  static constexpr std::size_t kSharedLimit = 2 * kLine;
  static constexpr u32 kCacheLimit = 1;
  static constexpr unsigned kClasses = 1;
};

template <unsigned kBlocks> struct HeapProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  static constexpr u32 kHeaps = 6, kSpans = 4, kLocalSpans = 3;
  static constexpr std::size_t kLocalBytes = 48;

  using S = ModelSizes<kBlocks>;
  using Heap = ThreadHeap<ModelEnv, S, HeapProgram>;
  using Local = typename Heap::Local;
  using Shared = typename Heap::Shared;
  using Content = ModelEnv::Plain<u32>;

  struct Queue {
    uptr blocks[8];
    int from, to;
    void add(uptr block) {
      model_check(to < 8, "the script fits");
      blocks[to++] = block;
    }
    uptr oldest() { return from < to ? blocks[from++] : 0; }
  };
  struct Hands {
    Heap* heap;
    Heap* former;
    Queue shared, local;
  };

  const char* script[kThreads];
  Heaps<ModelEnv, S, HeapProgram> heaps;
  Heap heap_memory[kHeaps];
  ModelEnv::Atomic<u32> made;
  ModelEnv::Atomic<u64> used, local_used;  // spans, as bits
  ModelEnv::Atomic<u32> mail;              // 0 empty, 1 being filled, 2 full, 3 being emptied
  uptr letter;
  Hands hands[kThreads];
  alignas(512) std::byte memory[kSpans][512];
  alignas(512) std::byte local_memory[kLocalSpans][512];

  HeapProgram(const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    model_name(heaps, "heaps");
    model_name(memory, "shared");
    model_name(local_memory, "local");
    model_name(heap_memory, "heap");
    model_name(mail, "mail");
    Hands main{};
    for (const char* move = setup; *move != 0; ++move) {
      if (*move >= '0' && *move <= '2') hands[*move - '0'].shared.add(main.shared.oldest());
      else if (*move >= 'A' && *move <= 'C') give_all(main, hands[*move - 'A']);
      else act(*move, main);
    }
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) act(*move, hands[id]);
  }

  // --- Source --------------------------------------------------------------------------------------------------------

  uptr take(Kind kind) {
    auto& bits = is_local(kind) ? local_used : used;
    const u32 spans = is_local(kind) ? kLocalSpans : kSpans;
    for (u64 seen = bits.load_relaxed(); seen != low_bits(spans);) {
      const u32 span = lowest_bit(~seen);
      if (!bits.cas_acquire(seen, seen | (u64{1} << span))) continue;
      const uptr address = is_local(kind) ? at(local_memory[span]) : at(memory[span]);
      touch(address, kind);
      return address;
    }
    return 0;
  }
  void give(uptr address, Kind kind) {
    touch(address, kind);
    auto& bits = is_local(kind) ? local_used : used;
    const u64 bit = u64{1} << ((address - (is_local(kind) ? at(local_memory[0]) : at(memory[0]))) / 512);
    model_check((bits.fetch_and_release(~bit) & bit) != 0, "a superblock is given back once");
  }
  static std::size_t page() { return kBlocks == 2 ? 128 : 4096; }
  // What is purged is the owner's: contents of free blocks.
  void purge(uptr address, std::size_t bytes) {
    for (uptr block = address; block < address + bytes; block += S::kLine) content(block + S::kFlagArea).set(4);
  }
  Local* local_of(uptr address) { return reinterpret_cast<Local*>(align_down(address, 512)); }
  Shared& shared_of(uptr address) { return *reinterpret_cast<Shared*>(align_down(address, 512)); }
  void freed_twice(uptr) { model_check(false, "a block was freed once"); }
  Heap* heap(u32 index) { return &heap_memory[index - 1]; }
  u32 make_heap() {
    const u32 index = made.fetch_add_relaxed(1) + 1;
    model_check(index <= kHeaps, "the heaps suffice");
    return index;
  }

  // --- The end -------------------------------------------------------------------------------------------------------

  void finish() {
    check_hands();
    if (model::model_stalled() < 0) {
      check_heaps();
      check_blocks();
    }
    model_observe(used.load_relaxed());
    for (const Hands& each : hands) {
      model_observe(each.heap == nullptr ? 0 : each.heap->index());
      for (int i = each.shared.from; i < each.shared.to; ++i) model_observe(each.shared.blocks[i] - at(memory[0]));
    }
    if (model::model_stalled() < 0) drain();
    else if (std::strchr(script[model::model_stalled()], 'T') == nullptr)
      check_what_is_out_of_reach(hands[model::model_stalled()]);
  }

 private:
  static uptr at(const std::byte* memory_of_span) { return reinterpret_cast<uptr>(memory_of_span); }
  Content& content(uptr user) { return *reinterpret_cast<Content*>(user + 16); }  // behind a late free's link

  // Whoever has the superblock to himself may write all over it.
  void touch(uptr address, Kind kind) {
    const std::size_t step = is_local(kind) ? kLocalBytes : S::kLine;
    const uptr start = address + 256 + (is_local(kind) ? 0 : S::kFlagArea);
    for (uptr user = start; user + 32 <= address + 512; user += step) content(user).set(1);
  }

  static void give_all(Hands& from, Hands& to) {
    to.heap = std::exchange(from.heap, nullptr);
    while (uptr block = from.shared.oldest()) to.shared.add(block);
    while (uptr block = from.local.oldest()) to.local.add(block);
  }

  void act(char move, Hands& mine) {
    switch (move) {
      case 'j': mine.heap = heaps.join(*this); break;
      case 'e':
        mine.former = mine.heap;
        heaps.leave(*this, std::exchange(mine.heap, nullptr));
        if (ModelEnv::mutant("late touch")) mine.former->empty_caches();
        break;
      case 'w': {
        bool found = false;
        heaps.each(*this, [&](Heap& each) { found |= &each == mine.heap; });
        model_check(found, "a walk meets the own heap");
        break;
      }
      case 'm':
        if (const uptr block = mine.heap->allocate_shared(S::kLine - S::kFlagArea)) {
          content(block).set(2);
          mine.shared.add(block);
        }
        break;
      case 'f': release(mine.heap, mine.shared.oldest()); break;
      case 'F': release(nullptr, mine.shared.oldest()); break;
      case 'l':
        if (const uptr block = mine.heap->allocate_local(kLocalBytes)) {
          content(block).set(2);
          mine.local.add(block);
        }
        break;
      case 'd': release_local(mine, mine.local.oldest()); break;
      case 's':
        if (u32 empty = 0; mine.shared.from < mine.shared.to && mail.cas_acquire(empty, 1)) {
          letter = mine.shared.oldest();
          mail.store_release(2);
        }
        break;
      case 'r':
        if (u32 full = 2; mail.cas_acquire(full, 3)) {
          mine.shared.add(std::exchange(letter, 0));
          mail.store_release(0);
        }
        break;
      case 't':
        mine.heap->empty_caches();
        mine.heap->trim();
        break;
      case 'T':
        heaps.each_ended(*this, [](Heap& heap) { heap.empty_caches(); }, [](Heap& heap) { heap.trim(); });
        break;
      default: model_check(false, "a letter that means something");
    }
  }

  void release(Heap* mine, uptr block) {
    if (block == 0) return;
    content(block).set(3);
    model_check(Heap::free_shared(mine, shared_of(block), block) == Freed::kYes, "who has a block may free it");
  }
  void release_local(Hands& mine, uptr block) {
    if (block == 0) return;
    content(block).set(3);
    Local& sb = *local_of(block);
    if (mine.heap == nullptr && ModelEnv::mutant("freed as owner")) {
      Heap::free_local(sb, block);
    } else if (mine.heap != nullptr) {
      model_check(mine.heap->index() == sb.heap.get(), "the owner frees its local block");
      model_check(Heap::free_local(sb, block) == Freed::kYes, "who has a local block may free it");
    } else {
      model_check(sb.is_live(block), "the block of a thread that is past is live");
      mine.former->free_late(block);
    }
  }

  // What threads have is theirs alone, and looks so.
  void check_hands() {
    uptr seen[24];
    int count = 0;
    auto check = [&](uptr block) {
      for (int i = 0; i < count; ++i) model_check(seen[i] != block, "a block is in one pair of hands");
      seen[count++] = block;
      model_check(shared_of(block).handed_out_at(block - S::kFlagArea, block), "a block in use is occupied");
    };
    for (const Hands& each : hands)
      for (int i = each.shared.from; i < each.shared.to; ++i) check(each.shared.blocks[i]);
    if (letter != 0) check(letter);
  }

  void check_heaps() {
    int places[kHeaps + 1] = {};
    heaps.each_ended(*this, [&](Heap& each) { ++places[each.index()]; }, [](Heap&) {});
    for (const Hands& each : hands)
      if (each.heap != nullptr) ++places[each.heap->index()];
    for (u32 index = 1; index <= made.load_relaxed(); ++index)
      model_check(places[index] == 1, "a heap is in one place");
  }

  // Each block of each superblock is vacant, free, in a list, or in somebody's hands; none is lost.
  void check_blocks() {
    u32 in_use = 0, cached = 0, in_lists = 0, in_hands = letter != 0;
    for (const Hands& each : hands) in_hands += static_cast<u32>(each.shared.to - each.shared.from);
    heaps.each(*this, [&](Heap& each) {
      in_lists += each.cached(0);
      each.each_superblock([&](const auto& sb) {
        if constexpr (requires { sb.object_size; })
          sb.each_used([&](uptr, u64 flag) {
            in_use += Flag<S>::is_occupied(flag);
            cached += Flag<S>::is_cached(flag);
            return true;
          });
      });
    });
    model_check(in_use == in_hands, "a block that is in use is in somebody's hands");
    model_check(cached == in_lists, "a cached block is in a list");
  }

  void check_what_is_out_of_reach(const Hands& stopped) {
    u32 reachable = 0;  // heaps, as bits
    for (Hands& each : hands) {
      if (&each == &stopped) continue;
      while (uptr block = each.shared.oldest()) release(nullptr, block);
      if (each.heap == nullptr) continue;
      reachable |= u32{1} << each.heap->index();
      each.heap->empty_caches();
    }
    if (mail.load_relaxed() == 2) release(nullptr, letter);
    heaps.each_ended(
        *this,
        [&](Heap& heap) {
          reachable |= u32{1} << heap.index();
          heap.empty_caches();
        },
        [](Heap& heap) { heap.trim(); });
    for (Hands& each : hands)
      if (&each != &stopped && each.heap != nullptr) each.heap->trim();
    model_check(made.load_relaxed() - popcount(reachable) <= 1, "one heap at most is out of reach");
    u64 found = 0;
    u32 in_use = 0;
    for (u32 index = 1; index <= made.load_relaxed(); ++index)
      if ((reachable >> index & 1) != 0)
        heap(index)->each_superblock([&](const auto& sb) {
          if constexpr (requires { sb.object_size; }) {
            found |= u64{1} << ((reinterpret_cast<uptr>(&sb) - at(memory[0])) / 512);
            in_use += sb.occupied();
          }
        });
    const u32 cached = stopped.heap == nullptr ? 0 : stopped.heap->cached(0);
    model_check(in_use <= static_cast<u32>(stopped.shared.to - stopped.shared.from) + cached + 1,
                "of reachable superblocks only what the stopped thread has stays in use");
    u32 in_hand = 0;
    for (u32 span = 0; span < kSpans; ++span)
      if ((used.load_relaxed() & ~found) >> span & 1)
        in_hand += (reachable >> reinterpret_cast<Shared*>(memory[span])->heap.get() & 1) != 0;
    model_check(in_hand <= 1, "one superblock at most is in the stopped thread's hands");
  }

  void drain() {
    for (Hands& each : hands) {
      while (uptr block = each.shared.oldest()) release(nullptr, block);
      while (uptr block = each.local.oldest())
        model_check(Heap::free_local(*local_of(block), block) == Freed::kYes, "a local block was live");
    }
    if (letter != 0) release(nullptr, letter);
    heaps.each(*this, [](Heap& each) { each.empty_caches(); });
    heaps.each(*this, [](Heap& each) { each.trim(); });
    model_check(used.load_relaxed() == 0, "all superblocks are given back in the end");
    model_check(local_used.load_relaxed() == 0, "all local superblocks are given back in the end");
  }
};

template <unsigned kBlocks = 2>
model::Scenario heap_scenario(const char* name, const char* setup, const char* first, const char* second,
                              const char* third = "") {
  std::string full = std::string(name) + ": " + setup + ": " + first + " | " + second + (*third ? " | " : "") + third;
  return {full, model::program_type<HeapProgram<kBlocks>>(setup, first, second, third)};
}

}  // namespace freeway::hmalloc

#endif  // FREEWAY_TESTS_ENGINES_HMALLOC_HEAP_PROGRAM_H
