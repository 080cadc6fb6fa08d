// SPDX-License-Identifier: MIT
//
// The size classes and the radix map (size_map.h), exhaustively, against what the paper says of them.
#include "papers/lfmalloc/size_map.h"

#include <gtest/gtest.h>

namespace freeway::lfmalloc {
namespace {

TEST(SizeMap, StepsAreAtMostTwentyPercent) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 below = kClasses[c - 1].stride, stride = kClasses[c].stride;
    EXPECT_GT(stride, below);
    EXPECT_TRUE(stride * 100 <= below * (100 + kMaxStep) || stride == below + 16) << below << " -> " << stride;
    if (below >= 80) { EXPECT_LE(stride * 100, below * (100 + kMaxStep)) << "from 80 bytes up there is no exception"; }
  }
}

TEST(SizeMap, EverySizeHasTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 0; bytes <= kLargestBlock; ++bytes) {
    const unsigned c = class_of_size(bytes);
    ASSERT_LT(c, kClassCount);
    ASSERT_GE(kClasses[c].data_bytes(), bytes);
    if (c > 0) { ASSERT_LT(kClasses[c - 1].data_bytes(), bytes) << bytes; }
  }
}

TEST(SizeMap, BlocksFillASuperblockAndDataAreAligned) {
  for (const BlockClass& k : kClasses) {
    EXPECT_EQ(k.stride % 16, 0U);
    EXPECT_GE(k.blocks, 2U) << "a full superblock must not become empty at once";
    EXPECT_LE(kFirstData - kPrefixBytes + u64{k.blocks} * k.stride, kSuperblockBytes);
    EXPECT_GT(kFirstData - kPrefixBytes + u64{k.blocks + 1} * k.stride, kSuperblockBytes);
  }
}

TEST(SizeMap, EveryOffsetLeadsToItsBlock) {
  for (const BlockClass& k : kClasses)
    for (u64 offset = kFirstData; offset < kSuperblockBytes; ++offset) {
      ASSERT_EQ(k.index_of(offset), (offset - kFirstData) / k.stride);
      ASSERT_EQ(k.data_of(offset), kFirstData + (offset - kFirstData) / k.stride * k.stride);
    }
}

}  // namespace
}  // namespace freeway::lfmalloc
