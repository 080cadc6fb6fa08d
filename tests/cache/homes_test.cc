// SPDX-License-Identifier: MIT
//
// Tests of cache/homes.h and what magazines do with it: which blocks go home, and when; and of cache/slots.h in
// magazines: far blocks are marked in slots and nowhere else.
#include "cache/homes.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "tests/cache/test_heap.h"

namespace freeway::test {
namespace {

constexpr unsigned k16 = 1, k1024 = 20;  // classes of 16 and of 1024 bytes

class HomesTest : public testing::Test {
 protected:
  void SetUp() override {
    kernel().reset();
    heap_ = std::make_unique<TestHeap>();
    memory_ = std::make_unique<HeapSlab>(*heap_);
    move_to(slab(), 1);
  }
  void TearDown() override {
    EXPECT_EQ(heap().not_blocks, 0u);
    EXPECT_EQ(heap().twice_freed, 0u);
    heap_.reset();
    kernel().reset();
  }

  TestHeap& heap() { return *heap_; }
  TestSlab& memory() { return *memory_; }
  Slab& slab() { return memory_->slab(); }
  PlainSlab access() { return PlainSlab(slab()); }
  static void move_to(Slab& slab, u8 home) {
    for (auto& each : slab.home) each.store_relaxed(home);
  }

  void* allocate(unsigned c) { return heap().allocate(access(), slab(), c); }
  void release(unsigned c, void* block) { heap().release(access(), slab(), c, block); }
  template <class Access> void send_home(const Access& access, unsigned c) {
    heap().magazines().send_home(access, slab(), c);
  }

  // Blocks of this slab's home and of another's by turns, from the lowest slot up: on top lies a foreign one.
  void fill_by_turns(unsigned pairs) {
    HeapSlab other(heap());
    move_to(other.slab(), 2);
    for (unsigned i = 0; i < pairs; ++i) {
      own_.push_back(allocate(k16));
      foreign_.push_back(heap().allocate(PlainSlab(other.slab()), other.slab(), k16));
    }
    while (access().pop(k16) != 0) {}
    for (unsigned i = 0; i < pairs; ++i) {
      release(k16, own_[i]);
      release(k16, foreign_[i]);
    }
    ASSERT_EQ(memory().contents(k16).size(), 2 * pairs);
  }
  bool is_free(void* block) {
    const auto [d, span] = heap().backing().find(block);
    const u32 index = kSizeClasses[k16].index_of(reinterpret_cast<uptr>(block) - span);
    return (heap().backing().descriptor(d).words[index / 64].load_relaxed() >> (index % 64) & 1) != 0;
  }

  std::vector<void*> own_, foreign_;

