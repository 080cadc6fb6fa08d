// SPDX-License-Identifier: MIT
//
// Tests of cache/magazines.h: what a refill, a full magazine and a drained slab do, how magazines grow and within which
// budget, and that no block is lost or doubled, also without a slab, without memory, and while the CPU changes.
#include "cache/magazines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/cache/test_heap.h"

namespace freeway::test {
namespace {

constexpr unsigned k16 = 1, k1024 = 20;                // classes of 16 and of 1024 bytes
constexpr u64 kOverflowing = kMagazines[k16].big * 2;  // blocks that no magazine holds at once

class MagazinesTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel().reset();
    heap_ = std::make_unique<TestHeap>();
    memory_ = std::make_unique<HeapSlab>(*heap_);
  }
  void TearDown() override {
    EXPECT_EQ(heap().not_blocks, 0u);
    EXPECT_EQ(heap().twice_freed, 0u);
    heap_.reset();
    kernel().reset();
  }

  TestHeap& heap() { return *heap_; }
  Slab& slab() { return memory_->slab(); }
  TestSlab& memory() { return *memory_; }
  PlainSlab access() { return PlainSlab(slab()); }

  void* allocate(unsigned c) { return heap().allocate(access(), slab(), c); }
  void release(unsigned c, void* block) { heap().release(access(), slab(), c, block); }
  std::vector<void*> allocate(unsigned c, u64 count) {
    std::vector<void*> blocks;
    for (u64 i = 0; i < count; ++i) blocks.push_back(allocate(c));
    EXPECT_EQ(std::set<void*>(blocks.begin(), blocks.end()).size(), count) << "a block twice, or none";
    return blocks;
  }
  void release(unsigned c, const std::vector<void*>& blocks) {
    for (void* block : blocks) release(c, block);
  }
  u64 capacity(unsigned c) { return slab().capacity[c].load_relaxed(); }
  // What a class may hold, by its sentinels.
  u64 slots(unsigned c) { return memory().contents(c).size() + memory().room(c); }
  u64 descriptor_of(void* block) { return heap().backing().find(block).first; }

  // Allocates and frees so many at once, again and again: a program of phases.
  void phases(unsigned c, u64 count, int times) {
    for (int i = 0; i < times; ++i) release(c, allocate(c, count));
  }

 private:
  std::unique_ptr<TestHeap> heap_;
  std::unique_ptr<HeapSlab> memory_;
};

TEST_F(MagazinesTest, ARefillLoadsHalfAMagazineInAddressOrder) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u64 half = clamp(kMagazines[c].small / 2, 1, kBatchMax), in_span = kSizeClasses[c].blocks;
    void* first = allocate(c);
    ASSERT_NE(first, nullptr);
    const u64 loaded = memory().contents(c).size();
    EXPECT_EQ(loaded, std::min(half, in_span) - 1) << "class " << c;
    for (u64 i = 1; i <= loaded; ++i)
      ASSERT_EQ(allocate(c), static_cast<char*>(first) + i * kSizeClasses[c].size) << "class " << c;
    EXPECT_TRUE(memory().contents(c).empty());
  }
}

TEST_F(MagazinesTest, TheNextRefillGoesOnInTheSameSuperblock) {
  const auto blocks = allocate(k1024, 64);  // all of one superblock, by several refills
  const u64 d = descriptor_of(blocks[0]);
  for (void* block : blocks) EXPECT_EQ(descriptor_of(block), d);
  EXPECT_EQ(slab().current[k1024].load_relaxed(), d);
  EXPECT_NE(descriptor_of(allocate(k1024)), d) << "it has none left";
  EXPECT_NE(slab().current[k1024].load_relaxed(), d);
  EXPECT_EQ(heap().backing().spans(), 2u);
}

TEST_F(MagazinesTest, ARefillThatComesLateTakesWhatIsThere) {
  allocate(k16, 3);
  const auto before = memory().contents(k16);
  EXPECT_EQ(heap().magazines().refill(access(), slab(), k16), reinterpret_cast<void*>(before.back()));
  EXPECT_EQ(slab().counters[k16].refills, 1u);
}

