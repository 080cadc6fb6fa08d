// SPDX-License-Identifier: MIT
// heap_direct_model.cc: src/heap/direct.h: calls without a slab, which take the heap's strip and superblocks out and
// put them back.
//
// Promises  a block is in one pair of hands, and lies where no other one does; a strip, or superblock, is in the word,
//           in one pair of hands, or where all others are: in a list or wholly used. Once all is free all frames go
//           back. A thread that stops for ever takes one strip, or superblock, with it
// Bounds    2 or 3 threads of up to 4 moves, on two strips with room for 1 or 2 blocks of 8 KiB each, or on two
//           superblocks of 1 to 3 blocks; weak memory, source-DPOR, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "heap/direct.h"
#include "tests/explorer/scenarios.h"
#include "tests/heap/heap_world.h"
#include "tests/superblock/superblock_program.h"

namespace freeway::model {
namespace {

// Scripts: b takes a block off the strip; B the same, and opens one if there is no room; f frees the one that the
// thread has kept for the longest time; g looks for one that was freed; x closes the strip if it is worth looking
// through, X if all of it is free; s sweeps; o looks for one as
// `find` does. The setup's first strip has room for `room` blocks: those before are free already.
struct StripProgram {
  static constexpr unsigned kClass = class_of_size(8 * kKiB), kInStrip = kFrameSize / (8 * kKiB);
  static constexpr int kThreads = HeapWorld::kThreads;
  using StripsOf = heap::Strips<ModelEnv, HeapWorld>;
  const char* script[kThreads];
  HeapWorld world;
  StripsOf strips;
  heap::DirectStrip<ModelEnv, StripsOf> direct;

  StripProgram(unsigned room, const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    strips.init(&world);
    world.in_frame = kInStrip;
    world.heap.held.store_relaxed(limit_word::limited(0, HeapWorld::kStrips));
    for (unsigned i = 0; i + room < kInStrip; ++i) act(0, 'B');
    while (world.has_blocks(0)) act(0, 'f');
    world.kept_from[0] = world.kept_to[0] = 0;
    for (; *setup != 0; ++setup) act(0, *setup);
    model_name(direct, "direct");
    for (u32 i = 0; i < HeapWorld::kStrips; ++i) model_name(world.strips[i].run.word, "strip", static_cast<int>(i));
  }

  void keep(int id, uptr address) {
    world.keep(id, static_cast<unsigned>((address - HeapWorld::frame(0)) / (8 * kKiB)));
  }
  void act(int id, char move) {
    if (move == 'b' || move == 'B')
      if (const uptr block = direct.allocate(strips, world.heap, kClass, move == 'B')) keep(id, block);
    if (move == 'f' && world.has_blocks(id)) {
      const unsigned block = world.leave(id);
      const uptr address = HeapWorld::frame(0) + block * 8 * kKiB;
      model_check(strips.mark(world.heap, world.strips[block / kInStrip].run, address, kClass),
                  "a block that is live is not free");
    }
    if (move == 'g') {
      bool has_one = false;
      strips.gather(world.heap, kClass, /*all=*/false, [&](uptr block, unsigned) {
        if (std::exchange(has_one, true)) return false;
        keep(id, block);
        return true;
      });
    }
    if (move == 'o')
      if (const uptr block = strips.find(world.heap, kClass)) keep(id, block);
    if (move == 'x') direct.leave(strips, world.heap, StripsOf::kIfWorth);
    if (move == 'X') direct.leave(strips, world.heap, StripsOf::kIfUnused);
    if (move == 's') strips.sweep(world.heap);
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) act(id, *move);
  }

