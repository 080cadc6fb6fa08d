// SPDX-License-Identifier: MIT
//
// Tests of pages/committed_range.h: what is below the watermark is accessible, the watermark only grows, the kernel's
// refusals lose nothing, and a thread that stops leaves nothing that stops others; in reserved space and in space that
// is merely chosen. Then what only the latter has: things in the way, and holes.
#include "pages/committed_range.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

constexpr std::size_t kPage = 64 * kKiB;

class CommittedRangeTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { start(GetParam()); }
  void TearDown() override { kernel().reset(); }

  void start(bool reserved) {
    kernel().reset();
    if (!reserved) kernel().choose_spaces();
    piece_ = reserved ? Call::kCommit : Call::kExtend;
  }
  void make(std::size_t bytes) {
    const Space space = kernel().space(bytes, kPage);
    ASSERT_TRUE(space);
    base_ = space.base;
    range_.init(space, bytes);
  }
  bool ensure(std::size_t end) { return range_.ensure(0, end) == Access::kYes; }
  // What the watermark promises.
  void check() {
    ASSERT_LE(range_.committed(), range_.bytes());
    std::size_t reached = 0;
    const auto accessible_up_to = [&](std::size_t end) {
      EXPECT_TRUE(reached == end || kernel().is_accessible(base_ + reached, end - reached));
    };
    range_.each_hole([&](std::size_t from, std::size_t to) {
      ASSERT_LE(reached, from) << "holes in order";
      accessible_up_to(from);
      reached = to;
    });
    accessible_up_to(range_.committed());
  }
  std::size_t holes() {
    std::size_t bytes = 0;
    range_.each_hole([&](std::size_t from, std::size_t to) { bytes += to - from; });
    return bytes;
  }

  uptr base_ = 0;
  Call piece_ = Call::kCommit;
  CommittedRange<TestEnv> range_;
};
INSTANTIATE_TEST_SUITE_P(Spaces, CommittedRangeTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "Reserved" : "Chosen"; });

class ChosenRangeTest : public CommittedRangeTest {};
INSTANTIATE_TEST_SUITE_P(Spaces, ChosenRangeTest, testing::Values(false), [](const auto&) { return "Chosen"; });

TEST_P(CommittedRangeTest, NothingIsAccessibleBeforeItIsAskedFor) {
  make(kMiB);
  EXPECT_EQ(range_.committed(), 0u);
  EXPECT_EQ(kernel().accessible_bytes(), 0u);
  EXPECT_TRUE(ensure(0));
  EXPECT_EQ(kernel().calls(piece_), 0u);
}

TEST_P(CommittedRangeTest, ContainsItsAddressesAndNoOthers) {
  make(kMiB);
  EXPECT_TRUE(range_.contains(base_));
  EXPECT_TRUE(range_.contains(base_ + kMiB - 1));
  EXPECT_FALSE(range_.contains(base_ + kMiB));
  EXPECT_FALSE(range_.contains(base_ - 1));
  EXPECT_FALSE(range_.contains(0));
  EXPECT_FALSE(range_.contains(~uptr{0}));
}

TEST_P(CommittedRangeTest, WhatWasEnsuredCanBeWritten) {
  make(64 * kMiB);
  for (std::size_t end = kPage; end <= 64 * kMiB; end += 7 * kPage) {
    ASSERT_TRUE(ensure(end));
    ASSERT_GE(range_.committed(), end);
    check();
    *reinterpret_cast<volatile char*>(base_ + end - 1) = 1;
  }
}

TEST_P(CommittedRangeTest, WhatIsAccessibleIsNotAskedForAgain) {
  make(kMiB);
  ASSERT_TRUE(ensure(kPage));
  const auto calls = kernel().calls(piece_);
  for (std::size_t end = 0; end <= range_.committed(); end += kPage) ASSERT_TRUE(ensure(end));
  EXPECT_EQ(kernel().calls(piece_), calls);
}

