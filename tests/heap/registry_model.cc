// SPDX-License-Identifier: MIT
// heap_registry_model.cc: src/heap/registry.h, and give_all of src/heap/strips.h: heaps that threads make, use, destroy
// and walk, and the records that one heap's end leaves to the next.
//
// Promises  of threads that destroy a heap one does; each life of a record has a handle of its own, and a handle whose
//           heap is gone finds none; a record, a run and a frame are in one heap, or spare, or in one pair of hands; a
//           walk sees what the maker wrote. A thread that stops for ever takes with it: the heap's record, if it makes
//           or destroys one; of a heap that it destroys what it has not given back; the run that it has in hand, until
//           its heap is destroyed, and that run's frame
// Bounds    2 or 3 threads of up to 4 moves; weak memory, source-DPOR, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "heap/registry.h"
#include "heap/strips.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: c makes a heap; u adds a large block to the heap that the thread made last, or else to the common one; f
// frees that; d destroys the heap that it made last; D the common one, which the setup has made; s asks for a heap
// whose handle is old; w walks all heaps; r walks all blocks of the common one.
struct RegistryProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kMost = 4, kRuns = 4;
  static constexpr unsigned kHandles = 16;

  struct Heap : heap::Record<ModelEnv> {
    ModelEnv::Plain<u32> hands;     // written by the thread that makes it, and by the one that destroys it
    ModelEnv::Atomic<u64> written;  // which life its maker has begun
  };
  // What a heap is made of.
  struct Frames {
    heap::Run<ModelEnv> runs[kRuns];
    ModelEnv::Plain<u32> frame[kRuns];
    ModelEnv::Atomic<u32> made, taken, given;
    bool refuses = false;

    void* at(u32 index) { return &runs[index - 1]; }
    u32 make(u32) {
      const u32 index = refuses ? 0 : made.fetch_add_relaxed(1) + 1;
      model_check(index <= kRuns, "there are runs for all");
      return index;
    }
    static uptr address_of(u32 number) { return (number + 1) * kFrameSize; }
    uptr take_frames(std::size_t, std::size_t, u32, bool&) {
      const u32 number = taken.fetch_add_relaxed(1);
      model_check(number < kRuns, "there are frames for all");
      frame[number].set(1);
      return address_of(number);
    }
    void give_frames(uptr address, std::size_t) {
      auto& of = frame[address / kFrameSize - 1];
      model_check(of.get() == 1, "a frame goes back once");
      of.set(2);
      given.fetch_add_relaxed(1);
    }
  };

  const char* script[kThreads];
  Heap heaps[kMost];
  ModelEnv::Atomic<u32> made;
  bool refuses = false;
  heap::Registry<ModelEnv, Heap, RegistryProgram> registry;
  Frames frames;
  heap::Strips<ModelEnv, Frames> strips;
  u64 common, old;
  u64 mine[kThreads] = {}, handles[kHandles] = {};
  unsigned issued = 0, destroyed[kThreads] = {};
  heap::Run<ModelEnv>* block[kThreads] = {};
  char doing[kThreads] = {};  // the move that the thread is in

  RegistryProgram(const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    strips.init(&frames);
    old = create();
    destroy(old);
    common = create();
    model_check(common != old, "each life has a handle of its own");
    for (; *setup != 0; ++setup) act(0, *setup);
    doing[0] = 0;
    model_name(registry, "registry");
    for (u32 i = 0; i < kMost; ++i) model_name(heaps[i].handle, "handle", static_cast<int>(i));
  }

  Heap& at(u32 index) { return heaps[index - 1]; }
  u32 make_record() {
    if (refuses) return 0;
    const u32 index = made.fetch_add_relaxed(1) + 1;
    model_check(index <= kMost, "there are records for all");
    at(index).self.store_relaxed(index);
    return index;
  }

  u64 create() {
    const u64 handle = registry.create(*this, [](Heap& heap) {
      heap.hands.set(1);
      heap.held.store_relaxed(0);
      heap.written.store_relaxed(heap.lives.load_relaxed() + 1);
    });
    if (handle == 0) return 0;
    for (unsigned i = 0; i < issued; ++i) model_check(handles[i] != handle, "each life has a handle of its own");
    model_check(issued < kHandles, "handles fit");
    return handles[issued++] = handle;
  }
  bool destroy(u64 handle) {
    return registry.destroy(*this, handle, {Claimant::name(1, 1), Claimant::name(1, 1)}, [this](Heap& heap) {
      heap.hands.set(2);
      strips.give_all(heap, [](auto&) {});
      heap.hands.set(3);
    });
  }
  void use(int id, u64 handle) {
    Heap* heap = registry.find(handle);
    model_check(heap != nullptr, "a heap that lives is found");
    bool zero;
    block[id] = strips.make_whole(*heap, 1, 1, zero);
    model_check(block[id] != nullptr, "there is memory");
  }
  void walk() {
    u64 before[kMost];
    for (u32 i = 0; i < kMost; ++i) before[i] = heaps[i].handle.load_relaxed();
    registry.each(*this, [&](Heap& heap) {
      model_check(heap.self.load_relaxed() != 0, "what a walk finds has been made");
      model_check(heap.written.load_relaxed() >= life_of(before[&heap - heaps]), "a walk sees what the maker wrote");
    });
  }
  static u64 life_of(u64 handle) { return handle - heap::record_of(handle); }  // lives are few

  void act(int id, char move) {
    doing[id] = move;
    if (move == 'c') mine[id] = create();
    if (move == 'u') use(id, mine[id] != 0 ? mine[id] : common);
    if (move == 'f') model_check(strips.free_whole(strips.heap_of(*block[id]), *block[id]), "a block is freed once");
    if (move == 'd') model_check(destroy(std::exchange(mine[id], 0)), "a heap of one's own is destroyed");
    if (move == 'D') destroyed[id] += destroy(common);
    if (move == 's') model_check(registry.find(old) == nullptr && !destroy(old), "an old handle finds no heap");
    if (move == 'w') walk();
    if (move == 'r')
      strips.each_run(*registry.find(common), [&](auto& run) {
        model_check(run.heap.load_relaxed() == reinterpret_cast<u64>(registry.find(common)),
                    "what a walk finds is its heap's");
      });
    doing[id] = 0;
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) act(id, *move);
  }

  // How many records are spare: as many as can be had without memory.
  u32 spare_records(u32& live) {
    refuses = true;
    live = 0;
    for (unsigned i = 0; i < issued; ++i) live += registry.find(handles[i]) != nullptr;
    u32 count = 0;
    while (create() != 0) ++count;
    return count;
  }

  void finish() {
    const int missing = model_stalled();
    const char last = missing >= 0 ? doing[missing] : '\0';
    const bool is_making = last == 'c' || last == 'd' || last == 'D';
    walk();
    model_check(registry.find(old) == nullptr, "an old handle finds no heap");
    const unsigned ends = destroyed[0] + destroyed[1] + destroyed[2];
    const bool is_gone = registry.find(common) == nullptr;
    model_check(ends <= 1 && (ends == (is_gone ? 1u : 0u) || last == 'D'), "one thread destroys a heap");
    u32 live;
    const u32 spare = spare_records(live), all = made.load_relaxed();
    model_observe(live);
    model_observe(spare);
    model_check(live + spare <= all, "a record is in one place");
    model_check(live + spare + (is_making ? 1 : 0) >= all,
                "no record is lost but that of a thread that makes or destroys its heap");
    for (unsigned i = 0; i < issued; ++i) destroy(handles[i]);
    check_runs(missing, last);
  }

  // All known heaps are gone: their runs are spare, once each, and their frames are nobody's.
  void check_runs(int missing, char last) {
    const u32 runs = frames.made.load_relaxed(), taken = frames.taken.load_relaxed(),
              given = frames.given.load_relaxed();
    model_check(given <= taken, "a frame goes back once");
    if (missing < 0) model_check(given == taken, "what a heap had goes back");
    if (last == 'u' || last == 'f') model_check(given + 1 >= taken, "a thread has one frame in hand");
    if (last == 'c' || last == 's' || last == 'w') model_check(given == taken, "what a heap had goes back");
    const u64 handle = create();
    model_check(handle != 0 || missing >= 0, "there is a spare record");
    if (handle == 0) return;
    Heap& heap = *registry.find(handle);
    frames.refuses = true;
    frames.taken.store_relaxed(0);
    bool seen[kRuns] = {};
    u32 spare = 0;
    bool zero;
    while (auto* run = strips.make_whole(heap, 1, 1, zero)) {
      const u32 number = run->self.load_relaxed() - 1;
      model_check(!std::exchange(seen[number], true), "a run is spare once");
      ++spare;
      if (spare == kRuns) break;
    }
    if (last != 'd' && last != 'D')
      model_check(spare + (last == 'u' || last == 'f' ? 1 : 0) >= runs, "no run is lost but the one in hand");
  }
};

