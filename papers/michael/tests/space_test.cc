// SPDX-License-Identifier: MIT
//
// The paper's space claims: descriptors are less than 1 % of what is allocated (§3.2.5), and a processor heap holds at
// most two superblocks of a size class (§4.2.5): the active one and the partial one; others are with the size class,
// for all.
#include "allocator_world.h"
#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

using test::Random;
using test::TestEnv;
using TestWorld = World<TestEnv>;

TEST(MichaelSpace, DescriptorsAreLessThanOneInAHundred) {
  // Fully used memory, of each class alone: a descriptor of 64 bytes for 16 KiB, and 640 bytes for 1 MiB.
  for (unsigned c = 0; c < kClasses; ++c) {
    TestWorld world;
    while (world.os().spans() <= 4) ASSERT_NE(world.malloc(block_size(c) - kPrefix), 0u);
    EXPECT_LT(world.descriptor_bytes() * 100, world.os().spans() * kHyperblockBytes) << block_size(c);
  }
}

// They are reused: not more than were ever needed at once, whatever order frees come in.
TEST(MichaelSpace, DescriptorsAreReused) {
  Random random(test::test_seed());
  for (const Form& form : kForms) {
    TestWorld world(2, form.policy, form.list);
    std::size_t after_first = 0;
    for (int round = 0; round < 20; ++round) {
      std::vector<uptr> blocks;
      for (int i = 0; i < 500; ++i) blocks.push_back(world.malloc(kMaxSmallBytes, static_cast<u32>(i % 2)));
      for (std::size_t i = blocks.size(); i > 0; --i) {
        const std::size_t which = random.below(i);
        std::swap(blocks[which], blocks[i - 1]);
        EXPECT_TRUE(world.free(blocks[i - 1]));
      }
      if (round == 2) after_first = world.descriptor_bytes();
    }
    // EMPTY ones that are still listed wait for the next to come by: some, not all.
    EXPECT_LE(world.descriptor_bytes(), after_first + 64 * 250) << form.name;
  }
}

// Superblocks without a live block that are still held: only as many as heaps have active words, and in the Partial
// slots there are none that are empty.
TEST(MichaelSpace, AHeapHoldsTwoSuperblocksOfAClassAtMost) {
  Random random(test::test_seed());
  for (const Form& form : kForms) {
    constexpr u32 kHeaps = 3;
    TestWorld world(kHeaps, form.policy, form.list);
    for (std::size_t bytes : {std::size_t{8}, std::size_t{500}, std::size_t{2000}, kMaxSmallBytes}) {
      std::vector<uptr> blocks;
      for (int i = 0; i < 3000; ++i) blocks.push_back(world.malloc(bytes, static_cast<u32>(random.below(kHeaps))));
      for (std::size_t i = blocks.size(); i > 0; --i) {
        std::swap(blocks[random.below(i)], blocks[i - 1]);
        EXPECT_TRUE(world.free(blocks[i - 1]));
        blocks.pop_back();
      }
      // All is freed: what is left is held by heaps, one active superblock each.
      for (u32 h = 0; h < kHeaps; ++h)
        for (auto& slot : world.michael().heap(class_of(bytes), h).partial) {
          const auto* desc = slot.load_relaxed();
          EXPECT_TRUE(desc == nullptr || anchor::state(desc->anchor.load_relaxed()) == anchor::kEmpty);
        }
      EXPECT_LE(world.figures().superblocks, kHeaps * 1u) << form.name << ", blocks of " << bytes;
      world.expect_empty();
    }
  }
}

// "limits space blowup to a constant factor": one thread allocates, another frees, for ever.
TEST(MichaelSpace, ProducersAndConsumersReuseMemory) {
  for (const Form& form : kForms) {
    TestWorld world(2, form.policy, form.list);
    std::size_t most = 0;
    std::vector<uptr> queue;
    for (int round = 0; round < 200; ++round) {
      for (int i = 0; i < 1000; ++i) queue.push_back(world.malloc(100, 0));
      for (uptr block : queue) EXPECT_TRUE(world.free(block));  // freed by anybody: the block knows its superblock
      queue.clear();
      const auto superblocks = world.figures().superblocks;
      most = superblocks > most ? superblocks : most;
      EXPECT_LE(world.os().spans(), 1u) << round;
    }
    EXPECT_LE(most, 2u);
  }
}

}  // namespace
}  // namespace freeway::michael
