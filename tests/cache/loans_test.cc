// SPDX-License-Identifier: MIT
//
// Tests of cache/loans.h: which class lends to which, that a loan keeps what the class's own blocks promise, and that
// loans end.
#include "cache/loans.h"

#include <gtest/gtest.h>

#include "tests/support/test_env.h"

namespace freeway {
namespace {

using Loans = Loans<test::TestEnv>;

TEST(Loans, ALenderIsTheNextPowerOfTwo) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 size = kSizeClasses[c].size, lent = kSizeClasses[loans::kLenders[c]].size;
    const bool borrows = size > 64 && size <= 4096 && (size & (size - 1)) != 0;
    EXPECT_EQ(loans::cost_of(c), lent - size);
    EXPECT_EQ(borrows, lent != size) << size;
    if (!borrows) continue;
    EXPECT_EQ(lent & (lent - 1), 0u) << size;
    EXPECT_LT(size, lent);
    EXPECT_LT(lent, 2 * size);
  }
}

TEST(Loans, WhatIsLentIsAlignedAsTheClassIs) {
  for (std::size_t alignment = kMinBlock; alignment <= kMaxSmall; alignment *= 2)
    for (std::size_t bytes = 1; bytes <= kMaxSmall; bytes += bytes < 4096 ? 1 : 128)
      if (const unsigned c = class_of_aligned(bytes, alignment)) {
        ASSERT_EQ(kSizeClasses[loans::kLenders[c]].size % alignment, 0u) << bytes << " at " << alignment;
        ASSERT_GE(kSizeClasses[loans::kLenders[c]].size, bytes);
      }
}

TEST(Loans, EachClassBorrowsUntilItHasLostItsShareAndThenNeverAgain) {
  Loans loans;
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 cost = loans::cost_of(c);
    u32 lost = 0;
    while (loans.serve(c) != c) lost += cost;
    EXPECT_LE(lost, loans::kMostLost);
    EXPECT_TRUE(cost == 0 || lost + cost > loans::kMostLost) << "it ends when the next one would cost too much";
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(loans.serve(c), c);
  }
}

TEST(Loans, AClassWhoseLoansWereEndedGetsItsOwnAtOnce) {
  Loans loans;
  for (unsigned c = 1; c < kClassCount; ++c) {
    loans.end(c);
    EXPECT_EQ(loans.serve(c), c);
  }
}

TEST(Loans, AllCanBeEndedAtOnce) {
  Loans loans;
  loans.end_all();
  loans.end_all();
  for (unsigned c = 1; c < kClassCount; ++c) EXPECT_EQ(loans.serve(c), c);
}

TEST(Loans, AnEndInTheMidstOfALoanIsNotUndone) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    if (loans::cost_of(c) == 0 || loans::cost_of(c) > loans::kMostLost) continue;
    Loans loans;
    test::TestEnv::at_step("loans.seen", [&] { loans.end(c); });
    EXPECT_EQ(loans.serve(c), c);
    for (int i = 0; i < 100; ++i) ASSERT_EQ(loans.serve(c), c);
  }
}

}  // namespace
}  // namespace freeway
