// SPDX-License-Identifier: MIT
//
// Tests of pages/committed_range.h: what is below the watermark is accessible, the watermark only grows, the kernel's
// refusals lose nothing, and a thread that stops leaves nothing that stops others.
#include "pages/committed_range.h"

#include <gtest/gtest.h>

#include "differential/random.h"
#include "unit/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

constexpr std::size_t kPage = 64 * kKiB;

class CommittedRangeTest : public testing::Test {
 protected:
  void SetUp() override { kernel().reset(); }
  void TearDown() override { kernel().reset(); }

  void make(std::size_t bytes) {
    base_ = kernel().reserve(bytes, kPage);
    ASSERT_NE(base_, 0u);
    range_.init(base_, bytes);
  }
  // What the watermark promises.
  void check() {
    ASSERT_LE(range_.committed(), range_.bytes());
    if (range_.committed() > 0) {
      ASSERT_TRUE(kernel().is_accessible(base_, range_.committed()));
    }
  }

  uptr base_ = 0;
  CommittedRange<TestEnv> range_;
};

TEST_F(CommittedRangeTest, NothingIsAccessibleBeforeItIsAskedFor) {
  make(kMiB);
  EXPECT_EQ(range_.committed(), 0u);
  EXPECT_EQ(kernel().accessible_bytes(), 0u);
  EXPECT_TRUE(range_.ensure(0));
  EXPECT_EQ(kernel().calls(Call::kCommit), 0u);
}

TEST_F(CommittedRangeTest, ContainsItsAddressesAndNoOthers) {
  make(kMiB);
  EXPECT_TRUE(range_.contains(base_));
  EXPECT_TRUE(range_.contains(base_ + kMiB - 1));
  EXPECT_FALSE(range_.contains(base_ + kMiB));
  EXPECT_FALSE(range_.contains(base_ - 1));
  EXPECT_FALSE(range_.contains(0));
  EXPECT_FALSE(range_.contains(~uptr{0}));
}

TEST_F(CommittedRangeTest, WhatWasEnsuredCanBeWritten) {
  make(64 * kMiB);
  for (std::size_t end = kPage; end <= 64 * kMiB; end += 7 * kPage) {
    ASSERT_TRUE(range_.ensure(end));
    ASSERT_GE(range_.committed(), end);
    check();
    *reinterpret_cast<volatile char*>(base_ + end - 1) = 1;
  }
}

TEST_F(CommittedRangeTest, WhatIsAccessibleIsNotAskedForAgain) {
  make(kMiB);
  ASSERT_TRUE(range_.ensure(kPage));
  const auto calls = kernel().calls(Call::kCommit);
  for (std::size_t end = 0; end <= range_.committed(); end += kPage) ASSERT_TRUE(range_.ensure(end));
  EXPECT_EQ(kernel().calls(Call::kCommit), calls);
}

TEST_F(CommittedRangeTest, StepsGrowWithTheSizeBetweenTheirBounds) {
  make(kGiB);
  std::size_t before = 0;
  while (range_.committed() < kGiB) {
    ASSERT_TRUE(range_.ensure(range_.committed() + kPage));
    const std::size_t step = range_.committed() - before;
    ASSERT_GE(step, 128 * kKiB);
    ASSERT_LE(step, 64 * kMiB + 128 * kKiB);
    if (range_.committed() < kGiB) {
      ASSERT_GE(step, clamp(before / 4, 128 * kKiB, 64 * kMiB));
      ASSERT_LE(step, clamp(before / 4, 128 * kKiB, 64 * kMiB) + 128 * kKiB);
    }
    before = range_.committed();
  }
  EXPECT_LT(kernel().calls(Call::kCommit), 70u) << "few calls for a gigabyte";
}

TEST_F(CommittedRangeTest, TheEndOfTheReservationIsNeverPassed) {
  make(3 * kPage);  // less than two first steps, and no multiple of one
  ASSERT_TRUE(range_.ensure(kPage));
  ASSERT_TRUE(range_.ensure(3 * kPage));  // the kernel would object to more
  EXPECT_EQ(range_.committed(), 3 * kPage);
  check();
}

TEST_F(CommittedRangeTest, WhereAGoodStepIsRefusedWhatIsNeededWillDo) {
  make(kMiB);
  kernel().refuse(Call::kCommit, 1);
  ASSERT_TRUE(range_.ensure(kPage));
  EXPECT_EQ(range_.committed(), kPage);
  check();
  ASSERT_TRUE(range_.ensure(2 * kPage));
  check();
}

TEST_F(CommittedRangeTest, RefusalIsReportedAndForgottenOnceMemoryIsBack) {
  make(kMiB);
  ASSERT_TRUE(range_.ensure(kPage));
  const std::size_t before = range_.committed();
  kernel().refuse_from_now_on(Call::kCommit);
  EXPECT_FALSE(range_.ensure(kMiB));
  EXPECT_EQ(range_.committed(), before);
  EXPECT_TRUE(range_.ensure(before)) << "what is there needs no kernel";
  kernel().refuse_nothing();
  EXPECT_TRUE(range_.ensure(kMiB));
  check();
}

TEST_F(CommittedRangeTest, AThreadThatStopsBeforeTheWatermarkStopsNobody) {
  make(kMiB);
  EXPECT_TRUE(test::ended_at("range.committed", [&] { range_.ensure(kPage); }));
  EXPECT_EQ(range_.committed(), 0u);
  EXPECT_TRUE(range_.ensure(2 * kPage));  // commits the same again
  check();
}

TEST_F(CommittedRangeTest, WhoIsOvertakenDoesNotMoveTheWatermarkBack) {
  make(64 * kMiB);
  TestEnv::at_step("range.committed", [&] { EXPECT_TRUE(range_.ensure(16 * kMiB)); });
  EXPECT_TRUE(range_.ensure(kPage));
  EXPECT_GE(range_.committed(), 16 * kMiB);
  check();
  // Overtaken by less than he needs, he goes on.
  TestEnv::at_step("range.committed", [&] { EXPECT_TRUE(range_.ensure(range_.committed() + kPage)); });
  EXPECT_TRUE(range_.ensure(40 * kMiB));
  EXPECT_GE(range_.committed(), 40 * kMiB);
  check();
}

TEST_F(CommittedRangeTest, RandomDemandsAndRefusalsKeepThePromise) {
  Random random(test::test_seed());
  for (int round = 0; round < 50; ++round) {
    kernel().reset();
    const std::size_t pages = 1 + random.below(600);
    CommittedRange<TestEnv> range;
    base_ = kernel().reserve(pages * kPage, kPage);
    range.init(base_, pages * kPage);
    std::size_t watermark = 0;
    for (int i = 0; i < 40; ++i) {
      const std::size_t end = random.below(pages + 1) * kPage;
      if (random.chance(30)) kernel().refuse(Call::kCommit, 1, 1 + random.below(2));
      const bool ok = range.ensure(end);
      kernel().refuse_nothing();
      ASSERT_EQ(ok, end <= range.committed());
      ASSERT_GE(range.committed(), watermark);
      watermark = range.committed();
      ASSERT_LE(watermark, pages * kPage);
      ASSERT_EQ(watermark == 0 || kernel().is_accessible(base_, watermark), true);
    }
  }
}

}  // namespace
}  // namespace freeway
