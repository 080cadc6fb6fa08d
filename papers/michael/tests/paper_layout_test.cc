// SPDX-License-Identifier: MIT
//
// The build variant with the paper's layout: blocks begin at multiples of 16 and pointers 8 bytes behind, so that the
// prefix costs no alignment; everything else works as it does in the form that ships.
#include "allocator_world.h"
#include "tests/support/test_env.h"

namespace freeway::michael {
namespace {

static_assert(kPaperLayout, "compiled with FREEWAY_MICHAEL_PAPER_LAYOUT=1");

TEST(MichaelPaperLayout, PointersAreEightBehindMultiplesOfSixteen) {
  for (const Form& form : kForms) {
    World<test::TestEnv> world(1, form.policy, form.list);
    std::vector<uptr> blocks;
    for (std::size_t bytes = 0; bytes <= kMaxSmallBytes; bytes += 61) {
      blocks.push_back(world.malloc(bytes));
      ASSERT_EQ(blocks.back() % 16, 8u) << bytes;
      memset(reinterpret_cast<void*>(blocks.back()), 0x5a, bytes);
      ASSERT_GE(world.usable(blocks.back()), bytes);
    }
    const uptr aligned = world.michael().malloc_aligned(100, 64, 0);
    EXPECT_EQ(aligned % 64, 0u);
    blocks.push_back(aligned);
    for (uptr block : blocks) {
      ASSERT_FALSE(world.free(block + 8));
      ASSERT_TRUE(world.free(block));
    }
    world.expect_empty();
  }
}

}  // namespace
}  // namespace freeway::michael
