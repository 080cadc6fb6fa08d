// SPDX-License-Identifier: MIT
//
// Tests of size/size_classes.h: every size, every alignment, every offset of every class.
#include "size/size_classes.h"

#include <gtest/gtest.h>

#include <vector>

namespace freeway {
namespace {

// The definition: the first class that is large enough, found by looking at all of them.
unsigned smallest_class(std::size_t bytes, std::size_t alignment) {
  for (unsigned c = 1; c < kClassCount; ++c)
    if (kSizeClasses[c].size >= bytes && kSizeClasses[c].size % alignment == 0) return c;
  return 0;
}

TEST(SizeClasses, StepBy16BytesTo128ThenByQuartersOfAPowerOfTwoWithAnEighthBehindThoseFrom1KiBOn) {
  std::vector<u32> sizes;
  for (u32 size = 16; size <= 128; size += 16) sizes.push_back(size);
  for (u32 power = 128; power < kMaxSmall; power *= 2) {
    if (power >= kKiB) sizes.push_back(power + power / 8);
    for (u32 quarter = 1; quarter <= 4; ++quarter) sizes.push_back(power + quarter * (power / 4));
  }
  ASSERT_EQ(sizes.size(), kClassCount - 1);
  for (unsigned c = 1; c < kClassCount; ++c) EXPECT_EQ(kSizeClasses[c].size, sizes[c - 1]) << "class " << c;
}

TEST(SizeClasses, EverySizeGetsTheSmallestClassThatHoldsIt) {
  for (std::size_t bytes = 0; bytes <= kMaxSmall; ++bytes)
    ASSERT_EQ(class_of_size(bytes), smallest_class(bytes, 1)) << bytes;
}

TEST(SizeClasses, LessThanAQuarterIsLostInABlockAndATenthOnAverage) {
  double lost = 0;
  for (std::size_t bytes = 1; bytes <= kMaxSmall; ++bytes) {
    const std::size_t waste = kSizeClasses[class_of_size(bytes)].size - bytes;
    if (bytes <= 128) ASSERT_LT(waste, 16u) << bytes;
    else ASSERT_LT(4 * waste, bytes) << bytes;
    lost += static_cast<double>(waste) / static_cast<double>(bytes + waste);
  }
  EXPECT_LT(lost / kMaxSmall, 0.1);
}

TEST(SizeClasses, EverySizeAndAlignmentGetsTheSmallestClassWhoseBlocksAllAreAligned) {
  for (std::size_t alignment = 1; alignment <= 128 * kKiB; alignment *= 2)
    for (std::size_t bytes = 0; bytes <= kMaxSmall + 1; ++bytes)
      ASSERT_EQ(class_of_aligned(bytes, alignment), smallest_class(bytes, alignment)) << bytes << " to " << alignment;
  EXPECT_EQ(class_of_aligned(PTRDIFF_MAX, 16), 0u);
  EXPECT_EQ(class_of_aligned(1, std::size_t{1} << 63), 0u);
}

TEST(SizeClasses, BlocksOfASpanAreAlignedToWhatDividesTheirSize) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    const std::size_t alignment = k.size & -k.size;
    ASSERT_EQ(k.span_bytes() % alignment, 0u) << "class " << c;  // spans are aligned to their size
    ASSERT_GE(alignment, kMinBlock);
  }
}

TEST(SizeClasses, SpansAreOneOfThreeSizesAndHoldAsManyBlocksAsFit) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    const std::size_t expected = k.size <= 2 * kKiB ? 64 * kKiB : k.size <= 8 * kKiB ? 256 * kKiB : kMiB;
    ASSERT_EQ(k.span_bytes(), expected) << "class " << c;
    ASSERT_LE(std::size_t{k.blocks} * k.size, expected);
    ASSERT_GT(std::size_t{k.blocks + 1} * k.size, expected);
    ASSERT_LE(4 * k.size, expected * 2) << "a superblock has a few blocks at least";
  }
}

TEST(SizeClasses, WordsHaveABitForEachBlockAndNoOther) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    ASSERT_GE(k.words, 1u);
    ASSERT_LE(k.words, kMaxWords);
    u32 blocks = 0;
    for (unsigned word = 0; word < k.words; ++word) {
      const u64 mask = k.full_mask(word);
      ASSERT_NE(mask, 0u);
      ASSERT_EQ(mask & (mask + 1), 0u) << "bits from the lowest up, without a hole";
      ASSERT_TRUE(word + 1 == k.words || mask == ~u64{0});
      blocks += popcount(mask);
    }
    ASSERT_EQ(blocks, k.blocks) << "class " << c;
  }
}

TEST(SizeClasses, EveryOffsetOfEverySpanLeadsToItsBlock) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    u32 index = 0, within = 0;
    for (u64 offset = 0; offset < k.span_bytes(); ++offset) {
      ASSERT_EQ(k.index_of(offset), index) << "class " << c << " offset " << offset;
      if (++within == k.size) {
        within = 0;
        ++index;
      }
    }
    ASSERT_GE(index, k.blocks);
  }
}

TEST(SizeClasses, TheProductIsBelowTheLimitExactlyWhereABlockBegins) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    const u64 factor = k.begin_factor(), limit = k.begin_limit();
    u64 begins = 0;
    for (u64 offset = 0; offset < k.span_bytes(); ++offset) {
      const bool expected = offset % k.size == 0 && offset / k.size < k.blocks;
      ASSERT_EQ(offset * factor < limit, expected) << "class " << c << " offset " << offset;
      ASSERT_EQ(k.block_at(k.span_bytes() + offset) != SizeClass::kNoBlock, expected) << "class " << c;
      begins += expected;
    }
    ASSERT_EQ(begins, k.blocks);
  }
}

TEST(SizeClasses, ClassZeroHasNoBlocks) {
  EXPECT_EQ(kSizeClasses[0].size, 0u);
  EXPECT_EQ(kSizeClasses[0].blocks, 0u);
  EXPECT_EQ(kSizeClasses[0].words, 0u);
  EXPECT_EQ(kSizeClasses[0].span_frames, 0u);
}

TEST(SizeClasses, TheTwoTablesAnswerAsTheArithmeticDoes) {
  u8 by_byte[kByteTableMax + 1], by_step[kStepTableSize];
  fill_class_table(by_byte, 0);
  fill_class_table(by_step, kStepTableShift);
  for (std::size_t bytes = 0; bytes <= kByteTableMax; ++bytes) ASSERT_EQ(by_byte[bytes], class_of_size(bytes)) << bytes;
  // The step table is asked from the end of the byte table on, with the size rounded up to a whole step.
  for (std::size_t bytes = kByteTableMax + 1; bytes <= kMaxSmall; ++bytes) {
    const std::size_t entry = (bytes + (1 << kStepTableShift) - 1) >> kStepTableShift;
    ASSERT_LT(entry, kStepTableSize);
    ASSERT_EQ(by_step[entry], class_of_size(bytes)) << bytes;
  }
}

}  // namespace
}  // namespace freeway
