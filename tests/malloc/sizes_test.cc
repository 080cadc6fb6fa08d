// SPDX-License-Identifier: MIT
//
// Tests of malloc/sizes.h: for every size, the blocks that it may be named for are those that malloc may give for it,
// and those that realloc may have left it in.
#include "malloc/sizes.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/test_env.h"

namespace freeway {
namespace {

using LoansOf = Loans<test::TestEnv>;

// The classes whose blocks malloc gives for requests of class `c`, one after the other.
const std::set<unsigned>& given_for(unsigned c) {
  static std::set<unsigned> classes[kClassCount];
  LoansOf loans;
  for (int i = 0; i < 100 && classes[c].size() < 2; ++i) classes[c].insert(loans.serve(c));
  return classes[c];
}

TEST(Sizes, OfASmallBlockAreThoseThatMallocHasItFor) {
  for (unsigned asked = 1; asked < kClassCount; ++asked) {
    const std::set<unsigned> given = given_for(asked);
    const std::size_t least = asked == 1 ? 0 : kSizeClasses[asked - 1].size + 1;
    for (std::size_t size = least; size <= kSizeClasses[asked].size; ++size)
      for (unsigned c = 1; c < kClassCount; ++c)
        ASSERT_EQ(sizes::may_be_small(c, {size, 1, false}), given.contains(c)) << size << " in class " << c;
  }
  for (unsigned c = 1; c < kClassCount; ++c)
    for (const std::size_t size : {kMaxSmall + 1, std::size_t{PTRDIFF_MAX}})
      EXPECT_FALSE(sizes::may_be_small(c, {size, 1, true}) || sizes::may_be_small(c, {size, 1, false}));
}

TEST(Sizes, OfAnAlignedBlockAreThoseThatAlignedAllocHasItFor) {
  for (std::size_t alignment = 1; alignment <= kMaxSmall; alignment *= 2)
    for (std::size_t size = 0; size <= kMaxSmall; size += size < 2000 ? 1 : 97) {
      const unsigned asked = class_of_aligned(size, alignment);
      for (unsigned c = 1; c < kClassCount; ++c)
        ASSERT_EQ(sizes::may_be_small(c, {size, alignment, false}), given_for(asked).contains(c))
            << size << " at " << alignment << " in class " << c;
    }
}

TEST(Sizes, AfterReallocAreThoseThatItKeepsABlockFor) {
  for (unsigned c = 1; c < kClassCount; ++c)
    for (std::size_t size = 0; size <= kMaxSmall; ++size) {
      const Told told = {size, 1, true};
      const std::size_t bytes = kSizeClasses[c].size;
      const bool was_shrunk = size <= bytes && (c == 1 || size > bytes / 2);
      ASSERT_EQ(sizes::may_be_small(c, told), was_shrunk || sizes::may_be_small(c, {size, 1, false}))
          << size << " " << c;
    }
}

// What alloc_at_least said, or less down to what was asked for.
TEST(Sizes, FromWhatWasAskedForUpToTheBlocksLengthNameOneBlock) {
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 4)
    for (std::size_t asked = 1; asked <= kMaxSmall - alignment; asked += asked < 5000 ? 7 : 601) {
      const unsigned own = class_of_aligned(asked, alignment);
      for (const unsigned c : given_for(own))
        for (std::size_t size = asked; size <= kSizeClasses[c].size; ++size)
          ASSERT_TRUE(sizes::may_be_small(c, {size, alignment, false})) << asked << ", " << size << " at " << alignment;
    }
}

TEST(Sizes, OfALargeBlockAreThoseOfItsFrames) {
  const Told large = {100000, 1, false}, small = {kMaxSmall, 1, true}, aligned = {kMaxSmall, 65536, false};
  EXPECT_TRUE(sizes::may_be_large(2, 2, false, large));
  EXPECT_FALSE(sizes::may_be_large(3, 2, false, large) || sizes::may_be_large(1, 2, false, large));
  EXPECT_FALSE(sizes::may_be_large(1, 1, false, small)) << "realloc moves it into a superblock";
  EXPECT_TRUE(sizes::may_be_large(1, 1, false, aligned));
  const Told resized = {100000, 1, true};
  EXPECT_TRUE(sizes::may_be_large(9, 2, true, resized)) << "the kernel may refuse to end a part of a mapping";
  EXPECT_FALSE(sizes::may_be_large(9, 2, false, resized) || sizes::may_be_large(9, 2, true, large) ||
               sizes::may_be_large(1, 2, true, resized));
}

TEST(Sizes, OfAGuardedBlockAreItsOwn) {
  for (std::size_t size = 1; size <= 4096; ++size)
    for (const std::size_t other : {size - 1, size + 1})
      EXPECT_TRUE(sizes::may_be_guarded(size, {size, 1, true}) &&
                  (size + other == 1 || !sizes::may_be_guarded(size, {other, 1, true})));
  EXPECT_TRUE(sizes::may_be_guarded(1, {0, 1, false}));
  EXPECT_TRUE(sizes::may_be_guarded(112, {100, 16, false}) && sizes::may_be_guarded(104, {100, 8, false}) &&
              sizes::may_be_guarded(128, {100, 64, false}));
  EXPECT_FALSE(sizes::may_be_guarded(113, {100, 16, false}) || sizes::may_be_guarded(112, {100, 8, false}) ||
               sizes::may_be_guarded(99, {100, 64, false}) || sizes::may_be_guarded(129, {100, 64, false}));
}

TEST(Sizes, ThatMallocRefusesAreNoBlocks) {
  EXPECT_FALSE((Told{SIZE_MAX, 1, true}.can_be() || Told{std::size_t{PTRDIFF_MAX} + 1, 1, true}.can_be()));
  EXPECT_FALSE((Told{1, 0, true}.can_be() || Told{1, 48, true}.can_be()));
  EXPECT_TRUE((Told{PTRDIFF_MAX, std::size_t{1} << 63, true}.can_be()));
}

}  // namespace
}  // namespace freeway