  void finish() {
    world.in_hand();
    world.check_given();
    const int missing = model_stalled();
    const bool is_empty = missing >= 0 && !world.has_blocks(missing);
    if (missing < 0) world.check_list();
    for (int id = 0; id < kThreads; ++id)
      while (id != missing && world.has_blocks(id)) act(id, 'f');
    direct.leave(strips, world.heap, StripsOf::kIfUnused);
    strips.sweep(world.heap);
    if (missing < 0) world.check_all_given();
    if (is_empty) model_check(world.given + 1 >= world.taken, "a thread has one strip in hand");
  }
};

Scenario strip(unsigned room, const char* setup, const char* first, const char* second, const char* third = "") {
  return {"room for " + std::to_string(room) + ", " + setup + ": " + first + " | " + second + " | " + third,
          program_type<StripProgram>(room, setup, first, second, third)};
}
std::vector<Scenario> strips() {
  return {strip(2, "", "b", "b"),   strip(1, "", "b", "b"),  strip(1, "", "B", "B"),   strip(2, "", "B", "B"),
          strip(2, "", "b", "x"),   strip(2, "", "b", "X"),  strip(2, "b", "f", "X"),  strip(2, "b", "f", "b"),
          strip(2, "", "bf", "bf"), strip(1, "", "B", "x"),  strip(2, "", "bf", "Xs"), strip(1, "", "Bf", "Bg"),
          strip(2, "", "b", "xg"),  strip(2, "", "bb", "b"), strip(1, "b", "fB", "B"), strip(0, "", "B", "B"),
          strip(1, "", "Bf", "Bo"), strip(2, "", "b", "xo"), strip(1, "bx", "f", "o"), strip(1, "bx", "o", "o"),
          strip(1, "bx", "fo", "g")};
}
std::vector<Scenario> three_on_strips() {
  return {strip(2, "", "b", "b", "X"), strip(1, "", "B", "B", "x"), strip(2, "b", "f", "b", "X"),
          strip(2, "", "b", "x", "g")};
}

// The letters are superblock_program.h's.
Scenario superblock(u32 blocks, const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::to_string(blocks) + " blocks, " + setup + ": " + first + " | " + second + " | " + third,
          program_type<SuperblockProgram>(SuperblockScript{blocks, 66, setup, {first, second, third}})};
}
std::vector<Scenario> superblocks() {
  return {superblock(3, "", "d", "d"),      superblock(1, "", "d", "d"),     superblock(2, "d0", "d", "d"),
          superblock(2, "d0", "f", "d"),    superblock(2, "d0", "f", "e"),   superblock(2, "dd01", "f", "e"),
          superblock(3, "d0", "d", "e"),    superblock(2, "", "df", "df"),   superblock(1, "d0", "f", "d"),
          superblock(2, "d0", "fe", "d"),   superblock(3, "", "de", "d"),    superblock(1, "", "df", "de"),
          superblock(2, "dd01", "fd", "f"), superblock(2, "d0", "d", "htg"), superblock(3, "d0", "d", "m")};
}
std::vector<Scenario> three_on_superblocks() {
  return {superblock(3, "d0", "f", "d", "e"), superblock(3, "d0", "d", "d", "e"), superblock(2, "dd01", "f", "f", "d")};
}

std::vector<Scenario> with_stops(std::vector<Scenario> all) {
  for (Scenario& each : all) each.stalls = true;
  return all;
}

TEST(HeapDirectModel, StripsAreOneThreads) { expect_hold(strips()); }
TEST(HeapDirectModel, StripsAreOneThreadsOfThree) { expect_hold(limited(three_on_strips(), 20000)); }
TEST(HeapDirectModel, SuperblocksAreOneThreads) { expect_hold(superblocks()); }
TEST(HeapDirectModel, SuperblocksAreOneThreadsOfThree) { expect_hold(limited(three_on_superblocks(), 20000)); }
TEST(HeapDirectModel, AThreadThatStopsForEverTakesOneWithIt) {
  expect_hold(with_stops({strip(2, "", "b", "b"), strip(1, "", "B", "B"), strip(2, "b", "f", "X"),
                          strip(2, "", "b", "x"), strip(1, "bx", "o", "o"), superblock(2, "d0", "d", "d"),
                          superblock(1, "", "d", "d"), superblock(2, "d0", "f", "e"), superblock(2, "d0", "d", "e")}));
}
TEST(HeapDirectMutants, EachMemoryOrderIsNeeded) {
  std::vector<Scenario> all = strips();
  for (Scenario& each : superblocks()) all.push_back(each);
  expect_orders_needed(all, "heap/direct.h");
}

}  // namespace
}  // namespace freeway::model
