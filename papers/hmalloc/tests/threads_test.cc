// SPDX-License-Identifier: MIT
//
// Threads that allocate, pass blocks on, free each other's, end, and inherit: no block is in two hands and none is
// lost.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "heap_world.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

// Sizes at which superblocks are exhausted all the time.
struct SmallSizes : PaperSizes {
  static constexpr std::size_t kFirst = 64 * kKiB, kLater = 128 * kKiB;
  static constexpr u32 kCacheLimit = 5;
};
using World = HeapWorld<test::TestEnv, SmallSizes>;

struct Mailboxes {
  static constexpr int kBoxes = 64;
  std::atomic<uptr> boxes[kBoxes];
};

struct Content {
  u64 owner, size, check;
};
void fill(uptr block, u64 owner, u64 size) {
  *reinterpret_cast<Content*>(block) = {owner, size, owner ^ size ^ block};
  memset(reinterpret_cast<void*>(block + sizeof(Content)), static_cast<int>(owner), size - sizeof(Content));
}
void check(uptr block) {
  const auto& c = *reinterpret_cast<const Content*>(block);
  ASSERT_EQ(c.check, c.owner ^ c.size ^ block);
  const auto* bytes = reinterpret_cast<const unsigned char*>(block);
  for (u64 i = sizeof(Content); i < c.size; i += 61) ASSERT_EQ(bytes[i], static_cast<unsigned char>(c.owner));
}

// What one thread of the test does in one life.
void live(World& world, Mailboxes& mail, u64 seed, int moves) {
  test::Random random(seed);
  World::Heap* heap = world.heaps.join(world);
  std::vector<uptr> mine;
  for (int i = 0; i < moves; ++i) {
    if (random.chance(50)) {
      const u64 size = 24 + random.below(random.chance(20) ? 9000 : 300);
      const uptr block = heap->allocate_shared(size);
      ASSERT_NE(block, 0u);
      fill(block, seed, size);
      mine.push_back(block);
    }
    if (!mine.empty() && random.chance(70)) {  // swap with a mailbox
      std::swap(mine.back(), mine[random.below(mine.size())]);
      const uptr other = mail.boxes[random.below(Mailboxes::kBoxes)].exchange(mine.back(), std::memory_order_acq_rel);
      mine.pop_back();
      if (other != 0) {
        check(other);
        ASSERT_EQ(world.free_shared(random.chance(80) ? heap : nullptr, other), Freed::kYes);
      }
    }
    if (random.chance(1)) {
      heap->empty_caches();
      heap->trim();
    }
  }
  for (uptr block : mine) {
    check(block);
    ASSERT_EQ(world.free_shared(heap, block), Freed::kYes);
  }
  world.heaps.leave(world, heap);
}

TEST(Threads, PassBlocksOnEndAndInherit) {
  constexpr int kThreads = 4, kLives = 12, kMoves = 4000;
  World world;
  Mailboxes mail{};
  const u64 seed = test::test_seed();
  for (int life = 0; life < kLives; ++life) {
    std::vector<std::thread> threads;
    for (u64 t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] { live(world, mail, seed + life * 100 + t, kMoves); });
    for (auto& thread : threads) thread.join();
  }
  EXPECT_LE(world.heaps_made(), static_cast<u32>(kThreads));
  for (auto& box : mail.boxes)
    if (box != 0) {
      check(box);
      EXPECT_EQ(world.free_shared(nullptr, box), Freed::kYes);
    }
  // Nothing is lost: with all cache lists emptied, every superblock is empty.
  world.heaps.each_ended(world, [](World::Heap& heap) { heap.empty_caches(); }, [](World::Heap& heap) { heap.trim(); });
  EXPECT_EQ(world.superblocks.size(), 0u);
}

}  // namespace
}  // namespace freeway::hmalloc