TEST_F(MagazinesTest, AFullMagazineIsHalfFlushedAndTheNextFreesFit) {
  const auto blocks = allocate(k16, 300);
  while (access().pop(k16) != 0) {}
  for (u64 i = 0; i < 128; ++i) release(k16, blocks[i]);
  EXPECT_EQ(memory().contents(k16).size(), 128u);
  EXPECT_EQ(slab().counters[k16].flushes, 0u);
  const unsigned groups_before = heap().groups_freed;
  slab().refills_seen[k16].store_relaxed(static_cast<u32>(slab().counters[k16].refills));  // no swing: it does not grow
  release(k16, blocks[128]);
  EXPECT_EQ(memory().contents(k16).size(), 65u);
  EXPECT_EQ(slab().counters[k16].flushes, 1u);
  EXPECT_LE(heap().groups_freed - groups_before, 2u) << "64 neighbours are in two words";
}

TEST_F(MagazinesTest, WithoutASlabABlockIsHandedOutAndTheRestGoesBack) {
  const NoSlab access;
  for (unsigned c = 1; c < kClassCount; ++c) {
    void* block = heap().allocate(access, slab(), c);
    ASSERT_NE(block, nullptr);
    const u32 d = static_cast<u32>(descriptor_of(block));
    const bool alone = kSizeClasses[c].blocks == 1;
    EXPECT_EQ(heap().superblocks().adopt(c), alone ? 0 : d) << "nobody holds it, class " << c;
    if (!alone) heap().superblocks().let_go(d);
    EXPECT_FALSE(heap().magazines().stash(access, slab(), c, block));
    heap().magazines().flush(c, &block, 1);
  }
  EXPECT_EQ(heap().backing().spans(), 0u);
}

TEST_F(MagazinesTest, OfARunThatDoesNotFitTheRestGoesBack) {
  void* const first = allocate(k16);  // 64 of a run; 63 of them are in the magazine
  const auto loaded = memory().contents(k16);
  ASSERT_EQ(loaded.size(), 63u);
  while (access().pop(k16) != 0) {}
  // A magazine with room for ten, which a refill finds empty: its upper sentinel stands lower.
  const u64 top = slab().top[k16].load_relaxed();
  slab_words::slot(top + 10 * 8)->store_relaxed(0);
  void* const next = allocate(k16);
  EXPECT_EQ(next, static_cast<char*>(first) + 64 * 16);
  std::vector<u64> there = memory().contents(k16);
  ASSERT_EQ(there.size(), 10u);
  for (u64 i = 0; i < 10; ++i) EXPECT_EQ(there[i], reinterpret_cast<u64>(next) + (63 - i) * 16) << "the upper ones";
  const u32 d = static_cast<u32>(descriptor_of(next));
  for (u32 i = 65; i < 128; ++i) EXPECT_EQ(heap().superblocks().is_free(d, i), i < 118) << i;
}

TEST_F(MagazinesTest, WithoutMemoryThereIsNothingAndLaterThereIs) {
  heap().backing().spans_left = 1;
  const auto blocks = allocate(k1024, 64);
  EXPECT_EQ(allocate(k1024), nullptr);
  EXPECT_EQ(allocate(k16), nullptr);
  release(k1024, blocks[0]);
  EXPECT_EQ(allocate(k1024), blocks[0]);
  heap().backing().spans_left = 1;
  EXPECT_NE(allocate(k1024), nullptr);
  release(k1024, blocks);
}

