// SPDX-License-Identifier: MIT
//
// Tests of harden/quarantine.h and harden/scattered.h: how long freed blocks rest, how many places the next block may
// come from, and that no block is lost or doubled, also while the CPU changes and without memory.
#include "harden/quarantine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "harden/scattered.h"
#include "tests/cache/test_heap.h"

namespace freeway::test {
namespace {

constexpr unsigned k64 = 4;  // the class of 64 bytes

// A slab with beds.
class CarefulSlab {
 public:
  explicit CarefulSlab(TestHeap& heap) : memory_(quarantine::kSlabBytes / 8) {
    for (auto& top : slab().top) top.store_relaxed(heap.closed());
    for (auto& top : slab().rest) top.store_relaxed(heap.closed());
    for (unsigned c = 0; c < kClassCount; ++c) slab().capacity[c].store_relaxed(kMagazines[c].small);
    quarantine::close(slab(), heap.closed());
  }
  Slab& slab() { return *reinterpret_cast<Slab*>(memory_.data()); }

 private:
  std::vector<u64> memory_;
};

class QuarantineTest : public testing::Test {
 protected:
  void SetUp() override { begin(quarantine::kUsualBytes); }
  void TearDown() override {
    EXPECT_EQ(heap_->not_blocks, 0u);
    EXPECT_EQ(heap_->twice_freed, 0u);
    heap_.reset();
    kernel().reset();
  }
  void begin(u64 bytes) {
    kernel().reset();
    heap_ = std::make_unique<TestHeap>();
    slabs_.clear();
    for (int i = 0; i < 2; ++i) slabs_.push_back(std::make_unique<CarefulSlab>(*heap_));
    quarantine_.init(heap_.get(), &heap_->magazines(), bytes);
    scattered_.init(heap_.get(), &heap_->magazines(), &quarantine_);
  }

  Slab& slab(int i = 0) { return slabs_[static_cast<std::size_t>(i)]->slab(); }
  PlainSlab access() { return PlainSlab(slab()); }
  template <class Access> void* allocate(const Access& access, unsigned c) {
    void* block = scattered_.refill(access, slab(), c);
    return block != nullptr ? block : scattered_.direct(c);
  }
  template <class Access> void release(const Access& access, unsigned c, void* block) {
    if (!quarantine_.lay_down(access, slab(), c, block)) heap_->magazines().flush(c, &block, 1);
  }
  void* allocate(unsigned c) { return allocate(access(), c); }
  void release(unsigned c, void* block) { release(access(), c, block); }
  void empty() {
    for (auto& each : slabs_) {
      heap_->magazines().empty(each->slab());
      quarantine_.empty(each->slab());
    }
  }
  // Where the block lies in its superblock.
  static u64 place(void* block) { return reinterpret_cast<uptr>(block) % kSizeClasses[k64].span_bytes() / 64; }

  std::unique_ptr<TestHeap> heap_;
  std::vector<std::unique_ptr<CarefulSlab>> slabs_;
  Quarantine<TestHeap> quarantine_;
  Scattered<TestHeap> scattered_;
};

TEST_F(QuarantineTest, BedsHoldWhatTheOptionSaysAndLieBesideEachOther) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u64 size = kSizeClasses[c].size, slots = quarantine::slots_of(c);
    for (const u64 bytes : {u64{0}, quarantine::kUsualBytes, quarantine::kMostBytes}) {
      const u64 beds = quarantine::beds_of(c, bytes);
      EXPECT_LE(beds * slots * size, bytes) << "class " << c;
      EXPECT_TRUE(beds == quarantine::kMostBeds || (beds + 1) * slots * size > bytes) << "class " << c;
    }
    EXPECT_GE(quarantine::area(c, 0), (quarantine::kTurns + kClassCount) * 8);
    const u64 end = quarantine::area(c, quarantine::kMostBeds) + slots * 8;  // the last bed's upper zero
    EXPECT_LE(end + 8, c + 1 < kClassCount ? quarantine::area(c + 1, 0) : quarantine::kSlabBytes) << "class " << c;
  }
}

TEST_F(QuarantineTest, ABlockRestsWhileSoManyMoreAreFreed) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u64 beds = quarantine_.beds(c), slots = quarantine::slots_of(c);
    const u64 least = (beds - beds / 2) * slots;
    std::map<void*, u64> freed;
    u64 shortest = ~u64{0}, again = 0;
    for (u64 now = 0; now < 20 * (beds + 2) * slots; ++now) {
      void* block = allocate(c);
      ASSERT_NE(block, nullptr);
      if (const auto found = freed.find(block); found != freed.end()) {
        shortest = std::min(shortest, now - found->second - 1);
        ++again;
      }
      freed[block] = now;
      release(c, block);
    }
    EXPECT_GT(again, 0u) << "nothing ever comes back, class " << c;
    EXPECT_GE(shortest, least) << "class " << c;
  }
}

