// SPDX-License-Identifier: MIT
//
// Tests of papers/michael/{allocator,hyperblocks,heap}.h with one thread and with many: contents, alignment, wrong
// pointers, refused memory, and that hyperblocks go back.
#include <thread>

#include "allocator_world.h"
#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

using test::Random;
using test::TestEnv;
using TestWorld = World<TestEnv>;

class MichaelAllocator : public testing::TestWithParam<Form> {
 protected:
  const Policy& policy() const { return GetParam().policy; }
  ListKind list() const { return GetParam().list; }
};
INSTANTIATE_TEST_SUITE_P(, MichaelAllocator, testing::ValuesIn(kForms), [](const auto& form) {
  std::string name;
  for (const char* c = form.param.name; *c != 0; ++c)
    if (isalnum(static_cast<unsigned char>(*c)) != 0) name += *c;
  return name;
});

struct Block {
  uptr address;
  std::size_t bytes;
  unsigned char pattern;
};
void fill(const Block& block) { memset(reinterpret_cast<void*>(block.address), block.pattern, block.bytes); }
bool is_intact(const Block& block) {
  const auto* p = reinterpret_cast<const unsigned char*>(block.address);
  for (std::size_t i = 0; i < block.bytes; ++i)
    if (p[i] != block.pattern) return false;
  return true;
}

TEST_P(MichaelAllocator, EverySizeIsAlignedUsableAndFreed) {
  TestWorld world(1, policy(), list());
  for (std::size_t bytes = 0; bytes <= kMaxSmallBytes; bytes += bytes < 300 ? 1 : 37) {
    const uptr block = world.malloc(bytes);
    ASSERT_NE(block, 0u);
    ASSERT_EQ(block % 16, 0u);
    ASSERT_EQ(world.usable(block), block_size(class_of(bytes)) - kPrefix);
    fill({block, bytes, 0xee});
    ASSERT_TRUE(world.free(block));
  }
  world.expect_empty();
}

TEST_P(MichaelAllocator, ContentsSurviveRandomOrders) {
  Random random(test::test_seed());
  TestWorld world(3, policy(), list());
  std::vector<Block> blocks;
  std::size_t live_most = 0;
  for (int i = 0; i < 60000; ++i) {
    const bool growing = i / 10000 % 2 == 0;
    if (random.chance(growing ? 60 : 40)) {
      const std::size_t bytes = random.below(random.chance(90) ? 400 : kMaxSmallBytes + 1);
      const Block block = {world.malloc(bytes, static_cast<u32>(random.below(3))), bytes,
                           static_cast<unsigned char>(i)};
      ASSERT_NE(block.address, 0u);
      fill(block);
      blocks.push_back(block);
    } else if (!blocks.empty()) {
      const std::size_t which = random.below(blocks.size());
      ASSERT_TRUE(is_intact(blocks[which]));
      ASSERT_TRUE(world.free(blocks[which].address));
      blocks[which] = blocks.back();
      blocks.pop_back();
    }
    live_most = blocks.size() > live_most ? blocks.size() : live_most;
    if (i % 5000 == 0) { ASSERT_EQ(world.figures().live_blocks, blocks.size()); }
    if (i % 17001 == 0) world.michael().trim();
  }
  EXPECT_GT(live_most, 1000u);
  for (const Block& block : blocks) ASSERT_TRUE(world.free(block.address));
  world.expect_empty();
}

TEST_P(MichaelAllocator, OverAlignedBlocksAreFoundByDivision) {
  Random random(test::test_seed());
  TestWorld world(1, policy(), list());
  std::vector<Block> blocks;
  for (std::size_t alignment = 32; alignment <= 4096; alignment *= 2)
    for (int i = 0; i < 50; ++i) {
      const std::size_t bytes = random.below(kMaxSmallBytes - alignment + 1);
      const Block block = {world.michael().malloc_aligned(bytes, alignment, 0), bytes, static_cast<unsigned char>(i)};
      ASSERT_NE(block.address, 0u);
      ASSERT_EQ(block.address % alignment, 0u);
      ASSERT_GE(world.usable(block.address), bytes);
      fill(block);
      blocks.push_back(block);
    }
  for (const Block& block : blocks) {
    ASSERT_TRUE(is_intact(block));
    ASSERT_TRUE(world.free(block.address));
    ASSERT_FALSE(world.free(block.address)) << "twice";
  }
  world.expect_empty();
}

