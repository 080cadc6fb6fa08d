// SPDX-License-Identifier: MIT
// allocator_test.cc: the front-end over one thread at a time: rotation, reuse, caches, orphans, adoption, and how many
// atomic instructions each takes.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "papers/streamflow/tests/world.h"

namespace freeway::streamflow {
namespace {

using test::CountingEnv;
using test::TestEnv;
using test::World;

// --- Rotation (section 3.1.1) ----------------------------------------------------------------------------------------

// Page blocks with free memory stand first, but for a full one at the head. Returns how many page blocks the list has.
template <class Heap> unsigned expect_rotated(const Heap& heap, unsigned c) {
  unsigned blocks = 0;
  bool full_seen = false;
  const auto* last = heap.lists[c].head();
  for (auto* b = heap.lists[c].head(); b != nullptr; b = b->next.get()) {
    if (blocks++ == 0 && !b->has_free()) continue;
    full_seen |= !b->has_free();
    EXPECT_FALSE(full_seen && b->has_free()) << "free memory behind a full page block";
    EXPECT_EQ(b->next.get() == nullptr ? heap.lists[c].tail() : b->next.get()->prev.get(), b) << "linked both ways";
    last = b;
  }
  EXPECT_EQ(heap.lists[c].tail(), last);
  return blocks;
}

TEST(StreamflowRotation, FreeMemoryIsAtTheHeadInRandomTraces) {
  std::mt19937 random(test::test_seed());
  for (int trace = 0; trace < 20; ++trace) {
    World<TestEnv, kHeaderless> w;
    std::vector<World<TestEnv, kHeaderless>::Object> live;
    const std::size_t bytes = 1500 + random() % 500;  // about 130 objects a page block
    const unsigned c = World<TestEnv, kHeaderless>::Classes::class_of(bytes);
    for (int step = 0; step < 4000; ++step) {
      // Waves of growth and shrinking, with a bias that turns around.
      const bool grow = random() % 100 < (step / 700 % 2 == 0 ? 70u : 35u);
      if (grow || live.empty()) {
        bool any_free = false;
        for (auto* b = w.heaps[0].lists[c].head(); b != nullptr; b = b->next.get()) any_free |= b->has_free();
        const unsigned blocks = expect_rotated(w.heaps[0], c);
        live.push_back(w.allocate(0, bytes));
        ASSERT_NE(live.back().block, nullptr);
        ASSERT_TRUE(!any_free || expect_rotated(w.heaps[0], c) == blocks)
            << "no new page block while one has free memory";
      } else {
        std::swap(live[random() % live.size()], live.back());
        auto* b = live.back().block;
        const bool was_last = b->live.get() == 1;
        w.free(0, live.back());
        live.pop_back();
        ASSERT_TRUE(was_last || w.heaps[0].lists[c].head() == b) << "an owner's free brings its page block to the head";
      }
      expect_rotated(w.heaps[0], c);
      if (HasFailure()) return;
    }
  }
}

TEST(StreamflowRotation, AFullPageBlockGoesToTheEnd) {
  World<TestEnv, kHeaderless> w;
  const auto first = w.allocate(0, 2048);
  for (unsigned i = 1; i < World<TestEnv, kHeaderless>::Classes::kAll[128].objects(); ++i) w.allocate(0, 2048);
  const auto next = w.allocate(0, 2048);
  EXPECT_EQ(w.heaps[0].lists[128].head(), next.block);
  EXPECT_EQ(w.heaps[0].lists[128].tail(), first.block);
}

// --- Order of allocation ---------------------------------------------------------------------------------------------

TEST(StreamflowAllocation, IsContiguousWithoutHeadersAndThenLastInFirstOut) {
  World<TestEnv, kHeaderless> w;
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  for (int i = 0; i < 100; ++i) objects.push_back(w.allocate(0, 48));
  for (std::size_t i = 1; i < 100; ++i) ASSERT_EQ(objects[i].offset, objects[i - 1].offset + 48) << "no header between";
  w.free(0, objects[10]);
  w.free(0, objects[70]);
  EXPECT_EQ(w.allocate(0, 48).offset, objects[70].offset) << "what was freed last comes first";
  EXPECT_EQ(w.allocate(0, 48).offset, objects[10].offset) << "before what was never allocated";
  EXPECT_EQ(w.allocate(0, 48).offset, objects[99].offset + 48);
  World<TestEnv, kHeaders> h;
  const auto a = h.allocate(0, 48), b = h.allocate(0, 48);
  EXPECT_EQ(b.offset, a.offset + 64) << "the headers build pays for the header";
}

TEST(StreamflowAllocation, RemotelyFreedObjectsComeBackOnlyWhenThePageBlockIsFull) {
  World<TestEnv, kHeaderless> w;
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  const unsigned all = World<TestEnv, kHeaderless>::Classes::kAll[128].objects();
  for (unsigned i = 0; i + 1 < all; ++i) objects.push_back(w.allocate(0, 2048));
  w.free(1, objects[3]);
  w.free(1, objects[5]);
  const auto last = w.allocate(0, 2048);
  EXPECT_EQ(last.offset, objects.back().offset + 2048) << "lazily";
  EXPECT_EQ(w.allocate(0, 2048).offset, objects[5].offset);
  EXPECT_EQ(w.allocate(0, 2048).offset, objects[3].offset);
  EXPECT_NE(w.allocate(0, 2048).block, last.block);
}

// --- Atomic instructions ---------------------------------------------------------------------------------------------

using Counted = World<CountingEnv, kHeaderless>;

template <class F> unsigned rmws(F&& f) {
  const unsigned before = CountingEnv::rmws;
  f();
  return CountingEnv::rmws - before;
}

TEST(StreamflowAtomics, LocalOperationsTakeNone) {
  Counted w;
  Counted::Object a = w.allocate(0, 64), b{};
  EXPECT_EQ(rmws([&] { b = w.allocate(0, 64); }), 0u);
  EXPECT_EQ(rmws([&] { w.free(0, b); }), 0u);
  // Not even those that empty a page block and take it up again: it waits in the local cache.
  EXPECT_EQ(rmws([&] {
              for (int i = 0; i < 100; ++i) {
                w.free(0, a);
                a = w.allocate(0, 64);
              }
            }),
            0u);
  // Nor a page block found full, when there is another one.
  std::vector<Counted::Object> more;
  for (int i = 0; i < 3000; ++i) more.push_back(w.allocate(0, 64));
  EXPECT_EQ(rmws([&] {
              for (std::size_t i = 0; i < 3000; i += 2) w.free(0, more[i]);
              for (std::size_t i = 0; i < 3000; i += 2) more[i] = w.allocate(0, 64);
            }),
            0u);
}

TEST(StreamflowAtomics, ARemoteFreeTakesOneAndABatchOfThemOneMore) {
  Counted w;
  std::vector<Counted::Object> objects;
  const unsigned all = Counted::Classes::kAll[4].objects();
  for (unsigned i = 0; i < all; ++i) objects.push_back(w.allocate(0, 64));
  for (const auto& object : objects) ASSERT_EQ(rmws([&] { w.free(1, object); }), 1u);
  EXPECT_EQ(rmws([&] { w.allocate(0, 64); }), 1u) << "all that was freed, at once";
  EXPECT_EQ(rmws([&] {
              for (unsigned i = 1; i < all; ++i) w.allocate(0, 64);
            }),
            0u);
}

TEST(StreamflowAtomics, OrphaningAndAdoptionTakeOneEach) {
  Counted w;
  Counted::Object object{};
  for (unsigned i = 0; i < Counted::Classes::kAll[4].objects(); ++i) object = w.allocate(0, 64);
  EXPECT_EQ(rmws([&] { w.allocator->retire(w.heaps[0]); }), 1u);
  EXPECT_EQ(remotely_freed::owner(object.block->remotely_freed.load_relaxed()), remotely_freed::kNobody);
  EXPECT_EQ(rmws([&] { w.free(1, object); }), 1u);
  EXPECT_EQ(remotely_freed::owner(object.block->remotely_freed.load_relaxed()), w.heaps[1].id);
  EXPECT_EQ(w.allocate(1, 64).offset, object.offset) << "the adopter has it at the head of its list";
}

// --- Page block caching ----------------------------------------------------------------------------------------------

// Page blocks of the smallest size that are free in heap 0 and in the global cache after five became free.
std::pair<u32, std::size_t> kept(u32 local_limit, u32 global_limit) {
  World<TestEnv, kHeaderless> w(local_limit, global_limit);
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  const unsigned all = World<TestEnv, kHeaderless>::Classes::kAll[1].objects();
  for (unsigned i = 0; i < 5 * all; ++i) objects.push_back(w.allocate(0, 16));
  const std::size_t other = w.pages->free_bytes();
  for (const auto& object : objects) w.free(0, object);
  const u32 local = w.heaps[0].cached[0].count();
  const std::size_t back = w.space.live.empty() ? 5 : (w.pages->free_bytes() - other) / (16 * kKiB);
  return {local, 5 - back - local};
}

TEST(StreamflowCaches, KeepWhatTheirLimitsSay) {
  EXPECT_EQ(kept(1, 0), std::pair(1u, std::size_t{0})) << "the paper's limits";
  EXPECT_EQ(kept(0, 0), std::pair(0u, std::size_t{0}));
  EXPECT_EQ(kept(3, 0), std::pair(3u, std::size_t{0}));
  EXPECT_EQ(kept(1, 2), std::pair(1u, std::size_t{2}));
}

TEST(StreamflowCaches, AThreadThatEndsKeepsNothing) {
  World<TestEnv, kSuperpages> w;
  for (std::size_t bytes : {16, 100, 500, 2000}) w.free(0, w.allocate(0, bytes));
  EXPECT_GT(w.footprint(), 0u);
  w.allocator->retire(w.heaps[0]);
  EXPECT_EQ(w.footprint(), 0u);
}

TEST(StreamflowCaches, APartlyFreeOrphanServesTheNextThreadOfItsClass) {
  World<TestEnv, kHeaderless> w;
  const auto stays = w.allocate(0, 64);
  w.allocate(0, 80);
  w.allocator->retire(w.heaps[0]);
  const auto object = w.allocate(1, 64);
  EXPECT_EQ(object.block, stays.block);
  EXPECT_EQ(object.offset, stays.offset + 64);
  w.free(1, stays);
  EXPECT_EQ(w.allocate(1, 64).offset, stays.offset) << "it is the new owner's";
}

TEST(StreamflowCaches, WhatAFreerWithoutAHeapFindsOrphanedServesTheNextThread) {
  World<TestEnv, kHeaderless> w;
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  const unsigned all = World<TestEnv, kHeaderless>::Classes::kAll[4].objects();
  for (unsigned i = 0; i < all; ++i) objects.push_back(w.allocate(0, 64));
  w.allocator->retire(w.heaps[0]);
  w.free_without_heap(objects[7]);
  w.free_without_heap(objects[9]);
  EXPECT_EQ(w.allocate(1, 64).offset, objects[9].offset);
  EXPECT_EQ(w.allocate(1, 64).offset, objects[7].offset);
  for (const auto& object : objects) w.free(1, object);
  w.allocator->retire(w.heaps[1]);
  EXPECT_EQ(w.footprint(), 0u);
}

TEST(StreamflowCaches, TrimmingGivesBackWhatOthersHaveFreed) {
  World<TestEnv, kHeaderless> w;
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  for (int i = 0; i < 5000; ++i) objects.push_back(w.allocate(0, 64));
  for (const auto& object : objects) w.free(1, object);
  EXPECT_GT(w.footprint(), 300 * kKiB) << "lazily";
  w.allocator->trim(&w.heaps[0]);
  EXPECT_EQ(w.footprint(), 0u);
  const auto stays = w.allocate(0, 64), goes = w.allocate(0, 80);
  w.allocator->retire(w.heaps[0]);
  w.free(1, goes);
  w.allocator->trim(nullptr);
  w.free(1, stays);
  EXPECT_EQ(w.footprint(), 256 * kKiB) << "the other one stays listed";
  w.allocator->trim(nullptr);
  EXPECT_EQ(w.footprint(), 0u);
}

TEST(StreamflowAllocation, RefusedMemoryIsNotTheEndWhileOthersHaveFreed) {
  World<TestEnv, kHeaderless> w;
  std::vector<World<TestEnv, kHeaderless>::Object> objects;
  for (int i = 0; i < 40000; ++i) objects.push_back(w.allocate(0, 64));
  w.space.refuse = true;
  while (w.allocate(0, 64).block != nullptr) {}
  w.free(1, objects[20000]);
  EXPECT_EQ(w.allocate(0, 64).offset, objects[20000].offset) << "however long the list";
  EXPECT_EQ(w.allocate(0, 64).block, nullptr);
  w.space.refuse = false;
  EXPECT_NE(w.allocate(0, 64).block, nullptr);
}

}  // namespace
}  // namespace freeway::streamflow