TEST_F(MagazinesTest, AClassThatSwingsGetsALargerMagazine) {
  phases(k16, kOverflowing, 200);
  EXPECT_EQ(capacity(k16), kMagazines[k16].big);
  EXPECT_EQ(slots(k16), kMagazines[k16].big);
  EXPECT_EQ(slab().grown_bytes.load_relaxed(), (kMagazines[k16].big - kMagazines[k16].small) * 16u);
  const u64 flushes = slab().counters[k16].flushes, refills = slab().counters[k16].refills;
  phases(k16, kMagazines[k16].big - 500, 50);
  EXPECT_EQ(slab().counters[k16].flushes, flushes) << "phases that fit need no superblock";
  EXPECT_LE(slab().counters[k16].refills, refills + kMagazines[k16].big / 64 + 1);
}

TEST_F(MagazinesTest, AMagazineGrowsAStepASwing) {
  u64 before = kMagazines[k16].small;
  for (int i = 0; i < 20; ++i) {
    phases(k16, kOverflowing, 1);
    ASSERT_GE(capacity(k16), before);
    ASSERT_LE(capacity(k16), before + Magazines<TestHeap>::kGrowthStep) << "phase " << i;
    ASSERT_EQ(slots(k16), capacity(k16));
    before = capacity(k16);
  }
}

// A thread that changes its CPU between the two steps of growing raises another slab's capacity.
TEST_F(MagazinesTest, ACapacityThatWasRaisedInErrorIsMadeTrueByTheNextSwings) {
  constexpr u64 kStep = Magazines<TestHeap>::kGrowthStep;
  const u64 small = kMagazines[k16].small;
  for (const u64 steps : {1, 2, 3}) {
    for (const int swings : {0, 1, 3}) {
      TearDown();
      SetUp();
      phases(k16, 100, 1);
      phases(k16, kOverflowing, swings);
      slab().capacity[k16].store_relaxed(capacity(k16) + steps * kStep);
      const u64 told = capacity(k16);
      for (int i = 0; i < 4 && slots(k16) <= told; ++i) phases(k16, kOverflowing, 1);
      EXPECT_EQ(slots(k16), capacity(k16)) << steps << " steps in error after " << swings;
      EXPECT_GT(slots(k16), small);
      phases(k16, kOverflowing, 40);
      EXPECT_EQ(slots(k16), kMagazines[k16].big);
    }
  }
}

TEST_F(MagazinesTest, ACapacityThatWasNotRaisedIsRaisedByTheNextSwing) {
  phases(k16, kOverflowing, 1);
  ASSERT_GT(capacity(k16), kMagazines[k16].small);
  slab().capacity[k16].store_relaxed(kMagazines[k16].small);
  phases(k16, kOverflowing, 40);
  EXPECT_EQ(slots(k16), kMagazines[k16].big);
  EXPECT_EQ(capacity(k16), kMagazines[k16].big);
}

TEST_F(MagazinesTest, AClassThatOnlyFreesDoesNotGrow) {
  const auto blocks = allocate(k16, 20000);  // refills, then only frees
  for (void* block : blocks) release(k16, block);
  EXPECT_LE(capacity(k16), kMagazines[k16].small + Magazines<TestHeap>::kGrowthStep) << "one swing";
}

TEST_F(MagazinesTest, AllMagazinesGrowWithinOneBudget) {
  const u64 budget = Magazines<TestHeap>::kGrowthBudget;
  for (unsigned c = kClassCount - 1; c > 0; --c) phases(c, 3 * u64{kMagazines[c].big}, 12);
  u64 grown = 0, said = 0;
  for (unsigned c = 1; c < kClassCount; ++c) {
    EXPECT_GE(slots(c), kMagazines[c].small);
    EXPECT_LE(slots(c), kMagazines[c].big);
    grown += (slots(c) - kMagazines[c].small) * kSizeClasses[c].size;
    said += (capacity(c) - kMagazines[c].small) * kSizeClasses[c].size;
  }
  EXPECT_EQ(said, slab().grown_bytes.load_relaxed());
  EXPECT_LE(grown, budget);
  EXPECT_GT(grown, budget / 2) << "the test reaches the budget";
}

