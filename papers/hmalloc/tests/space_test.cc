// SPDX-License-Identifier: MIT
//
// The paper's claims about space (section 3; 4.5), on the heaps alone: at most N x M for N threads of M bytes; memory
// of producer and consumer does not grow; and the price of the design, measured: one probe, and coalescence free.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "heap_world.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

using test::TestEnv;
using World = HeapWorld<TestEnv>;
using S = PaperSizes;

// Bytes of superblocks that ever were in use: up to CurrentAddr, which only grows.
std::size_t touched(World& world) {
  std::size_t sum = 0;
  for (auto& [address, kind] : world.superblocks)
    sum += is_local(kind) ? reinterpret_cast<World::Local*>(address)->current_addr.load_relaxed() - address
                          : reinterpret_cast<World::Shared*>(address)->current_addr.get() - address;
  return sum;
}

// A producer and a consumer with `window` blocks on the way: after any number of rounds the producer has touched no
// more than the window, what the consumer's list may keep, and the pages of headers.
TEST(Space, AProducersMemoryIsBoundedByWhatIsOnTheWay) {
  for (std::size_t bytes : {8u, 48u, 500u}) {
    World world;
    World::Heap& producer = *world.heaps.join(world);
    World::Heap& consumer = *world.heaps.join(world);
    constexpr std::size_t kWindow = 500;
    std::deque<uptr> on_the_way;
    std::size_t after_first = 0;
    for (int i = 0; i < 300000; ++i) {
      on_the_way.push_back(producer.allocate_shared(bytes));
      if (on_the_way.size() > kWindow) {
        world.free_shared(&consumer, on_the_way.front());
        on_the_way.pop_front();
      }
      if (i == 100000) after_first = world.bytes();
    }
    EXPECT_EQ(world.bytes(), after_first) << "no superblock is made in 200,000 further rounds";
    const std::size_t object = shared_size<S>(bytes);
    // VacantObjects are used up before any freed block is looked at: the current superblock is always touched whole.
    const std::size_t m = std::max<std::size_t>((kWindow + S::kCacheLimit + 1) * object, S::kFirst);
    EXPECT_LE(world.bytes(), m + S::kLater) << "N x M, and the superblock that M ends in";
    std::printf("  %zu-byte blocks: %zu KiB touched, %zu KiB of superblocks; %zu KiB on the way\n", bytes,
                touched(world) / kKiB, world.bytes() / kKiB, kWindow * object / kKiB);
  }
}

// N threads, each with its own working set in turns: the heap holds no more than N times what one needs at most.
TEST(Space, NThreadsTakeAtMostNTimesWhatOneTakes) {
  auto run = [](int threads) {
    World world;
    std::vector<World::Heap*> heaps;
    for (int t = 0; t < threads; ++t) heaps.push_back(world.heaps.join(world));
    for (int round = 0; round < 20; ++round)
      for (World::Heap* heap : heaps) {  // one after the other: the memory of one is no use to the next
        std::vector<uptr> blocks;
        for (int i = 0; i < 3000; ++i) blocks.push_back(heap->allocate_shared(40 + i % 200));
        for (uptr block : blocks) world.free_shared(heap, block);
      }
    return world.bytes();
  };
  const std::size_t one = run(1);
  EXPECT_EQ(run(8), 8 * one) << "and that is what no global heap costs";
}

// The price of the one-probe rule: blocks in use at Index keep a superblock's free blocks out of reach.
TEST(Space, OneBlockInUseKeepsAWholeSharedSuperblockFromBeingReused) {
  World world;
  World::Heap& heap = *world.heaps.join(world);
  constexpr int kRounds = 5;
  std::size_t live = 0;
  for (int round = 0; round < kRounds; ++round) {  // fill one superblock of 4 MiB, free all of it but the first block
    std::vector<uptr> blocks{heap.allocate_shared(kMaxShared)};
    auto& sb = world.shared_of(blocks[0]);
    while (blocks.size() < sb.total_objects.get()) blocks.push_back(heap.allocate_shared(kMaxShared));
    for (std::size_t i = 1; i < blocks.size(); ++i) world.free_shared(nullptr, blocks[i]);
    ++live;
  }
  EXPECT_EQ(world.bytes(), S::kFirst + (kRounds - 1) * S::kLater) << "each round needs a new one";
  std::printf("  %zu live blocks of 32 KiB (%zu KiB) hold %zu KiB\n", live, live * 32, world.bytes() / kKiB);
}

// Random replacement: the share of the superblocks that is live, by the one-probe rule.
TEST(Space, GrowthByTheOneProbeRuleUnderRandomReplacementIsBoundedAndReported) {
  test::Random random(test::test_seed());
  World world;
  World::Heap& heap = *world.heaps.join(world);
  std::vector<uptr> blocks(20000);
  for (uptr& block : blocks) block = heap.allocate_shared(40);
  std::size_t at_half = 0;
  for (int i = 0; i < 2000000; ++i) {
    uptr& block = blocks[random.below(blocks.size())];
    world.free_shared(nullptr, block);
    block = heap.allocate_shared(40);
    if (i == 1000000) at_half = touched(world);
  }
  const std::size_t live = blocks.size() * 64;
  std::printf("  live %zu KiB; touched %zu KiB after 1 M replacements, %zu KiB after 2 M\n", live / kKiB,
              at_half / kKiB, touched(world) / kKiB);
  EXPECT_GT(touched(world), live);
  EXPECT_LE(world.bytes(), 16 * S::kLater);
}

// The price of coalescence free: one live block of 16 bytes holds 4 MiB.
TEST(Space, OneLiveLocalBlockHoldsASuperblockOf4MiB) {
  World world;
  World::Heap& heap = *world.heaps.join(world);
  std::vector<uptr> kept;
  for (int round = 0; round < 5; ++round) {
    kept.push_back(heap.allocate_local(16));
    auto& sb = *world.local_of(kept.back());
    std::vector<uptr> blocks;
    while (sb.available_space() > 1024) blocks.push_back(heap.allocate_local(1024));
    for (uptr block : blocks) world.free_local(block);
    while (sb.available_space() > 16) heap.allocate_local(16);
    EXPECT_GE(sb.live_blocks(), 1u);
  }
  EXPECT_EQ(world.bytes(), S::kFirst + 4 * S::kLater);
  std::printf("  5 live blocks of 16 bytes, and at most 64 more, hold %zu KiB\n", world.bytes() / kKiB);
}

}  // namespace
}  // namespace freeway::hmalloc