TEST_F(QuarantineTest, NothingIsHandedOutTwiceOrLostWhileTheCpuChanges) {
  const u64 seed = test_seed();
  Random random(seed);
  const Wanderer access({&slab(0), &slab(1)}, random);
  for (const u64 bytes : {quarantine::kUsualBytes, u64{0}, quarantine::kMostBytes}) {
    begin(bytes);
    const Wanderer wanderer({&slab(0), &slab(1)}, random);
    std::vector<std::pair<unsigned, void*>> live;
    std::set<void*> known;
    for (int i = 0; i < 200000; ++i) {
      const unsigned c = random.chance(80) ? k64 : 1 + static_cast<unsigned>(random.below(kClassCount - 1));
      if (live.size() < 300 || (live.size() < 2000 && random.chance(50))) {
        void* block = allocate(wanderer, c);
        ASSERT_TRUE(known.insert(block).second) << "handed out twice, seed " << seed;
        live.emplace_back(c, block);
      } else {
        std::swap(live[random.below(live.size())], live.back());
        known.erase(live.back().second);
        release(wanderer, live.back().first, live.back().second);
        live.pop_back();
      }
    }
    for (const auto& [c, block] : live) release(wanderer, c, block);
    empty();
    EXPECT_EQ(heap_->backing().spans(), 0u) << "all is free, so every superblock is gone";
  }
}

TEST_F(QuarantineTest, FarBlocksStayFar) {
  heap_->far_from = 1;
  std::vector<void*> blocks;
  for (int i = 0; i < 5000; ++i) blocks.push_back(allocate(k64));
  for (void* block : blocks) ASSERT_LT(reinterpret_cast<u64>(block), slots::kFar);
  for (void* block : blocks) release(k64, block);
  for (int i = 0; i < 100; ++i) ASSERT_LT(reinterpret_cast<u64>(allocate(k64)), slots::kFar);
  for (u64 at = slab().top[k64].load_relaxed() - 8; const u64 slot = slab_words::slot(at)->load_relaxed(); at -= 8)
    ASSERT_GE(slot, slots::kFar) << "the fast path takes it for near";
}

// Of so many tries no place comes up more often than one in 10^12 times would, were all of `places` as likely; and
// nearly all come up.
void expect_even(const std::map<u64, unsigned>& counts, u64 places, u64 tries) {
  const double mean = static_cast<double>(tries) / static_cast<double>(places);
  unsigned most = 0;
  for (const auto& [place, count] : counts) most = std::max(most, count);
  EXPECT_LE(most, mean + 9 * std::sqrt(mean) + 20);
  EXPECT_GE(counts.size(), places - places / 16);
}

// 8 tries a place: a place is missed once in 3000, 64 of 1024 are not.
TEST_F(QuarantineTest, InAFreshHeapTheNextBlockIsAnyOfASuperblock) {
  constexpr u64 kTries = 8192;
  const u64 places = kSizeClasses[k64].blocks;
  std::map<u64, unsigned> counts;
  for (u64 i = 0; i < kTries; ++i) {
    void* block = allocate(k64);
    ++counts[place(block)];
    release(k64, block);
    empty();
  }
  expect_even(counts, places, kTries);
}

// After a history that is always the same, but for what chance has done in it, at a refill: the places that the next
// block may have, weighed by how likely they are (collision entropy), are 2^8 at least.
TEST_F(QuarantineTest, InAUsedHeapTheNextBlockIsOneOfHundreds) {
  constexpr u64 kTries = 4096;
  std::map<u64, unsigned> counts;
  for (u64 i = 0; i < kTries; ++i) {
    std::vector<void*> blocks;
    for (int n = 0; n < 3000; ++n) blocks.push_back(allocate(k64));
    // The history as an observer knows it: which blocks, by address, were freed in which order.
    std::sort(blocks.begin(), blocks.end());
    for (std::size_t n = 0; n < blocks.size(); n += 2) release(k64, blocks[n]);
    while (const u64 slot = access().pop(k64)) release(k64, slots::block_of(slot));
    void* next = allocate(k64);
    const auto at = std::lower_bound(blocks.begin(), blocks.end(), next);
    ++counts[static_cast<u64>(at - blocks.begin())];
    for (std::size_t n = 1; n < blocks.size(); n += 2) release(k64, blocks[n]);
    release(k64, next);
    empty();
  }
  double pairs = 0;
  for (const auto& [place, count] : counts) pairs += static_cast<double>(count) * (count - 1.0);
  const double entropy = -std::log2(pairs / (static_cast<double>(kTries) * (kTries - 1.0)));
  printf("collision entropy of the next block: %.2f bits\n", entropy);
  EXPECT_GE(entropy, 8.0);
}

}  // namespace
}  // namespace freeway::test