 private:
  std::unique_ptr<TestHeap> heap_;
  std::unique_ptr<HeapSlab> memory_;
};

TEST_F(HomesTest, ForeignBlocksOnTopGoHomeAndTheOthersStayInOrder) {
  fill_by_turns(6);
  auto expected = memory().contents(k16);
  expected.erase(expected.begin() + 11);
  expected.erase(expected.begin() + 9);
  send_home(access(), k16);
  EXPECT_EQ(memory().contents(k16), expected) << "two of the topmost four are gone";
  for (unsigned i = 0; i < 6; ++i) {
    EXPECT_EQ(is_free(foreign_[i]), i >= 4) << i;
    EXPECT_FALSE(is_free(own_[i])) << i;
  }
  EXPECT_EQ(slab().patience.load_relaxed(), homes::kPatience);
}

TEST_F(HomesTest, BlocksThatAreAtHomeAllStay) {
  allocate(k16);
  const auto before = memory().contents(k16);
  send_home(access(), k16);
  EXPECT_EQ(memory().contents(k16), before);
  EXPECT_EQ(heap().groups_freed, 0u);
}

TEST_F(HomesTest, FewerBlocksThanAreLookedAtGoHomeTheSameWay) {
  fill_by_turns(1);
  send_home(access(), k16);
  EXPECT_EQ(memory().contents(k16), std::vector<u64>{reinterpret_cast<u64>(own_[0])});
  EXPECT_TRUE(is_free(foreign_[0]));
  access().pop(k16);
  send_home(access(), k16);
  EXPECT_TRUE(memory().contents(k16).empty());
}

// Of a class whose magazine was never opened, or of none.
TEST_F(HomesTest, WithoutAMagazineNothingGoesHome) {
  for (unsigned c = 0; c < kClassCount; ++c) send_home(access(), c);
  EXPECT_EQ(heap().groups_freed, 0u);
}

TEST_F(HomesTest, WithoutASlabNothingGoesAnywhere) {
  fill_by_turns(3);
  const auto before = memory().contents(k16);
  slab().patience.store_relaxed(0);
  send_home(NoSlab(), k16);
  EXPECT_EQ(memory().contents(k16), before);
  EXPECT_EQ(slab().patience.load_relaxed(), homes::kPatience) << "it is not tried again at each free";
}

TEST_F(HomesTest, WhatFitsNoMoreGoesToItsSuperblock) {
  fill_by_turns(10);
  std::vector<void*> others;
  HeapSlab other(heap());
  move_to(other.slab(), 1);
  while (others.size() < 200) others.push_back(heap().allocate(PlainSlab(other.slab()), other.slab(), k16));
  u64 pushed = 0;
  TestEnv::at_step("magazine.sending", [&] {
    while (access().push(k16, reinterpret_cast<u64>(others[pushed]))) ++pushed;
  });
  send_home(access(), k16);
  ASSERT_EQ(pushed, kMagazines[k16].small - 20 + homes::kSentAtOnce) << "others have filled it";
  for (unsigned i = 0; i < 10; ++i) {
    EXPECT_EQ(is_free(foreign_[i]), i >= 8) << i;
    EXPECT_EQ(is_free(own_[i]), i >= 8) << i;
  }
}

// The thread pops in one slab and pushes in another, whose home is the other one: the answer is only a hint.
TEST_F(HomesTest, WhereverTheThreadWandersNoBlockIsLostOrDoubled) {
  Random random(test_seed());
  for (int round = 0; round < 4; ++round) {
    HeapSlab one(heap()), two(heap());
    move_to(one.slab(), 2);
    move_to(two.slab(), 3);
    const std::vector<Slab*> slabs = {&slab(), &one.slab(), &two.slab()};
    const Wanderer wanderer(slabs, random);
    std::vector<void*> live;
    std::set<void*> is_live;
    for (int i = 0; i < 20000; ++i) {
      Slab& home = *slabs[random.below(3)];
      if (live.empty() || random.chance(i % 2000 < 1000 ? 60 : 40)) {
        void* block = heap().allocate(wanderer, home, k16);
        ASSERT_TRUE(block == nullptr || is_live.insert(block).second) << "it is somebody's";
        if (block != nullptr) live.push_back(block);
      } else {
        std::swap(live[random.below(live.size())], live.back());
        is_live.erase(live.back());
        heap().release(wanderer, home, k16, live.back());
        live.pop_back();
      }
      if (random.below(20) == 0) heap().magazines().send_home(wanderer, home, k16);
    }
    for (void* block : live) release(k16, block);
    for (Slab* each : slabs) heap().magazines().empty(*each);
    ASSERT_EQ(heap().backing().spans(), 0u) << "round " << round;
  }
}

TEST_F(HomesTest, AThreadThatEndsWhileItSendsLosesWhatItHasInHand) {
  fill_by_turns(10);
  EXPECT_TRUE(ended_at("magazine.sending", [&] { send_home(access(), k16); }));
  EXPECT_EQ(memory().contents(k16).size(), 20 - homes::kSentAtOnce);
  send_home(access(), k16);
  EXPECT_EQ(memory().contents(k16).size(), 20 - homes::kSentAtOnce - 2) << "others go on";
}

TEST_F(HomesTest, OneForeignFreeInManyIsDue) {
  EXPECT_TRUE(homes::is_due(slab())) << "a new slab looks at its first foreign block";
  send_home(access(), k16);
  for (int round = 0; round < 3; ++round) {
    for (u32 i = 0; i < homes::kPatience; ++i) ASSERT_FALSE(homes::is_due(slab())) << i;
    ASSERT_TRUE(homes::is_due(slab()));
    send_home(access(), k16);
  }
}

TEST(Homes, SlabsDifferWhereBlocksShareLinesAndNowhereElse) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    std::set<unsigned> numbers;
    for (u32 n = 0; n < 255; ++n) numbers.insert(homes::of_slab(n, c));
    bool shared = false;  // a block begins in the line where another ends
    for (u64 i = 1; i < kSizeClasses[c].blocks; ++i) shared |= i * kSizeClasses[c].size % homes::kLine != 0;
    EXPECT_EQ(homes::shares_lines(c), shared) << "class " << c;
    EXPECT_EQ(numbers.size(), shared ? 255u : 1u) << "class " << c;
    EXPECT_EQ(numbers.contains(0), !shared) << "0 is what was never settled";
  }
}

