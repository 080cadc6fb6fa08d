// SPDX-License-Identifier: MIT
//
// Tests of shared/ in one process: sizes and alignments, bad frees, slots, growth and refusal, damaged words, what is
// given back, threads at seats of their own; and what the audit says of all that.
#include "shared/heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "shared/tests/ground.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

using shared::Freed;
using Ground = SharedGround;

// Nothing is lost, and so many blocks are live.
void expect_clean(Ground& ground, u64 live) {
  const shared::Audit found = ground.heap().audit();
  EXPECT_EQ(found.lost_blocks, 0u);
  EXPECT_EQ(found.lost_frames, 0u);
  EXPECT_EQ(found.unnoticed, 0u);
  EXPECT_EQ(found.left_behind, 0u);
  EXPECT_EQ(found.live_blocks, live);
}
void expect_empty(Ground& ground) {
  expect_clean(ground, 0);
  EXPECT_EQ(ground.heap().audit().free_frames, ground.world().frames());
}

TEST(SharedHeap, EverySizeHasABlockOfItsOwn) {
  Ground ground(4096);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  std::vector<std::pair<u64, u64>> blocks;  // offset, bytes
  for (u64 bytes : {0, 1, 16, 17, 100, 1000, 1024, 2304, 5000, 8192, 9000, 32768, 32769, 65536, 65537, 300000})
    for (int i = 0; i < 40; ++i) {
      const u64 block = heap.malloc(1, bytes);
      ASSERT_NE(block, 0u);
      ASSERT_GE(heap.usable(block), bytes);
      memset(ground.at(block), i, heap.usable(block));
      blocks.emplace_back(block, heap.usable(block));
    }
  std::sort(blocks.begin(), blocks.end());
  for (std::size_t i = 1; i < blocks.size(); ++i)
    EXPECT_GE(blocks[i].first, blocks[i - 1].first + blocks[i - 1].second);
  expect_clean(ground, blocks.size());
  for (const auto& [block, bytes] : blocks) {
    const auto* contents = static_cast<const unsigned char*>(ground.at(block));
    EXPECT_EQ(contents[0], contents[bytes - 1]);
    EXPECT_EQ(heap.free(1, block), Freed::kDone);
    EXPECT_EQ(heap.usable(block), 0u);
  }
  heap.leave(1);
  expect_empty(ground);
  EXPECT_NE(ground.given_back.load_relaxed(), 0u);
}

TEST(SharedHeap, BlocksAreAligned) {
  Ground ground(512);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  for (u64 alignment = 16; alignment <= kFrameSize; alignment *= 2)
    for (u64 bytes : {1, 100, 5000, 70000}) {
      const u64 block = heap.malloc(1, bytes, alignment);
      EXPECT_EQ(block % alignment, 0u) << bytes << " at " << alignment;
      EXPECT_EQ(heap.free(1, block), Freed::kDone);
    }
}

TEST(SharedHeap, BadFreesAreNamedAndChangeNothing) {
  Ground ground(64);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  ASSERT_TRUE(heap.join(2, 0));
  const u64 small = heap.malloc(1, 100), spanning = heap.malloc(1, 5000), large = heap.malloc(1, 200000);
  for (const u64 block : {small, spanning, large}) {
    EXPECT_EQ(heap.free(2, block + 8), Freed::kNoBlock) << "inside of a block";
    EXPECT_EQ(heap.free(1, block), Freed::kDone);
    EXPECT_EQ(heap.free(2, block), Freed::kNotLive) << "by another seat";
    EXPECT_EQ(heap.free(1, block), Freed::kNotLive);
  }
  for (const u64 nothing : {u64{0}, u64{8}, ~u64{0}, ground.world().tables.offset_of(ground.capacity())})
    EXPECT_EQ(heap.free(1, nothing), Freed::kNoBlock);
  expect_clean(ground, 0);
}