TEST_P(CommittedRangeTest, StepsGrowWithTheSizeBetweenTheirBounds) {
  make(kGiB);
  std::size_t before = 0;
  while (range_.committed() < kGiB) {
    ASSERT_TRUE(ensure(range_.committed() + kPage));
    const std::size_t step = range_.committed() - before;
    ASSERT_GE(step, 128 * kKiB);
    ASSERT_LE(step, 64 * kMiB + 128 * kKiB);
    if (range_.committed() < kGiB) {
      ASSERT_GE(step, clamp(before / 4, 128 * kKiB, 64 * kMiB));
      ASSERT_LE(step, clamp(before / 4, 128 * kKiB, 64 * kMiB) + 128 * kKiB);
    }
    before = range_.committed();
  }
  EXPECT_LT(kernel().calls(piece_), 70u) << "few calls for a gigabyte";
}

TEST_P(CommittedRangeTest, TheEndOfTheReservationIsNeverPassed) {
  make(3 * kPage);  // less than two first steps, and no multiple of one
  ASSERT_TRUE(ensure(kPage));
  ASSERT_TRUE(ensure(3 * kPage));  // the kernel would object to more
  EXPECT_EQ(range_.committed(), 3 * kPage);
  check();
}

TEST_P(CommittedRangeTest, WhereAGoodStepIsRefusedWhatIsNeededWillDo) {
  make(kMiB);
  kernel().refuse(piece_, 1);
  ASSERT_TRUE(ensure(kPage));
  EXPECT_EQ(range_.committed(), kPage);
  check();
  ASSERT_TRUE(ensure(2 * kPage));
  check();
}

TEST_P(CommittedRangeTest, RefusalIsReportedAndForgottenOnceMemoryIsBack) {
  make(kMiB);
  ASSERT_TRUE(ensure(kPage));
  const std::size_t before = range_.committed();
  kernel().refuse_from_now_on(piece_);
  EXPECT_FALSE(ensure(kMiB));
  EXPECT_EQ(range_.committed(), before);
  EXPECT_TRUE(ensure(before)) << "what is there needs no kernel";
  kernel().refuse_nothing();
  EXPECT_TRUE(ensure(kMiB));
  check();
}

TEST_P(CommittedRangeTest, AThreadThatStopsBeforeTheWatermarkStopsNobody) {
  make(kMiB);
  EXPECT_TRUE(test::ended_at("range.committed", [&] { ensure(kPage); }));
  EXPECT_EQ(range_.committed(), 0u);
  if (GetParam()) {
    EXPECT_TRUE(ensure(2 * kPage));  // commits the same again
  } else {
    EXPECT_EQ(range_.ensure(0, kPage), Access::kHole) << "nobody can tell whose it is";
    EXPECT_EQ(range_.ensure(range_.committed(), range_.committed() + kPage), Access::kYes);
  }
}

TEST_P(CommittedRangeTest, WhoIsOvertakenDoesNotMoveTheWatermarkBack) {
  if (!GetParam()) GTEST_SKIP() << "nobody can overtake there, but by a hole";
  make(64 * kMiB);
  TestEnv::at_step("range.committed", [&] { EXPECT_TRUE(ensure(16 * kMiB)); });
  EXPECT_TRUE(ensure(kPage));
  EXPECT_GE(range_.committed(), 16 * kMiB);
  check();
  // Overtaken by less than he needs, he goes on.
  TestEnv::at_step("range.committed", [&] { EXPECT_TRUE(ensure(range_.committed() + kPage)); });
  EXPECT_TRUE(ensure(40 * kMiB));
  EXPECT_GE(range_.committed(), 40 * kMiB);
  check();
}