// --- Far. ------------------------------------------------------------------------------------------------------------

class FarTest : public HomesTest {
 protected:
  // A slot is marked if its block is far; no block is when it leaves.
  void check(Slab& slab, unsigned c) {
    for (u64 at = slab.top[c].load_relaxed() - 8; slab_words::slot(at)->load_relaxed() != 0; at -= 8) {
      const u64 slot = slab_words::slot(at)->load_relaxed();
      ASSERT_EQ((slot & slots::kFar) != 0, heap().is_far(reinterpret_cast<uptr>(slots::block_of(slot)))) << slot;
    }
  }
  static bool is_address(void* block) { return (reinterpret_cast<u64>(block) & slots::kFar) == 0; }
};

TEST_F(FarTest, FarBlocksAreMarkedInSlotsAndNowhereElse) {
  heap().far_from = 1;  // all are
  u64 flushes = 0;
  for (unsigned c = 1; c < kClassCount; ++c) {
    std::vector<void*> live;
    for (u64 i = 0; i < 6 * kMagazines[c].small + 3; ++i) {
      live.push_back(allocate(c));
      ASSERT_TRUE(live.back() != nullptr && is_address(live.back())) << "class " << c;
      check(slab(), c);
    }
    for (void* block : live) {
      release(c, block);
      check(slab(), c);
    }
    for (u8 home : {1, 2}) {  // none is foreign, all are
      slab().home[c].store_relaxed(home);
      send_home(access(), c);
      check(slab(), c);
    }
    flushes += slab().counters[c].flushes;
  }
  EXPECT_GT(flushes, 0u) << "some were unloaded";
  heap().magazines().empty(slab());
  EXPECT_EQ(heap().backing().spans(), 0u) << "each found its superblock";
}

TEST_F(FarTest, WithoutASlabTheRestOfAFarBatchGoesBack) {
  heap().far_from = 1;
  for (unsigned c = 1; c < kClassCount; ++c) {
    void* block = heap().allocate(NoSlab(), slab(), c);
    ASSERT_TRUE(block != nullptr && is_address(block));
    heap().release(NoSlab(), slab(), c, block);
  }
  EXPECT_EQ(heap().backing().spans(), 0u);
}

// About half of the superblocks are far; the slabs, and with them the homes, change under the thread.
TEST_F(FarTest, NearAndFarBlocksLieInOneMagazine) {
  Random random(test_seed());
  heap().far_bit = 8 * kFrameSize;
  HeapSlab other(heap());
  move_to(other.slab(), 2);
  const std::vector<Slab*> slabs = {&slab(), &other.slab()};
  const Wanderer wanderer(slabs, random);
  std::vector<void*> live;
  u64 far = 0, near = 0;
  for (int i = 0; i < 60000; ++i) {
    Slab& home = *slabs[random.below(2)];
    if (live.empty() || random.chance(i % 20000 < 10000 ? 90 : 10)) {
      void* block = heap().allocate(wanderer, home, k1024);
      if (block == nullptr) continue;
      ASSERT_TRUE(is_address(block));
      (heap().is_far(reinterpret_cast<uptr>(block)) ? far : near) += 1;
      live.push_back(block);
    } else {
      std::swap(live[random.below(live.size())], live.back());
      heap().release(wanderer, home, k1024, live.back());
      live.pop_back();
    }
    if (random.below(50) == 0) heap().magazines().send_home(wanderer, home, k1024);
    if (random.below(3000) == 0) heap().magazines().empty(home);
    for (Slab* each : slabs) check(*each, k1024);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(far, 100u);
  EXPECT_GT(near, 100u);
  for (void* block : live) release(k1024, block);
  for (Slab* each : slabs) heap().magazines().empty(*each);
  EXPECT_EQ(heap().backing().spans(), 0u);
}

}  // namespace
}  // namespace freeway::test
