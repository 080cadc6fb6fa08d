// SPDX-License-Identifier: MIT
// heap_strips_model.cc: the strips of src/heap/strips.h, into which several threads free, while others take what was
// freed, close them and sweep.
//
// Promises  a block is in one pair of hands, and who gets it sees what was done to it before; a strip is in the list
//           exactly when its word says so; nobody takes a block that is not freed, or two the same; once all blocks are
//           free and the strip is closed, a sweep gives the frame back, once, whatever happened before
// Bounds    2 or 3 threads of up to 3 moves on a strip of 1 to 3 blocks; weak memory, source-DPOR, exhausted. Stops:
//           each thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/explorer/scenarios.h"
#include "tests/heap/heap_world.h"

namespace freeway::model {
namespace {

// Scripts: g takes a block that was freed, if it finds one, and keeps it; e as g, by `find`; a takes all that it finds;
// f frees the one that it has kept for the longest time; o the same with a block that has been followed; x closes the
// strip, which until then is open; s sweeps; m makes a large block and frees it; w walks through all. At first the
// threads have as many blocks as `owned` says; the others are free, and so is the only one of a second strip, if there
// is one, which is listed below.
struct StripsProgram {
  static constexpr unsigned kClass = 20;  // of 1 KiB

  static constexpr int kThreads = HeapWorld::kThreads;
  const char* script[kThreads];
  HeapWorld world;
  heap::Strips<ModelEnv, HeapWorld> strips;
  u32 blocks;

  StripsProgram(u32 count, bool second_strip, const char* owned, const char* first, const char* second,
                const char* third)
      : script{first, second, third}, blocks(count) {
    strips.init(&world);
    world.in_frame = count;
    make(count);
    bool is_open = false;
    for (const char* each : script) is_open |= std::string(each).find('x') != std::string::npos;
    if (second_strip) {
      auto& below = make(1);
      strips.mark(world.heap, below, address_of(count), kClass);
      strips.close(world.heap, below, address_of(count) + kKiB);
    }
    for (u32 block = world.hand_out(owned); block < count; ++block)
      strips.mark(world.heap, strip(), address_of(block), kClass);
    if (!is_open) close();
    model_name(strip().word, "strip");
    model_name(world.heap.strips, "list");
    model_name(world.heap.marked, "marked");
  }

  heap::Run<ModelEnv>& make(u32 count) {
    auto& one = *strips.make_strip(world.heap);
    for (u32 block = 0; block < count; ++block)
      strips.kind_of(one, one.address.load_relaxed() + block * kKiB).store_relaxed(kClass);
    return one;
  }
  heap::Run<ModelEnv>& strip() { return world.strips[0].run; }
  // Blocks are numbered through: the second strip's follow the first one's.
  uptr address_of(unsigned block) const {
    return block < blocks ? HeapWorld::frame(0) + block * kKiB : HeapWorld::frame(1) + (block - blocks) * kKiB;
  }
  unsigned block_at(uptr address) const {
    const auto number = static_cast<unsigned>(address % kFrameSize / kKiB);
    return address < HeapWorld::frame(1) ? number : blocks + number;
  }
  void close() { strips.close(world.heap, strip(), address_of(0) + blocks * kKiB); }
  void make_large() {
    bool zero;
    auto* run = strips.make_whole(world.heap, 1, 1, zero);
    model_check(run != nullptr && strips.free_whole(world.heap, *run), "a large block is freed once");
  }
  bool keep(int id, uptr address) {
    world.keep(id, block_at(address));
    return true;
  }
  void free(int id, bool is_followed = false) {
    if (!world.has_blocks(id)) return;
    const unsigned block = world.leave(id);
    auto& of = world.strips[block < blocks ? 0 : 1].run;
    if (is_followed) {
      strips.follow(of, address_of(block));
      model_check(strips.unfollow(of, address_of(block)), "a block is followed until it is freed");
      model_check(!strips.unfollow(of, address_of(block)), "it was followed once");
    }
    model_check(strips.mark(world.heap, of, address_of(block), kClass), "a block that is live is not free");
  }
  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      bool has_one = false;
      const auto first = [&](uptr block, unsigned) { return !std::exchange(has_one, true) && keep(id, block); };
      const auto each = [&](uptr block, unsigned) { return keep(id, block); };
      if (*move == 'g') strips.gather(world.heap, kClass, /*all=*/false, first);
      if (*move == 'e')
        if (const uptr block = strips.find(world.heap, kClass)) first(block, kClass);
      if (*move == 'a') strips.gather(world.heap, kClass, /*all=*/true, each);
      if (*move == 'f' || *move == 'o') free(id, *move == 'o');
      if (*move == 'x') close();
      if (*move == 's') strips.sweep(world.heap);
      if (*move == 'm') make_large();
      if (*move == 'w')
        strips.each_run(world.heap, [&](auto& run) {
          model_check(run.heap.load_relaxed() == reinterpret_cast<u64>(&world.heap), "what a walk finds is its heap's");
        });
    }
  }