TEST_P(CommittedRangeTest, RandomDemandsAndRefusalsKeepThePromise) {
  Random random(test::test_seed());
  for (int round = 0; round < 50; ++round) {
    start(GetParam());
    const std::size_t pages = 1 + random.below(600);
    CommittedRange<TestEnv> range;
    const Space space = kernel().space(pages * kPage, kPage);
    base_ = space.base;
    range.init(space, pages * kPage);
    std::size_t watermark = 0;
    for (int i = 0; i < 40; ++i) {
      const std::size_t end = random.below(pages + 1) * kPage;
      if (random.chance(30)) kernel().refuse(piece_, 1, 1 + random.below(2));
      const bool ok = range.ensure(0, end) == Access::kYes;
      kernel().refuse_nothing();
      ASSERT_EQ(ok, end <= range.committed());
      ASSERT_GE(range.committed(), watermark);
      watermark = range.committed();
      ASSERT_LE(watermark, pages * kPage);
      ASSERT_EQ(watermark == 0 || kernel().is_accessible(base_, watermark), true);
    }
  }
}

// --- Things in the way. ----------------------------------------------------------------------------------------------

TEST_P(ChosenRangeTest, NothingIsMappedBeforeItIsNeeded) {
  make(64 * kGiB);
  EXPECT_EQ(kernel().mapped_bytes(), 0u);
  ASSERT_TRUE(ensure(kPage));
  EXPECT_LE(kernel().mapped_bytes(), 128 * kKiB);
}

TEST_P(ChosenRangeTest, WhatIsInTheWayIsAHoleAndWhatIsBehindItCanBeHad) {
  make(kGiB);
  ASSERT_TRUE(ensure(kPage));
  const std::size_t there = range_.committed() + 6 * kPage;
  kernel().occupy(base_ + there, kPage);
  EXPECT_EQ(range_.ensure(there, there + kPage), Access::kHole);
  EXPECT_EQ(range_.ensure(there - 6 * kPage, there - kPage), Access::kYes) << "all but what is in the way";
  check();
  const std::size_t behind = range_.committed();
  EXPECT_EQ(range_.ensure(behind, behind + 20 * kPage), Access::kYes);
  EXPECT_EQ(range_.ensure(0, behind + kPage), Access::kHole) << "for ever";
  EXPECT_LE(holes(), 256 * kKiB);
  check();
}

TEST_P(ChosenRangeTest, ALongMappingInTheWayIsPassedInFewHoles) {
  for (std::size_t before : {std::size_t{0}, 3 * kPage, 100 * kMiB}) {
    start(false);
    CommittedRange<TestEnv> range;
    const Space space = kernel().space(64 * kGiB, kPage);
    range.init(space, 64 * kGiB);
    if (before != 0) { ASSERT_EQ(range.ensure(0, before), Access::kYes); }
    const std::size_t there = range.committed(), length = 20 * kGiB;
    kernel().occupy(space.base + there, length);
    EXPECT_EQ(range.ensure(there, there + kPage), Access::kHole);
    while (range.ensure(range.committed(), range.committed() + kPage) == Access::kHole) continue;
    int holes = 0;
    range.each_hole([&](std::size_t, std::size_t) { ++holes; });
    EXPECT_LE(holes, 20);
    EXPECT_LE(range.committed(), there + 2 * length + kMiB);
    EXPECT_TRUE(kernel().is_accessible(space.base + range.committed() - kPage, kPage));
  }
}

TEST_P(ChosenRangeTest, ALongRunAroundSomethingInTheWayIsFoundBehindIt) {
  make(kGiB);
  kernel().occupy(base_ + 50 * kMiB, kPage);
  std::size_t begin = 0;
  int tries = 0;
  while (range_.ensure(begin, begin + 100 * kMiB) == Access::kHole) {
    ASSERT_LT(++tries, 4);
    range_.each_hole([&](std::size_t, std::size_t to) { begin = to; });
  }
  EXPECT_TRUE(kernel().is_accessible(base_ + begin, 100 * kMiB));
  EXPECT_LT(begin, 150 * kMiB);
}

