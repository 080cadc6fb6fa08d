// SPDX-License-Identifier: MIT
//
// Tests of papers/hmalloc/heaps.h: who inherits the heap of a thread that ended, and what may happen to it in between.
#include "papers/hmalloc/heaps.h"

#include <gtest/gtest.h>

#include <set>

#include "heap_world.h"

namespace freeway::hmalloc {
namespace {

using test::TestEnv;
using World = HeapWorld<TestEnv>;
using S = PaperSizes;

TEST(Heaps, EachThreadHasItsOwn) {
  World world;
  std::set<World::Heap*> heaps;
  for (int i = 0; i < 10; ++i) heaps.insert(world.heaps.join(world));
  EXPECT_EQ(heaps.size(), 10u);
  std::set<World::Heap*> walked;
  world.heaps.each(world, [&](World::Heap& heap) { walked.insert(&heap); });
  EXPECT_EQ(walked, heaps);
}

TEST(Heaps, ANewThreadInheritsTheHeapOfAnEndedOneAndAllThatIsInIt) {
  World world;
  World::Heap* heap = world.heaps.join(world);
  const uptr cached = heap->allocate_shared(40), reset = heap->allocate_shared(40);
  const uptr local = heap->allocate_local(40);
  world.free_shared(heap, cached);
  world.heaps.leave(world, heap);
  World::Heap* heir = world.heaps.join(world);
  EXPECT_EQ(heir, heap);
  EXPECT_EQ(world.heaps_made(), 1u);
  EXPECT_EQ(heir->allocate_shared(40), cached) << "its cache list";
  EXPECT_EQ(heir->allocate_local(40), local + 48) << "its local superblock";
  EXPECT_EQ(world.free_local(local), Freed::kYes);
  world.free_shared(nullptr, reset);
  EXPECT_EQ(world.heaps.inherit(world), nullptr);
}

TEST(Heaps, ManyShortThreadsNeedOneHeap) {
  World world;
  for (int i = 0; i < 1000; ++i) {
    World::Heap* heap = world.heaps.join(world);
    const uptr block = heap->allocate_shared(100);
    world.free_shared(heap, block);
    world.heaps.leave(world, heap);
  }
  EXPECT_EQ(world.heaps_made(), 1u);
  EXPECT_EQ(world.bytes(), S::kFirst);
}

TEST(Heaps, BlocksOfAHeapBetweenOwnersCanBeFreedAndTheHeirUsesThem) {
  World world;
  World::Heap* heap = world.heaps.join(world);
  std::vector<uptr> blocks{heap->allocate_shared(kMaxShared)};
  blocks.push_back(heap->allocate_shared(kMaxShared));
  world.heaps.leave(world, heap);
  World::Heap* other = nullptr;
  world.free_shared(other, blocks[0]);  // a flag is reset: that needs no owner
  world.free_shared(other, blocks[1]);
  World::Heap* heir = world.heaps.join(world);
  EXPECT_EQ(heir->allocate_shared(kMaxShared), blocks[0]);
  EXPECT_EQ(heir->allocate_shared(kMaxShared), blocks[1]);
  EXPECT_EQ(world.superblocks.size(), 1u);
}

TEST(Heaps, LocalBlocksFreedAfterTheHeapWasGivenAwayAreTheHeirs) {
  World world;
  World::Heap* heap = world.heaps.join(world);
  const uptr local = heap->allocate_local(40);
  world.heaps.leave(world, heap);
  heap->free_late(local);
  World::Heap* heir = world.heaps.join(world);
  EXPECT_TRUE(heir->drain_late());
  EXPECT_EQ(heir->allocate_local(40), local);
}

TEST(Heaps, WithoutMemoryForAHeapThereIsNone) {
  World world;
  world.refuse_heaps = true;
  EXPECT_EQ(world.heaps.join(world), nullptr);
  world.refuse_heaps = false;
  EXPECT_NE(world.heaps.join(world), nullptr);
}

TEST(Heaps, AThreadThatVanishesWhileItLeavesTakesOneHeapWithIt) {
  World world;
  World::Heap* heap = world.heaps.join(world);
  const uptr block = heap->allocate_shared(40);
  EXPECT_TRUE(test::ended_at("stack.push", [&] { world.heaps.leave(world, heap); }));
  World::Heap* other = world.heaps.join(world);
  EXPECT_NE(other, heap);
  EXPECT_EQ(world.free_shared(other, block), Freed::kYes);
  int walked = 0;
  world.heaps.each(world, [&](World::Heap&) { ++walked; });
  EXPECT_EQ(walked, 2);
}

}  // namespace
}  // namespace freeway::hmalloc
