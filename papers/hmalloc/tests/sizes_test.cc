// SPDX-License-Identifier: MIT
//
// Tests of papers/hmalloc/sizes.h and flag.h: the paper's limits to the byte, and the flag word.
#include "papers/hmalloc/sizes.h"

#include <gtest/gtest.h>

#include "papers/hmalloc/flag.h"

namespace freeway::hmalloc {
namespace {

using S = PaperSizes;

TEST(Sizes, AreThePapers) {
  EXPECT_EQ(S::kFirst, 65536u);
  EXPECT_EQ(S::kLater, 4194304u);
  EXPECT_EQ(S::kCacheLimit, 100u);
  EXPECT_EQ(S::kSharedLimit, 32768u);
  EXPECT_EQ(S::kClasses, 511u);
}

TEST(Sizes, SharedBlocksHoldRequestAndFlagInWholeLines) {
  for (std::size_t request = 0; request <= kMaxShared; ++request) {
    const std::size_t size = shared_size<S>(request);
    ASSERT_EQ(size % 64, 0u);
    ASSERT_GE(size, request + S::kFlagArea);
    ASSERT_LT(size, request + S::kFlagArea + 64);
    ASSERT_TRUE(fits_shared<S>(size));
    ASSERT_EQ(size_to_class<S>(size), size / 64 - 1);
    ASSERT_LT(size_to_class<S>(size), S::kClasses);
  }
  EXPECT_EQ(size_to_class<S>(64), 0u) << "class 0 is 64 B";
  EXPECT_EQ(size_to_class<S>(128), 1u);
  EXPECT_EQ(shared_size<S>(64 - S::kFlagArea), 64u);
  EXPECT_EQ(shared_size<S>(65 - S::kFlagArea), 128u);
  EXPECT_FALSE(fits_shared<S>(32768)) << "sz < 32 KB, so 32 KB goes to the OS";
  EXPECT_TRUE(fits_shared<S>(32768 - 64));
}

TEST(Sizes, LocalBlocksBelowHalfOfTheCurrentSuperblock) {
  EXPECT_TRUE(fits_local(32767, S::kFirst));
  EXPECT_FALSE(fits_local(32768, S::kFirst));
  EXPECT_TRUE(fits_local(32768, S::kLater));
  EXPECT_FALSE(fits_local(2097152, S::kLater));
  EXPECT_TRUE(fits_local(local_size<S>(kMaxLocal), S::kLater));
  EXPECT_FALSE(fits_local(local_size<S>(kMaxLocal + 1), S::kLater));
  for (std::size_t request = 0; request < 1000; ++request) {
    ASSERT_EQ(local_size<S>(request) % S::kLocalStep, 0u);
    ASSERT_GE(local_size<S>(request), request);
    ASSERT_LT(local_size<S>(request), request + S::kLocalStep + (request == 0));
  }
}

TEST(Sizes, AFrameTellsTheSuperblock) {
  const uptr at = 0x7f0000000000;
  for (Kind kind : {Kind::kLocalFirst, Kind::kSharedFirst}) {
    EXPECT_EQ(superblock_of<S>(at + 0x10000 + 5, kind), at + 0x10000);
    EXPECT_EQ(bytes_of<S>(kind), S::kFirst);
  }
  for (Kind kind : {Kind::kLocalLater, Kind::kSharedLater}) {
    EXPECT_EQ(superblock_of<S>(at + 0x3fffff, kind), at);
    EXPECT_EQ(superblock_of<S>(at + 0x400000, kind), at + 0x400000);
  }
  EXPECT_TRUE(is_local(Kind::kLocalLater));
  EXPECT_FALSE(is_local(Kind::kSharedFirst));
  EXPECT_FALSE(is_kind(0));
  EXPECT_FALSE(is_kind(5));
}

TEST(Flag, SaysHowABlockIsUsed) {
  using F = Flag<S>;
  EXPECT_EQ(F::occupied(S::kFlagArea), 1u) << "as in the paper";
  for (std::size_t offset = 0; offset < S::kSharedLimit; ++offset) {
    const u64 word = F::occupied(offset);
    ASSERT_NE(word, F::kFree);
    ASSERT_TRUE(F::is_occupied(word));
    ASSERT_FALSE(F::is_cached(word));
    ASSERT_EQ(F::offset(word), offset);
    ASSERT_EQ(word == 1, offset == S::kFlagArea);
  }
  for (uptr next : {uptr{0}, uptr{64}, uptr{0x7fffffffffc0}}) {
    const u64 word = F::cached(next);
    EXPECT_NE(word, F::kFree) << "to the owner a cached block is occupied";
    EXPECT_TRUE(F::is_cached(word));
    EXPECT_FALSE(F::is_occupied(word));
    EXPECT_EQ(F::next(word), next);
  }
  EXPECT_FALSE(F::is_occupied(F::kFree));
  EXPECT_FALSE(F::is_cached(F::kFree));
}

}  // namespace
}  // namespace freeway::hmalloc
