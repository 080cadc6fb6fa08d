// SPDX-License-Identifier: MIT
// size_classes_test.cc: the paper's sizes: small up to 2 KiB, page blocks for about 1,024 objects.
#include <gtest/gtest.h>

#include "papers/streamflow/page_block.h"
#include "papers/streamflow/size_classes.h"
#include "unit/test_env.h"

namespace freeway::streamflow {
namespace {

template <Build kWhich>
void check_classes() {
  using Classes = SizeClasses<kWhich>;
  for (std::size_t bytes = 0; bytes <= kMaxObject; ++bytes) {
    const unsigned c = Classes::class_of(bytes);
    ASSERT_GE(c, 1u);
    ASSERT_LE(c, Classes::kClasses);
    const ObjectClass& k = Classes::kAll[c];
    ASSERT_GE(k.usable, bytes);
    ASSERT_LT(k.stride - kWhich.object_header, bytes + (bytes == 0) + kWhich.class_step)
        << "the smallest class that fits";
    const std::size_t alignment = kWhich.class_step;
    ASSERT_EQ(k.first % alignment, 0u);
    ASSERT_EQ(k.stride % alignment, 0u);
    ASSERT_GE(k.first, kPageBlockHeader + kWhich.object_header);
    ASSERT_LE(k.limit - kWhich.object_header, page_block_bytes(k.order)) << "the last object fits";
    ASSERT_GT(k.limit + k.stride - kWhich.object_header, page_block_bytes(k.order)) << "one more does not";
  }
}

TEST(StreamflowSizeClasses, EverySizeHasTheSmallestClassThatFits) {
  check_classes<kHeaders>();
  check_classes<kHeaderless>();
  check_classes<kSuperpages>();
  check_classes<kPacked>();
}

TEST(StreamflowSizeClasses, PageBlocksHoldAbout1024ObjectsWithinTheLimits) {
  for (u64 stride = 4; stride <= kMaxObject; stride += 4) {
    const std::size_t bytes = page_block_bytes(page_block_order(stride));
    EXPECT_GE(bytes, kMinPageBlock);
    EXPECT_LE(bytes, kMaxPageBlock);
    if (bytes > kMinPageBlock && bytes < kMaxPageBlock) {
      EXPECT_GE(bytes / stride, kObjectsWanted * 2 / 3) << stride;
      EXPECT_LE(bytes / stride, kObjectsWanted * 4 / 3) << stride;
    }
  }
  EXPECT_EQ(page_block_order(4), 0u);
  EXPECT_EQ(page_block_order(16), 0u);
  EXPECT_EQ(page_block_order(32), 1u);
  EXPECT_EQ(page_block_order(40), 1u);
  EXPECT_EQ(page_block_order(48), 2u) << "equally near: the larger";
  EXPECT_EQ(page_block_order(64), 2u);
  EXPECT_EQ(page_block_order(256), 4u);
  EXPECT_EQ(page_block_order(2048), 4u) << "not 2 MiB";
}

TEST(StreamflowSizeClasses, AHeaderFitsWhereThePaperPutsIt) {
  EXPECT_LE(sizeof(PageBlock<test::TestEnv>), std::size_t{kPageBlockHeader});
}

TEST(StreamflowSizeClasses, EveryOffsetFindsItsObject) {
  static PageBlock<test::TestEnv> b;
  for (unsigned c = 1; c <= SizeClasses<kHeaders>::kClasses; ++c) {
    const ObjectClass& k = SizeClasses<kHeaders>::kAll[c];
    b.format(1, c, k);
    u32 object = k.first;
    ASSERT_EQ(b.object_at(k.first - 1), 0u);
    for (u32 offset = k.first; offset < k.limit; ++offset) {
      if (offset == object + k.stride) object = offset;
      ASSERT_EQ(b.object_at(offset), object);
    }
    ASSERT_EQ(b.object_at(k.limit), 0u);
  }
}

}  // namespace
}  // namespace freeway::streamflow
