// SPDX-License-Identifier: MIT
// heap_slices_model.cc: src/heap/slices.h: slices and regions of a heap that several threads take from, free to and sweep.
//
// Promises  a block is in one pair of hands, and who gets it sees what was done to it before; a slice or region is in its list
//           exactly when its word says so; once all blocks are free a sweep gives the frame back, once, whatever happened before
// Bounds    2 or 3 threads of up to 3 moves on a slice of 1 to 3 blocks; weak memory, source-DPOR, exhausted. Stops: each thread
//           for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/heap_world.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

// Scripts: m allocates a block, if one is free, and keeps it; c the same, and, as a cache does, looks for another one before it
// lets the slice go; f frees the one that it has kept for the longest time; s sweeps. At first the threads have as many blocks
// as `owned` says; the others are free, and so is the only one of a second slice, if there is one, which is listed below.
struct SlicesProgram {
  static constexpr unsigned kClass = 20;  // of 1 KiB

  static constexpr int kThreads = HeapWorld::kThreads;
  const char* script[kThreads];
  HeapWorld world;
  heap::Slices<ModelEnv, HeapWorld> slices;
  u32 blocks;
  bool has_second;

  SlicesProgram(u32 count, bool second_slice, const char* owned, const char* first, const char* second, const char* third)
      : script{first, second, third}, blocks(count), has_second(second_slice) {
    slices.init(&world);
    const unsigned units = heap::units_for(kClass, count);
    slices.take(world.region, low_bits(units + has_second));
    if (has_second) {
      auto& below = slices.make_slice(world.region, units, 1, kClass);
      slices.free_to(list(), below, 1);
      slices.let_go_slice(world.heap, below);
    }
    auto& slice = slices.make_slice(world.region, 0, units, kClass);
    slice.blocks.store_relaxed(count);
    const u32 next = world.hand_out(owned);
    const u64 free = low_bits(count) & ~low_bits(next);
    if (free != 0) slices.free_to(list(), slice, free);
    slices.let_go_slice(world.heap, slice);
    slices.let_go(world.heap.lists[0], world.region);
    model_name(slice.word, "slice");
    model_name(list(), "list");
  }

  auto& slice() { return world.region.slices[0]; }
  TaggedStack<ModelEnv>& list() { return world.heap.lists[kClass]; }
  // The number of a block: the second slice's is behind the first's.
  unsigned number(const heap::Slice<ModelEnv>& of, u64 bit) { return lowest_bit(bit) + (&of == &slice() ? 0 : blocks); }

  void keep(int id, const heap::Slice<ModelEnv>& of, u64& free) {
    world.keep(id, number(of, free));
    free &= free - 1;
  }
  void allocate(int id, bool as_caches) {
    u64 free = 0;
    auto* found = slices.hold_slice(world.heap, kClass, free);
    if (found == nullptr) return;
    model_check(free != 0, "what is listed has free blocks");
    keep(id, *found, free);
    if (free != 0) slices.free_to(list(), *found, free);
    if (as_caches) {
      free = slices.take_or_let_go(world.heap, *found);
      if (free == 0) return;
      keep(id, *found, free);
      if (free != 0) slices.free_to(list(), *found, free);
    }
    slices.let_go_slice(world.heap, *found);
  }
  void free(int id) {
    if (!world.has_blocks(id)) return;
    const unsigned block = world.leave(id);
    auto& of = world.region.slices[block < blocks ? 0 : heap::units_for(kClass, blocks)];
    const u64 bit = u64{1} << (block < blocks ? block : 0);
    model_check((slices.free_blocks(world.heap, of, bit) & bit) == 0, "a block that is live is not free");
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == 'm' || *move == 'c') allocate(id, *move == 'c');
      if (*move == 'f') free(id);
      if (*move == 's') slices.sweep(world.heap);
    }
  }

  void finish() {
    const u64 in_hand = world.in_hand();
    model_check((in_hand & low_bits(blocks) & slice().word.load_relaxed()) == 0, "a block in hand is not free");
    world.check_given();
    if (model_stalled() >= 0) return;
    world.check_list(list());
    for (int id = 0; id < kThreads; ++id)
      while (world.has_blocks(id)) free(id);
    slices.sweep(world.heap);
    world.check_all_given();
  }
};

Scenario slices(u32 count, const char* owned, const char* first, const char* second, const char* third = "") {
  return {std::to_string(count) + " blocks, " + owned + ": " + first + " | " + second + " | " + third,
          program_type<SlicesProgram>(count, false, owned, first, second, third)};
}
Scenario two_slices(const char* owned, const char* first, const char* second, const char* third = "") {
  return {std::string("2 blocks and 1, ") + owned + ": " + first + " | " + second + " | " + third,
          program_type<SlicesProgram>(u32{2}, true, owned, first, second, third)};
}
std::vector<Scenario> two_threads() {
  return {slices(1, "100", "f", "m"),  slices(1, "100", "fm", "m"), slices(1, "100", "f", "s"),  slices(2, "110", "f", "f"),
          slices(2, "110", "f", "fm"), slices(2, "100", "f", "m"),  slices(2, "100", "fm", "mf"),
          slices(2, "110", "f", "fs"),
          slices(2, "000", "m", "m"),  slices(2, "100", "f", "sm"), slices(1, "000", "mf", "s"),
          slices(2, "100", "f", "c"),  slices(3, "110", "f", "cf"), two_slices("100", "f", "mm"), two_slices("110", "f", "fm")};
}
std::vector<Scenario> three_threads() {
  return {slices(2, "110", "f", "f", "m"), slices(1, "100", "f", "m", "m"), slices(1, "100", "f", "s", "m"),
          two_slices("110", "f", "f", "mm"), two_slices("110", "f", "f", "cm"), slices(2, "110", "f", "f", "s")};
}

std::vector<Scenario> all() {
  std::vector<Scenario> scenarios = two_threads();
  for (Scenario& each : three_threads()) scenarios.push_back(each);
  return scenarios;
}

TEST(HeapSlicesModel, PromisesHoldWithTwoThreads) { expect_hold(two_threads()); }
TEST(HeapSlicesModel, PromisesHoldWithThreeThreads) { expect_hold(limited(three_threads(), 20000)); }
TEST(HeapSlicesModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = {slices(1, "100", "f", "m"), slices(2, "110", "f", "fm"), slices(1, "100", "f", "s"),
                               slices(2, "000", "m", "m")};
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapSlicesMutants, AreCaught) {
  for (const char* mutant : {"freed and listed by nobody", "let go and listed by nobody", "freed in two steps",
                             "retired with blocks in hand"})
    expect_mutant_caught(two_threads(), mutant);
}
TEST(HeapSlicesMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed(all(), "heap/cells.h");
  expect_orders_needed(all(), "heap/slices.h");
}

}  // namespace
}  // namespace freeway::model