Scenario registry(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::string(setup) + ": " + first + " | " + second + " | " + third,
          program_type<RegistryProgram>(setup, first, second, third)};
}
std::vector<Scenario> two_threads() {
  return {registry("", "c", "c"),     registry("", "D", "D"),      registry("", "cd", "cd"),  registry("", "D", "c"),
          registry("", "D", "cs"),    registry("", "c", "w"),      registry("", "cd", "w"),   registry("", "D", "cw"),
          registry("u", "D", "cu"),   registry("", "u", "u"),      registry("", "u", "r"),    registry("u", "D", "D"),
          registry("uu", "D", "cud"), registry("", "cud", "cud"),  registry("u", "Dc", "w"),  registry("u", "Dcu", "s"),
          registry("", "cdc", "s"),   registry("uf", "Dcuu", "s"), registry("uf", "D", "cuu")};
}
std::vector<Scenario> three_threads() {
  return {registry("u", "D", "D", "cu"), registry("", "D", "c", "w"), registry("u", "D", "cu", "s"),
          registry("", "cd", "c", "c")};
}

TEST(HeapRegistryModel, PromisesHoldWithTwoThreads) { expect_hold(two_threads()); }
TEST(HeapRegistryModel, PromisesHoldWithThreeThreads) { expect_hold(limited(three_threads(), 20000)); }
TEST(HeapRegistryModel, WhatAThreadThatStopsForEverTakesWithIt) {
  std::vector<Scenario> all = {registry("", "c", "c"),   registry("u", "D", "cu"), registry("uu", "D", "D"),
                               registry("", "u", "u"),   registry("", "cd", "w"),  registry("", "uf", "u"),
                               registry("u", "Dcu", "s")};
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapRegistryMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed(two_threads(), "heap/registry.h");
  // take_all: a heap is destroyed by a thread that knows that nobody uses it any more; tagged_stack_model.cc needs it.
  const Carried known = {"head_.cas_acquire(head, StackHead::next(head, 0))", Part::kAcquire};
  expect_orders_needed(two_threads(), "sync/tagged_stack.h", {known});
}

}  // namespace
}  // namespace freeway::model
