// SPDX-License-Identifier: MIT
//
// The paper's claims about space, through malloc itself: with N threads the heap takes at most N x M, M being what one
// thread takes at most. Producers and consumers are real threads here, as fast as they go.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "routes.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

constexpr size_t kFirst = 64 << 10, kLater = 4 << 20;

size_t superblock_bytes() {
  freeway_stats_t s;
  freeway_stats(&s, sizeof s);
  return s.mapped - s.dirty - s.huge - s.large;
}

// One producer, one consumer, a ring between them.
class Ring {
 public:
  static constexpr unsigned kSize = 256;
  bool put(void* block) {
    const unsigned to = to_.load(std::memory_order_relaxed);
    if (to - from_.load(std::memory_order_acquire) == kSize) return false;
    slots_[to % kSize] = block;
    to_.store(to + 1, std::memory_order_release);
    return true;
  }
  void* take() {
    const unsigned from = from_.load(std::memory_order_relaxed);
    if (from == to_.load(std::memory_order_acquire)) return nullptr;
    void* block = slots_[from % kSize];
    from_.store(from + 1, std::memory_order_release);
    return block;
  }

 private:
  std::atomic<unsigned> from_{0}, to_{0};
  void* slots_[kSize];
};

// Blocks of `bytes` from one thread to another, `count` of them, or of `bytes` to `most_bytes`. Returns the most bytes
// of superblocks seen above those at the start.
size_t produce_and_consume(int pairs, size_t bytes, long count, size_t most_bytes = 0) {
  auto rings = std::make_unique<Ring[]>(static_cast<size_t>(pairs));
  const size_t before = superblock_bytes();
  std::atomic<size_t> most{0};
  std::vector<std::thread> threads;
  for (int pair = 0; pair < pairs; ++pair) {
    Ring& ring = rings[static_cast<size_t>(pair)];
    threads.emplace_back(
        [&ring, bytes, most_bytes, count, &most, seed = test::test_seed() + static_cast<unsigned>(pair)] {
          test::Random random(seed);
          for (long i = 0; i < count; ++i) {
            void* block = malloc(most_bytes == 0 ? bytes : bytes + random.below(most_bytes - bytes + 1));
            *static_cast<long*>(block) = i;
            while (!ring.put(block)) std::this_thread::yield();
            if (i % 65536 == 0) most = std::max<size_t>(most, superblock_bytes());
          }
        });
    threads.emplace_back([&ring, count] {
      for (long i = 0; i < count; ++i) {
        void* block;
        while ((block = ring.take()) == nullptr) std::this_thread::yield();
        if (*static_cast<long*>(block) != i) abort();
        free(block);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  return std::max<size_t>(most, superblock_bytes()) - before;
}

// What is on the way is far less than a superblock of 64 KiB. The 100 blocks in the consumer's list stay there, so the
// first superblock's Index-th block never comes back, and a second one of 4 MiB is made: that is M.
TEST(Footprint, OfAProducerAndAConsumerIsAtMostNTimesM) {
  const size_t m = kFirst + kLater;
  for (size_t bytes : {8u, 36u, 200u}) {  // 8 and 36: the events of PHOLD and PCS
    const size_t took = produce_and_consume(1, bytes, 400000);
    std::printf("  %zu bytes: %zu KiB, M %zu KiB\n", bytes, took >> 10, m >> 10);
    EXPECT_LE(took, 2 * m) << "N = 2";
  }
}

// 97 MiB of blocks go through. Either heap may be the producer's the second time, and one of them is new to that.
TEST(Footprint, DoesNotGrowWithWhatGoesThrough) {
  produce_and_consume(1, 100, 100000);
  EXPECT_LE(produce_and_consume(1, 100, 800000), kFirst + kLater);
}

TEST(Footprint, OfManyPairsIsAtMostNTimesM) {
  const size_t m = kFirst + kLater;
  const size_t took = produce_and_consume(8, 300, 50000);
  std::printf("  8 pairs: %zu KiB, N x M %zu KiB\n", took >> 10, 16 * m >> 10);
  EXPECT_LE(took, 16 * m);
}

// Blocks of many sizes: whatever goes through, a class has a superblock of 64 KiB and one of 4 MiB; and a second of 4
// MiB where the first 64 KiB hold fewer than 100 blocks, for then the consumer's list has blocks of both the others.
// Four more for blocks that were on the way just when they were looked at.
TEST(Footprint, OfManySizesIsTwoOrThreeSuperblocksForEachClass) {
  const size_t classes = (2000 + 16 + 63) / 64, below_100 = classes - (kFirst - 128) / 100 / 64;
  const size_t bound = classes * (kFirst + kLater) + below_100 * kLater + 4 * kLater;
  const size_t took = produce_and_consume(1, 16, 400000, 2000);
  std::printf("  16 to 2000 bytes, %zu classes: %zu KiB, bound %zu KiB\n", classes, took >> 10, bound >> 10);
  EXPECT_LE(took, bound);
}

// The price: as many superblocks as there are classes in use, and one live local block holds 4 MiB.
TEST(Footprint, OneLiveLocalBlockHoldsASuperblock) {
  std::thread([] {
    const size_t before = superblock_bytes();
    std::vector<void*> kept;
    for (int round = 0; round < 4; ++round) {
      kept.push_back(malloc_local(16));
      std::vector<void*> blocks(4500);
      for (void*& block : blocks) block = malloc_local(1000);
      for (void* block : blocks) free(block);
    }
    const size_t took = superblock_bytes() - before;
    std::printf("  4 live blocks of 16 bytes: %zu KiB of superblocks\n", took >> 10);
    EXPECT_GE(took, 4 * kLater);
    for (void* block : kept) free(block);
  }).join();
}

}  // namespace
}  // namespace freeway::hmalloc
