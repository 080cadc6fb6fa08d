// SPDX-License-Identifier: MIT
//
// Tests of cache/way.h: after it was cleared malloc gives no block of a superblock that is worth leaving; no block is
// lost or doubled, also without a slab, and while the CPU changes.
#include "cache/way.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/cache/test_heap.h"

namespace freeway::test {
namespace {

constexpr unsigned k1024 = 20;  // a class of 64 blocks a superblock

// A heap in which a test says which superblocks are worth leaving.
class LeftHeap : public TestHeap {
 public:
  bool is_left(unsigned, const void* block) { return left.count(backing().find(const_cast<void*>(block)).first) != 0; }
  u32 free_in(u32 d) {
    const auto& desc = backing().descriptor(d);
    return bitmap::free_blocks(desc, kSizeClasses[desc.size_class.load_relaxed()]);
  }
  std::set<u32> left;
};

class WayTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel().reset();
    way_magazines.init(&heap);
    way.init(&heap, &way_magazines);
    memory = std::make_unique<HeapSlab>(heap);
  }
  void TearDown() override {
    EXPECT_EQ(heap.not_blocks, 0u);
    EXPECT_EQ(heap.twice_freed, 0u);
    kernel().reset();
  }

  Slab& slab() { return memory->slab(); }
  PlainSlab access() { return PlainSlab(slab()); }
  void* allocate() { return heap.allocate(access(), slab(), k1024); }
  void release(void* block) { heap.release(access(), slab(), k1024, block); }
  bool clear() { return way.clear(access(), slab(), k1024); }
  u32 place_of(void* block) { return heap.backing().find(block).first; }

  // `count` superblocks of which one block in `keep` stays taken; the taken ones.
  std::vector<void*> sparse(unsigned count, unsigned keep) {
    std::vector<void*> all, kept;
    for (unsigned i = 0; i < count * 64; ++i) all.push_back(allocate());
    for (unsigned i = 0; i < all.size(); ++i) {
      if (i % keep == 0) kept.push_back(all[i]);
      else heap.magazines().flush(k1024, &all[i], 1);
    }
    return kept;
  }

  LeftHeap heap;
  Magazines<LeftHeap> way_magazines;
  Way<LeftHeap> way;
  std::unique_ptr<HeapSlab> memory;
};

TEST_F(WayTest, BlocksOfSuperblocksThatAreWorthLeavingGoHomeAndOthersComeOut) {
  const auto kept = sparse(4, 8);
  void* good = allocate();  // of the superblock that the slab allocates from
  for (void* block : kept) heap.left.insert(place_of(block));
  heap.left.erase(place_of(good));
  release(good);
  const u32 free_before = heap.free_in(place_of(kept[0]));
  release(kept[0]);
  release(kept[1]);
  ASSERT_TRUE(clear());
  EXPECT_EQ(heap.free_in(place_of(kept[0])), free_before + 2) << "they are with their superblock";
  EXPECT_EQ(allocate(), good) << "what lay below them";
}

TEST_F(WayTest, AnEmptyMagazineIsRefilledFromOneThatWaitsAsLongAsThatHasFreeBlocks) {
  auto& superblocks = heap.superblocks();
  const auto waiting = [&](unsigned taken) {
    void* blocks[64];
    const u32 d = superblocks.make(k1024, superblocks.here());
    EXPECT_EQ(superblocks.take(d, taken, blocks), taken);
    superblocks.let_go(d);
    return d;
  };
  const std::set<u32> both = {waiting(60), waiting(60)};
  ASSERT_TRUE(clear());
  const u64 first = slab().current[k1024].load_relaxed();
  EXPECT_EQ(both.count(static_cast<u32>(first)), 1u);
  EXPECT_EQ(place_of(allocate()), first);
  EXPECT_TRUE(clear());
  EXPECT_EQ(slab().current[k1024].load_relaxed(), first) << "it has free blocks, or the magazine has";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(place_of(allocate()), first);
  ASSERT_TRUE(clear());
  EXPECT_NE(slab().current[k1024].load_relaxed(), first);
  EXPECT_EQ(both.count(static_cast<u32>(slab().current[k1024].load_relaxed())), 1u);
  EXPECT_EQ(heap.backing().spans(), 2u) << "none was made";
}

TEST_F(WayTest, AThreadThatEndsForEverTakesOneSuperblockWithIt) {
  auto& superblocks = heap.superblocks();
  void* block;
  const u32 d = superblocks.make(k1024, superblocks.here());
  superblocks.take(d, 1, &block);
  superblocks.let_go(d);
  EXPECT_TRUE(ended_at("way.adopted", [&] { clear(); }));
  EXPECT_FALSE(clear()) << "it is in nobody's hands";
  EXPECT_NE(place_of(allocate()), d);
}

TEST_F(WayTest, WhereNothingElseIsFreeItSaysSo) {
  EXPECT_FALSE(clear()) << "an empty heap";
  EXPECT_EQ(heap.backing().spans(), 0u) << "nothing is made for it";
  EXPECT_FALSE(way.clear(NoSlab(), slab(), k1024));
}

TEST_F(WayTest, NoBlockIsLostOrDoubledWhileTheCpuChanges) {
  HeapSlab other(heap);
  Random random(test_seed());
  const Wanderer wanderer({&slab(), &other.slab()}, random);
  std::set<void*> live;
  for (int i = 0; i < 30000; ++i) {
    Slab& home = random.chance(50) ? slab() : other.slab();
    if (random.chance(20)) way.clear(wanderer, home, k1024);
    if (random.chance(5)) heap.left.insert(static_cast<u32>(1 + random.below(20)));
    if (random.chance(5)) heap.left.erase(static_cast<u32>(1 + random.below(20)));
    if (random.chance(live.size() < 500 ? 60 : 40)) {
      void* block = heap.allocate(wanderer, home, k1024);
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(live.insert(block).second) << "a block twice";
    } else if (!live.empty()) {
      auto at = live.begin();
      std::advance(at, static_cast<long>(random.below(live.size())));
      void* block = *at;
      live.erase(at);
      heap.release(wanderer, home, k1024, block);
    }
  }
  for (void* block : live) heap.release(access(), slab(), k1024, block);
  for (HeapSlab* each : {memory.get(), &other}) heap.magazines().empty(each->slab());
  // What is left are superblocks without a taken block that somebody holds: none.
  EXPECT_EQ(heap.backing().spans(), 0u);
}

}  // namespace
}  // namespace freeway::test