TEST_F(MagazinesTest, AnEmptiedSlabHasNothingAndWorksAgain) {
  std::vector<std::pair<unsigned, void*>> live;
  for (int round = 0; round < 2; ++round) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      phases(c, 300, 3);
      live.emplace_back(c, allocate(c));
    }
    heap().magazines().empty(slab());
    for (unsigned c = 1; c < kClassCount; ++c) {
      EXPECT_EQ(slab().top[c].load_relaxed(), heap().closed());
      EXPECT_EQ(slab().current[c].load_relaxed(), 0u);
      EXPECT_EQ(capacity(c), kMagazines[c].small);
    }
    EXPECT_EQ(slab().grown_bytes.load_relaxed(), 0u);
  }
  for (auto [c, block] : live) release(c, block);
  heap().magazines().empty(slab());
  EXPECT_EQ(heap().backing().spans(), 0u) << "all is free";
}

// What was drained must not come back larger than its share of the budget.
TEST_F(MagazinesTest, AMagazineThatWasEmptiedGrowsAgainFromItsFirstSize) {
  phases(k16, kOverflowing, 200);
  ASSERT_EQ(slots(k16), kMagazines[k16].big);
  heap().magazines().empty(slab());
  phases(k16, kOverflowing, 3);
  EXPECT_LT(capacity(k16), kMagazines[k16].big);
  EXPECT_EQ(slots(k16), capacity(k16));
}

TEST_F(MagazinesTest, AFlushGroupsByWordAndFindsDoubleFreesAndForeignBlocks) {
  auto blocks = allocate(k16, 64);
  heap().magazines().flush(k16, blocks.data(), 64);
  const unsigned groups = heap().groups_freed;
  EXPECT_LE(groups, 3u);
  heap().magazines().flush(k16, blocks.data(), 10);
  EXPECT_EQ(heap().twice_freed, 10u);
  int local = 0;
  void* bad[] = {&local};
  heap().magazines().flush(k16, bad, 1);
  EXPECT_EQ(heap().not_blocks, 1u);
  heap().twice_freed = heap().not_blocks = 0;  // they were meant
}

// Blocks that the program owns have its mark in them; in the end all is freed, and every superblock must be gone.
TEST_F(MagazinesTest, WhereverTheThreadWandersNoBlockIsLostOrDoubled) {
  Random random(test_seed());
  for (int round = 0; round < 6; ++round) {
    HeapSlab one(heap()), two(heap());
    const std::vector<Slab*> slabs = {&slab(), &one.slab(), &two.slab()};
    const Wanderer wanderer(slabs, random);
    std::map<unsigned, std::vector<u64*>> live;
    for (int i = 0; i < 40000; ++i) {
      const auto c = static_cast<unsigned>(random.chance(70) ? 1 : 1 + random.below(kClassCount - 1));
      Slab& home = *slabs[random.below(3)];
      auto& mine = live[c];
      if (random.below(2000) == 0) heap().magazines().empty(home);
      heap().backing().spans_left = random.chance(1) ? 0 : ~0u;
      if (mine.empty() || random.chance(i % 4000 < 2000 ? 70 : 30)) {
        auto* block = static_cast<u64*>(heap().allocate(wanderer, home, c));
        if (block == nullptr) continue;
        ASSERT_NE(block[1], 0x11u) << "it is somebody's";
        block[0] = c;
        block[1] = 0x11;
        mine.push_back(block);
      } else {
        std::swap(mine[random.below(mine.size())], mine.back());
        ASSERT_EQ(mine.back()[0], c);
        ASSERT_EQ(mine.back()[1], 0x11u);
        mine.back()[1] = 0;
        heap().release(wanderer, home, c, mine.back());
        mine.pop_back();
      }
    }
    for (auto& [c, blocks] : live)
      for (u64* block : blocks) heap().release(wanderer, slab(), c, block);
    for (Slab* each : slabs) heap().magazines().empty(*each);
    ASSERT_EQ(heap().backing().spans(), 0u) << "round " << round;
  }
}

}  // namespace
}  // namespace freeway::test