  void finish() {
    for (u64 in_hand = world.in_hand(); in_hand != 0; in_hand &= in_hand - 1)
      if (const unsigned block = lowest_bit(in_hand); block < blocks)
        model_check(strips.kind_of(strip(), address_of(block)).load_relaxed() < strip::kMarked,
                    "a block in hand is not free");
    world.check_given();
    const u64 word = strip().word.load_relaxed();
    model_check(strip::is_open(word) || strip::marked_of(word) <= strip::length_of(word),
                "no more is counted than there is");
    if (model_stalled() >= 0) return;
    world.check_list();
    for (int id = 0; id < kThreads; ++id)
      while (world.has_blocks(id)) free(id);
    strips.sweep(world.heap);
    world.check_all_given();
    for (const auto& each : world.strips)
      for (const u8 kind : each.kinds) model_check(kind == 0, "where no strip is, no block begins");
  }
};

Scenario strips(u32 count, const char* owned, const char* first, const char* second, const char* third = "") {
  return {std::to_string(count) + " blocks, " + owned + ": " + first + " | " + second + " | " + third,
          program_type<StripsProgram>(count, false, owned, first, second, third)};
}
Scenario two_strips(const char* owned, const char* first, const char* second, const char* third = "") {
  return {std::string("2 blocks and 1, ") + owned + ": " + first + " | " + second + " | " + third,
          program_type<StripsProgram>(u32{2}, true, owned, first, second, third)};
}
std::vector<Scenario> two_threads() {
  return {strips(1, "100", "f", "g"),   strips(1, "100", "f", "s"),   strips(1, "100", "f", "x"),
          strips(2, "110", "f", "f"),   strips(2, "110", "f", "fg"),  strips(2, "100", "f", "g"),
          strips(2, "100", "fg", "gf"), strips(2, "100", "f", "a"),   strips(2, "110", "f", "fs"),
          strips(2, "000", "g", "g"),   strips(2, "100", "f", "xg"),  strips(1, "000", "gf", "s"),
          strips(1, "000", "m", "w"),   strips(2, "110", "f", "fx"),  strips(2, "100", "fg", "x"),
          strips(3, "110", "f", "ag"),  strips(1, "100", "fg", "xs"), two_strips("100", "f", "gg"),
          two_strips("110", "f", "fg"), strips(2, "110", "o", "fg"),  strips(2, "100", "og", "xa"),
          strips(2, "100", "f", "e"),   strips(2, "000", "e", "e"),   two_strips("110", "f", "fe"),
          strips(2, "100", "fe", "e")};
}
std::vector<Scenario> three_threads() {
  return {strips(2, "110", "f", "f", "g"),  strips(2, "110", "f", "f", "x"), strips(1, "100", "f", "x", "g"),
          strips(2, "110", "f", "f", "a"),  strips(2, "110", "f", "f", "s"), strips(2, "100", "f", "g", "s"),
          two_strips("110", "f", "f", "gg")};
}

TEST(HeapStripsModel, PromisesHoldWithTwoThreads) { expect_hold(two_threads()); }
TEST(HeapStripsModel, PromisesHoldWithThreeThreads) { expect_hold(limited(three_threads(), 20000)); }
TEST(HeapStripsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = {strips(1, "100", "f", "g"),  strips(2, "110", "f", "fg"), strips(1, "100", "f", "s"),
                               strips(2, "100", "f", "xg"), strips(2, "100", "f", "a"),  strips(2, "000", "e", "e")};
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(HeapStripsMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed({strips(2, "110", "f", "fs"), strips(2, "110", "f", "fg"), strips(1, "100", "fg", "xs"),
                        strips(2, "100", "fg", "g"), strips(1, "000", "m", "w"), strips(2, "110", "f", "fe"),
                        strips(2, "100", "fe", "e")},
                       "heap/strips.h");
}

}  // namespace
}  // namespace freeway::model