TEST_P(MichaelAllocator, WrongPointersAreNotBelieved) {
  TestWorld world(1, policy(), list());
  const uptr keep = world.malloc(100), block = world.malloc(100), other = world.malloc(100);
  memset(reinterpret_cast<void*>(block), 0, 100);
  for (uptr offset = 1; offset < 100; ++offset) {
    EXPECT_FALSE(world.free(block + offset));
    EXPECT_EQ(world.usable(block + offset), 0u);
    EXPECT_FALSE(world.michael().begins_block(block + offset, world.os().value_of(block)));
  }
  EXPECT_TRUE(world.free(block));
  EXPECT_FALSE(world.free(block)) << "twice";
  EXPECT_TRUE(world.michael().begins_block(block, world.os().value_of(block))) << "a block, if a free one";
  EXPECT_TRUE(world.free(other));
  EXPECT_FALSE(world.free(block)) << "twice, with another on top";
  // In a superblock that is not in use: never was, and not any more.
  EXPECT_FALSE(world.free(align_down(keep, kHyperblockBytes) + 40 * kSuperblockStride + 16));
  EXPECT_TRUE(world.free(keep));
  EXPECT_EQ(world.figures().live_blocks, 0u);
  world.expect_empty();
}

TEST_P(MichaelAllocator, RefusedMemoryLosesNothing) {
  TestWorld world(2, policy(), list());
  world.os().spans_left = 1;
  std::vector<uptr> blocks;
  while (const uptr block = world.malloc(1000, blocks.size() % 2)) blocks.push_back(block);
  EXPECT_GT(blocks.size(), 900u) << "all of the one hyperblock, from both heaps";
  EXPECT_EQ(world.malloc(3000), 0u);
  EXPECT_EQ(world.figures().live_blocks, blocks.size());
  EXPECT_TRUE(world.free(blocks.back()));
  blocks.pop_back();
  blocks.push_back(world.malloc(1000, 0));
  EXPECT_NE(blocks.back(), 0u) << "whichever heap it was freed to";
  for (uptr block : blocks) EXPECT_TRUE(world.free(block));
  world.expect_empty();
  world.os().refuse_units = true;  // descriptors are reused
  const uptr again = world.malloc(1000);
  EXPECT_NE(again, 0u);
  EXPECT_TRUE(world.free(again));
  world.expect_empty();
}

// "allowing them eventually to be returned to the OS"; and not the last one at each free.
TEST_P(MichaelAllocator, HyperblocksGoBackAsTheyEmpty) {
  TestWorld world(1, policy(), list());
  std::vector<uptr> blocks;
  while (world.os().spans() < 6) blocks.push_back(world.malloc(8000));
  for (uptr block : blocks) EXPECT_TRUE(world.free(block));
  EXPECT_LE(world.os().spans(), 3u) << "the active one, and those with an active superblock";
  world.expect_empty();
}

TEST(MichaelUntouched, BlocksAreNotWrittenBeforeTheyAreUsed) {
  for (const auto form : {anchor::Form::kLinked, anchor::Form::kUntouched}) {
    TestWorld world(1, {1, false, form}, ListKind::kFifo);
    const uptr block = world.malloc(100);
    const auto* rest = reinterpret_cast<const u64*>(block - 8 + 112);  // the next block
    EXPECT_EQ(*rest == 0xa5a5a5a5a5a5a5a5, form == anchor::Form::kUntouched);
    EXPECT_TRUE(world.free(block));
    // The superblocks behind it are untouched in both forms (§3.2.5).
    EXPECT_EQ(*reinterpret_cast<const u64*>(align_down(block, kHyperblockBytes) + 2 * kSuperblockStride),
              0xa5a5a5a5a5a5a5a5);
    world.expect_empty();
  }
}

TEST_P(MichaelAllocator, BetweenThreadsEveryBlockIsOnesOwn) {
  constexpr u32 kThreads = 4, kRounds = 30000, kMailboxes = 16;
  TestWorld world(2, policy(), list());
  Atomic<u64> mail[kMailboxes];
  std::vector<std::thread> threads;
  for (u32 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(test::test_seed() + t);
      std::vector<Block> mine;
      for (u32 i = 0; i < kRounds; ++i) {
        if (random.chance(55) || mine.empty()) {
          const std::size_t bytes = 8 + random.below(random.chance(95) ? 100 : 3000);
          const Block block = {world.malloc(bytes, t % 2), bytes, static_cast<unsigned char>(t * 64 + i % 64)};
          ASSERT_NE(block.address, 0u);
          fill(block);
          mine.push_back(block);
        } else {
          const std::size_t which = random.below(mine.size());
          const Block block = mine[which];
          mine[which] = mine.back();
          mine.pop_back();
          ASSERT_TRUE(is_intact(block));
          // Some are freed by whoever finds them.
          const u64 theirs =
              random.chance(50) ? mail[random.below(kMailboxes)].exchange_acq_rel(block.address) : block.address;
          if (theirs != 0) { ASSERT_TRUE(world.free(theirs)); }
        }
      }
      for (const Block& block : mine) ASSERT_TRUE(is_intact(block) && world.free(block.address));
    });
  for (auto& thread : threads) thread.join();
  for (auto& box : mail)
    if (const u64 block = box.load_relaxed()) { EXPECT_TRUE(world.free(block)); }
  world.expect_empty();
}

}  // namespace
}  // namespace freeway::michael
