// SPDX-License-Identifier: MIT
// size_classes_test.cc: the paper's sizes: up to 2 KiB, page blocks for about 1,024 objects; and those above.
#include <gtest/gtest.h>

#include "papers/streamflow/page_block.h"
#include "papers/streamflow/size_classes.h"
#include "tests/support/test_env.h"

namespace freeway::streamflow {
namespace {

template <Build kWhich> void check_classes() {
  using Classes = SizeClasses<kWhich>;
  u32 below = 0;
  for (std::size_t bytes = 0; bytes <= Classes::kMostBytes; ++bytes) {
    const unsigned c = Classes::class_of(bytes);
    ASSERT_GE(c, 1u);
    ASSERT_LE(c, Classes::kClasses);
    const ObjectClass& k = Classes::kAll[c];
    ASSERT_GE(k.usable, bytes);
    const std::size_t needed = bytes + (bytes == 0) + kWhich.object_header;
    ASSERT_GT(needed, Classes::stride_of(c - 1)) << "the smallest class that fits";
    if (needed <= kMaxFine) ASSERT_LT(k.stride, needed + kWhich.class_step);
    else ASSERT_LT(k.stride * 4, needed * 5 + 4 * kWhich.class_step) << "a quarter more, at most";
    ASSERT_GE(k.stride, below);
    below = k.stride;
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

TEST(StreamflowSizeClasses, ThoseAboveThePapersAreInPageBlocksOfTheLargestSize) {
  using Classes = SizeClasses<kHeaderless>;
  EXPECT_EQ(Classes::kAll[Classes::class_of(2049)].stride, 2560u);
  EXPECT_EQ(Classes::kAll[Classes::class_of(3000)].stride, 3072u);
  EXPECT_EQ(Classes::kAll[Classes::class_of(4096)].stride, 4096u);
  EXPECT_EQ(Classes::kAll[Classes::class_of(4097)].stride, 5120u);
  EXPECT_EQ(Classes::kAll[Classes::class_of(kMaxObject)].stride, kMaxObject);
  EXPECT_EQ(Classes::class_of(kMaxObject), Classes::kClasses);
  for (unsigned c = Classes::kFineClasses + 1; c <= Classes::kClasses; ++c)
    EXPECT_EQ(page_block_bytes(Classes::kAll[c].order), kMaxPageBlock);
}

TEST(StreamflowSizeClasses, PageBlocksHoldAbout1024ObjectsWithinTheLimits) {
  for (u64 stride = 4; stride <= kMaxFine; stride += 4) {
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