TEST(SharedHeap, ASlotHoldsABlockOrNothing) {
  Ground ground(64);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  const u64 slot = heap.malloc(1, 64);
  auto& word = *ground.world().slot(slot);
  for (u64 bytes : {10, 5000, 100000}) {
    word.store_relaxed(0);
    const u64 block = heap.alloc_into(1, slot, bytes);
    EXPECT_NE(block, 0u);
    EXPECT_EQ(word.load_relaxed(), block);
    EXPECT_GE(heap.usable(block), bytes);
    EXPECT_EQ(heap.free_from(1, slot), Freed::kDone);
    EXPECT_EQ(word.load_relaxed(), 0u);
    EXPECT_EQ(heap.usable(block), 0u);
    EXPECT_EQ(heap.free_from(1, slot), Freed::kNoBlock) << "nothing is in it";
    word.store_relaxed(block);
    EXPECT_EQ(heap.free_from(1, slot), Freed::kNotLive);
    EXPECT_EQ(word.load_relaxed(), block) << "a bad free changes nothing";
  }
  EXPECT_EQ(heap.alloc_into(1, slot + 1, 10), 0u) << "not a slot";
  EXPECT_EQ(heap.alloc_into(1, ~u64{7}, 10), 0u) << "outside";
  expect_clean(ground, 1);
}

TEST(SharedHeap, GrowsUpToItsCapacityAndTakesWhatTheCallersMagazinesHold) {
  Ground ground(32);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  std::vector<u64> blocks;
  while (const u64 block = heap.malloc(1, 32768)) blocks.push_back(block);
  EXPECT_GE(blocks.size(), 32u) << "superblocks of this class have 16 frames";
  for (const u64 block : blocks) EXPECT_EQ(heap.free(1, block), Freed::kDone);
  const u64 all = heap.malloc(1, u64{32} * kFrameSize);
  EXPECT_NE(all, 0u) << "blocks in the own magazine stand in nobody's way";
  EXPECT_EQ(heap.malloc(1, 1), 0u);
  EXPECT_EQ(heap.malloc(1, ~u64{0} - 5), 0u);
  EXPECT_EQ(heap.free(1, all), Freed::kDone);
  heap.leave(1);
  expect_empty(ground);
}

TEST(SharedHeap, ARefusalOfMemoryLosesNothing) {
  Ground ground(64);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  for (u64 bytes : {16, 5000, 100000}) {
    ground.refusals = 1;
    const u64 block = heap.malloc(1, bytes);  // the second try succeeds
    EXPECT_NE(block, 0u);
    EXPECT_EQ(heap.free(1, block), Freed::kDone);
  }
  heap.leave(1);
  expect_empty(ground);
}

TEST(SharedHeap, FreeFramesCanBeTrimmed) {
  Ground ground(8, 8);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  const auto trimmed = [&] {
    u32 frames = 0;
    for (u32 f = 0; f < 9; ++f) frames += heap.trim(1, f);
    return frames;
  };
  EXPECT_EQ(trimmed(), 0u) << "none has memory yet";
  ground.at_once = false;
  EXPECT_EQ(heap.free(1, heap.malloc(1, 8 * kFrameSize)), Freed::kDone);
  const u64 block = heap.malloc(1, kFrameSize + 1);
  EXPECT_EQ(trimmed(), 6u);
  EXPECT_EQ(trimmed(), 0u);
  ground.at_once = true;
  EXPECT_EQ(heap.free(1, block), Freed::kDone);
  heap.leave(1);
  expect_empty(ground);
}

TEST(SharedHeap, SeatsAreTakenOnceAndThoseOfTheDeadAreCleanedUp) {
  Ground ground(64);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 3));
  EXPECT_FALSE(heap.join(1, 4)) << "somebody lives there";
  EXPECT_FALSE(heap.recover(1, 2));
  const u64 block = heap.malloc(1, 100);
  ground.set_gone(3);
  EXPECT_FALSE(heap.audit().is_clean()) << "what the dead had in its magazines is not accounted for";
  ASSERT_TRUE(heap.join(1, 4)) << "who sits down there cleans up";
  expect_clean(ground, 1);
  ground.set_gone(4);
  ASSERT_TRUE(heap.join(2, 5));
  EXPECT_EQ(heap.recover_all(2), 1u);
  EXPECT_EQ(heap.recover_all(2), 0u);
  EXPECT_EQ(heap.free(2, block), Freed::kDone);
  heap.leave(2);
  expect_empty(ground);
}