// Every piece is in the way of the next: the range ends, and says so again and again; what it has stays.
TEST_P(ChosenRangeTest, WhenNoMoreHolesCanBeNotedTheRangeEnds) {
  make(64 * kGiB);
  Access last = Access::kYes;
  int holes = 0;
  for (; last != Access::kEnded && holes < 1000; ++holes) {
    const std::size_t there = range_.committed();
    kernel().occupy(base_ + there, kPage);
    last = range_.ensure(there, there + kPage);
    if (last == Access::kHole) last = range_.ensure(range_.committed(), range_.committed() + kPage);
  }
  EXPECT_EQ(last, Access::kEnded);
  EXPECT_EQ(holes, 65);
  const auto before = kernel().ranges();
  for (int i = 0; i < 10; ++i) EXPECT_EQ(range_.ensure(0, 64 * kGiB), Access::kEnded);
  EXPECT_EQ(kernel().ranges(), before);
  check();
}

TEST_P(ChosenRangeTest, WhoWasTakenForAnothersUnmapsHisPieceAndNothingElse) {
  make(kGiB);
  ASSERT_TRUE(ensure(kPage));
  const std::size_t there = range_.committed();
  TestEnv::at_step("range.committed", [&] {
    EXPECT_EQ(range_.ensure(there, there + kPage), Access::kHole);
    EXPECT_EQ(range_.ensure(range_.committed(), range_.committed() + kPage), Access::kYes);
  });
  EXPECT_EQ(range_.ensure(there, there + kPage), Access::kHole);
  ASSERT_FALSE(TestEnv::step_left());
  EXPECT_EQ(kernel().mapped_bytes(), range_.committed() - holes()) << "nothing is mapped in a hole";
  check();
}

TEST_P(ChosenRangeTest, WhatGoesAwayInTimeIsNotInTheWay) {
  make(kGiB);
  kernel().occupy(base_, kPage);
  TestEnv::at_step("range.hole", [&] {
    kernel().release(base_, kPage);
    EXPECT_EQ(range_.ensure(0, kPage), Access::kYes);
  });
  EXPECT_EQ(range_.ensure(0, kPage), Access::kYes);
  EXPECT_EQ(holes(), 0u);
  // The proposal that was too late is replaced by the next.
  kernel().occupy(base_ + range_.committed(), kPage);
  const std::size_t there = range_.committed();
  EXPECT_EQ(range_.ensure(there, there + kPage), Access::kHole);
  EXPECT_EQ(range_.ensure(0, kPage), Access::kYes);
  check();
}

TEST_P(ChosenRangeTest, RandomMappingsAndRefusalsNeverGetIntoWhatIsGranted) {
  Random random(test::test_seed());
  for (int round = 0; round < 30; ++round) {
    start(false);
    const std::size_t pages = 600;
    CommittedRange<TestEnv> range;
    const Space space = kernel().space(pages * kPage, kPage);
    range.init(space, pages * kPage);
    std::vector<bool> foreign(pages), granted(pages);
    for (int i = 0; i < 60; ++i) {
      const std::size_t at = random.below(pages), length = 1 + random.below(pages - at < 20 ? pages - at : 20);
      if (random.chance(30)) {
        const std::size_t first = range.committed() / kPage;
        if (at < first || random.chance(50)) continue;
        bool free = true;
        for (std::size_t p = at; p < at + length; ++p) free &= !foreign[p];
        if (!free) continue;
        kernel().occupy(space.base + at * kPage, length * kPage);
        for (std::size_t p = at; p < at + length; ++p) foreign[p] = true;
        continue;
      }
      if (random.chance(20)) kernel().refuse(Call::kExtend, 1, 1 + random.below(2));
      const Access access = range.ensure(at * kPage, (at + length) * kPage);
      kernel().refuse_nothing();
      for (std::size_t p = at; p < at + length; ++p) {
        ASSERT_FALSE(access == Access::kYes && foreign[p]);
        if (access == Access::kYes) {
          granted[p] = true;
          *reinterpret_cast<volatile u64*>(space.base + p * kPage) = p + 1;
        }
      }
    }
    for (std::size_t p = 0; p < pages; ++p)
      ASSERT_TRUE(!granted[p] || *reinterpret_cast<volatile u64*>(space.base + p * kPage) == p + 1);
  }
}

}  // namespace
}  // namespace freeway