// Whoever waits until nobody counts as dead may believe the slots that the dead were filling (stats.seats_dead).
TEST(SharedHeap, ASeatThatIsTakenOverIsUnsettledUntilItIsClean) {
  Ground ground(64);
  ASSERT_TRUE(ground.heap().join(1, 3));
  ASSERT_TRUE(ground.heap().join(2, 4));
  const u64 slot = ground.heap().malloc(2, 8);
  auto& word = ground.world().tables.participant(1);
  EXPECT_FALSE(shared::participant::is_unsettled(word.load_relaxed()));
  ground.world().tables.slab(1).in_slot.store_relaxed(slot);
  ground.set_gone(3);
  struct Watched : Ground::World {
    unsigned unsettled = 0;
    TestEnv::Atomic<u64>* slot(u64 offset) {
      unsettled += shared::participant::is_unsettled(tables.participant(1).load_relaxed());
      return Ground::World::slot(offset);
    }
  } world{ground.world()};
  ASSERT_TRUE(shared::Heap<Watched>(world).join(1, 5));
  EXPECT_EQ(world.unsettled, 1u);
  EXPECT_FALSE(shared::participant::is_unsettled(word.load_relaxed()));
  EXPECT_EQ(shared::participant::token(word.load_relaxed()), 5u);
}

// The audit can fail: each of these is a word that a fault would have left.
TEST(SharedHeap, TheAuditSeesWhatIsLost) {
  Ground ground(16);
  auto heap = ground.heap();
  ASSERT_TRUE(heap.join(1, 0));
  auto& tables = ground.world().tables;
  const u64 block = heap.malloc(1, 100);
  const auto p = shared::place(tables, block, ground.world().frames());
  expect_clean(ground, 1);
  tables.state(p.frame, p.index).store_relaxed(1);
  EXPECT_EQ(heap.audit().lost_blocks, 1u) << "in no magazine";
  EXPECT_EQ(heap.audit().lost_bytes, 112u);
  tables.state(p.frame, p.index).store_relaxed(7);
  EXPECT_EQ(heap.audit().lost_blocks, 1u) << "of a seat where nobody sits";
  tables.state(p.frame, p.index).store_relaxed(0);
  EXPECT_EQ(heap.audit().lost_blocks, 1u) << "free without its bit";
  tables.state(p.frame, p.index).store_relaxed(shared::state::kLive);
  const u64 entry = tables.entries[p.frame].load_relaxed();
  tables.entries[p.frame].store_relaxed(shared::entry::small(p.size_class, 9));
  EXPECT_EQ(heap.audit().lost_frames, 1u) << "held by nobody who lives";
  tables.entries[p.frame].store_relaxed(shared::entry::small(p.size_class, 0));
  EXPECT_NE(heap.audit().lost_blocks, 0u) << "idle without its hint";
  tables.entries[p.frame].store_relaxed(shared::entry::tail(1));
  EXPECT_EQ(heap.audit().lost_frames, 1u) << "a tail without a head";
  tables.entries[p.frame].store_relaxed(shared::entry::claim(9, 1));
  EXPECT_EQ(heap.audit().lost_frames, 1u) << "claimed by nobody who lives";
  tables.entries[p.frame].store_relaxed(entry);
  expect_clean(ground, 1);
}

// Whatever the words are: nothing outside of the file is touched (the file lies between pages that are not there),
// calls end.
TEST(SharedHeap, DamagedWordsLeadNowhereElse) {
  Random random(number_from_environment("FREEWAY_TEST_SEED", 1));
  for (int round = 0; round < 60; ++round) {
    Ground ground(64, 64);
    auto heap = ground.heap();
    ASSERT_TRUE(heap.join(1, 0));
    ASSERT_TRUE(heap.join(2, 1));
    std::vector<u64> blocks;
    for (int i = 0; i < 30; ++i) blocks.push_back(heap.malloc(1, random.below(20000)));
    for (int i = 0; i < 15; ++i) heap.free(1, blocks[static_cast<std::size_t>(i)]);
    auto& tables = ground.world().tables;
    for (int i = 0; i < 40; ++i) {
      const u64 wild = random.chance(50) ? random.next() : random.below(1 << 20);
      const u32 f = static_cast<u32>(random.below(64));
      switch (random.below(6)) {
        case 0: tables.entries[f].store_relaxed(wild); break;
        case 1: tables.word(f, static_cast<u32>(random.below(64))).store_relaxed(wild); break;
        case 2: tables.state(f, static_cast<u32>(random.below(4096))).store_relaxed(static_cast<u8>(wild)); break;
        case 3: tables.slab(1).slots[random.below(shared::FlagshipShape::kSlots)].store_relaxed(wild); break;
        case 4: tables.slab(1).top[random.below(kClassCount)].store_relaxed(static_cast<u32>(wild)); break;
        default: tables.slab(1).held[random.below(kClassCount)].store_relaxed(static_cast<u32>(wild));
      }
      tables.slab(1).in_slot.store_relaxed(wild);
      tables.slab(1).next_frame.store_relaxed(static_cast<u32>(wild));
      tables.participant(3).store_relaxed(wild);
    }
    for (int i = 0; i < 200; ++i) {
      heap.malloc(1, random.below(100000));
      heap.free(1, random.chance(50) ? blocks[random.below(30)] : random.next());
      heap.usable(random.next());
    }
    ground.set_gone(0);
    heap.recover_all(2);
    heap.audit();
  }
}

TEST(SharedHeap, ThreadsAtSeatsOfTheirOwnFreeEachOthersBlocks) {
  constexpr int kThreads = 4, kRounds = 20000, kMailboxes = 64;
  Ground ground(4096);
  ground.heap().join(9, 0);
  std::vector<Atomic<u64>> mailboxes(kMailboxes);
  std::vector<std::thread> threads;
  const u64 seed = number_from_environment("FREEWAY_TEST_SEED", 1);
  for (u32 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(seed + t);
      auto heap = ground.heap();
      EXPECT_TRUE(heap.join(t + 1, 0));
      for (int i = 0; i < kRounds; ++i) {
        u64 block = 0;
        const u64 bytes = random.chance(2)    ? random.below(200000)
                          : random.chance(10) ? random.below(32768)
                                              : random.below(300);
        if (!random.chance(25)) {
          block = heap.malloc(t + 1, bytes);
          if (block == 0) return ADD_FAILURE() << "no memory", void();
          *static_cast<u64*>(ground.at(block)) = block;
        }
        block = mailboxes[random.below(kMailboxes)].exchange_acq_rel(block);
        if (block == 0) continue;
        EXPECT_EQ(*static_cast<u64*>(ground.at(block)), block) << "somebody else has it, too";
        EXPECT_EQ(heap.free(t + 1, block), Freed::kDone);
      }
      if (t % 2 == 0) heap.leave(t + 1);
    });
  for (auto& thread : threads) thread.join();
  u64 live = 0;
  for (auto& box : mailboxes) live += box.load_relaxed() != 0;
  expect_clean(ground, live);
  for (auto& box : mailboxes) {
    const u64 block = box.load_relaxed();
    EXPECT_EQ(ground.heap().free(9, block), block == 0 ? Freed::kNoBlock : Freed::kDone);
  }
  for (u32 seat : {2, 4, 9}) ground.heap().leave(seat);
  expect_empty(ground);
}

}  // namespace
}  // namespace freeway::test
