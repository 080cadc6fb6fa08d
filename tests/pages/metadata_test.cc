// SPDX-License-Identifier: MIT
//
// Tests of pages/metadata.h: pieces do not overlap, are zero and are never moved; segments follow each other; refusals
// lose nothing; walking meets every piece.
#include "pages/metadata.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

using Meta = Metadata<TestEnv>;
constexpr std::size_t kUnit = 64;

class MetadataTest : public testing::Test {
 protected:
  void SetUp() override { make(kMiB); }
  void TearDown() override { kernel().reset(); }
  void make(std::size_t segment_bytes, Limits<TestEnv>* limits = nullptr) {
    kernel().reset();
    memory_ = std::make_unique<Meta>();
    meta().init(segment_bytes, limits);
    owners_.clear();
  }
  Meta& meta() { return *memory_; }

  // Takes a piece and checks all that is promised of it; 0 if there was none.
  u32 take(u32 units) {
    const u32 index = meta().take(units);
    if (index == 0) return 0;
    const uptr address = reinterpret_cast<uptr>(meta().at(index));
    EXPECT_EQ(address % kUnit, 0u);
    EXPECT_TRUE(kernel().is_accessible(address & ~uptr{4095}, 4096));
    EXPECT_TRUE(test::is_zero(address, units * kUnit));
    memset(meta().at(index), 0xee, units * kUnit);
    for (uptr unit = address; unit < address + units * kUnit; unit += kUnit)
      EXPECT_TRUE(owners_.insert(unit).second) << "a unit in two pieces";
    return index;
  }

  std::unique_ptr<Meta> memory_;
  std::set<uptr> owners_;  // addresses of the units in use
};

TEST_F(MetadataTest, NothingIsReservedBeforeItIsNeeded) {
  EXPECT_EQ(kernel().calls(Call::kReserve), 0u);
  EXPECT_EQ(meta().committed(), 0u);
}

TEST_F(MetadataTest, PiecesAreZeroApartAndNotNamedZero) {
  for (u32 i = 0; i < 3000; ++i) ASSERT_NE(take(1 + i % 9), 0u);
  EXPECT_LT(meta().committed(), 3 * owners_.size() * kUnit);
}

TEST_F(MetadataTest, AnIndexKeepsItsAddressWhateverIsTakenLater) {
  std::vector<std::pair<u32, void*>> pieces;
  for (int i = 0; i < 5000; ++i) {
    const u32 index = take(5);
    ASSERT_NE(index, 0u);
    pieces.emplace_back(index, meta().at(index));
  }
  for (auto [index, address] : pieces) ASSERT_EQ(meta().at(index), address);
}

TEST_F(MetadataTest, SegmentsFollowEachOtherAndTheirEndsAreNotPassed) {
  // 1 MiB is 16384 units, the first of which has no name.
  int pieces = 0;
  while (kernel().calls(Call::kReserve) < 4) {
    ASSERT_NE(take(9), 0u);
    ++pieces;
  }
  EXPECT_EQ(pieces, 3 * (16383 / 9) + 1);
  EXPECT_EQ(kernel().mapped_bytes(), 4 * kMiB);
}

TEST_F(MetadataTest, APieceOfAnySizeLiesInOneSegment) {
  for (u32 units = 1; units <= 9; ++units) {
    make(kMiB);
    while (kernel().calls(Call::kReserve) < 3) ASSERT_NE(take(units), 0u);
    EXPECT_EQ(meta().committed(), 2 * kMiB + 64 * kKiB) << units << " units a piece: both ends were reached";
  }
}

TEST_F(MetadataTest, ASegmentThatPiecesFillToTheLastByteIsChargedAsItIs) {
  Limits<TestEnv> limits;
  make(Meta::kSegmentBytes, &limits);
  constexpr u32 kUnits = 3, kPieces = (Meta::kSegmentBytes / kUnit - 1) / kUnits;
  static_assert(1 + kPieces * kUnits == Meta::kSegmentBytes / kUnit, "the first unit has no name");
  for (u32 i = 0; i < kPieces; ++i) ASSERT_NE(meta().take(kUnits), 0u) << i;
  EXPECT_EQ(limits.held(), Meta::kSegmentBytes / kFrameSize);
  ASSERT_NE(meta().take(kUnits), 0u) << "the first of another";
  EXPECT_EQ(limits.held(), Meta::kSegmentBytes / kFrameSize + 1);
  EXPECT_EQ(meta().charged(), limits.held());
}

TEST_F(MetadataTest, APieceLongerThanASegmentIsRefusedAndUsesUpAtMostTheRestOfOne) {
  make(kMiB);
  EXPECT_EQ(meta().take(20000), 0u);
  for (int i = 0; i < 5; ++i) {
    ASSERT_NE(take(9), 0u);
    EXPECT_EQ(meta().take(20000), 0u);
    EXPECT_EQ(meta().take(20000), 0u);
  }
  EXPECT_LE(kernel().calls(Call::kReserve), 6u);
}

TEST_F(MetadataTest, AllSegmentsTogetherEndWithARefusalThatIsForGood) {
  std::size_t pieces = 0;
  while (meta().take(9) != 0) ++pieces;
  EXPECT_EQ(pieces, std::size_t{Meta::kSegments} * (16384 / 9)) << "64 segments of 16384 units";
}

TEST_F(MetadataTest, ALargeSegmentHasRoomForAMillionUnits) {
  make(Meta::kSegmentBytes);
  const u32 first = meta().take(9);
  u32 last = first;
  for (int i = 0; i < 116000; ++i) last = meta().take(9);
  EXPECT_EQ(last, first + 116000 * 9);
  EXPECT_EQ(kernel().calls(Call::kReserve), 1u);
  EXPECT_LT(last, u32{1} << 26) << "an index of a tagged stack";
}

TEST_F(MetadataTest, WhereSoMuchAddressSpaceIsRefusedLessWillDo) {
  make(Meta::kSegmentBytes);
  kernel().refuse_over(5 * kMiB);
  ASSERT_NE(take(9), 0u);
  EXPECT_EQ(kernel().mapped_bytes(), 4 * kMiB);
  for (int i = 0; i < 10000; ++i) ASSERT_NE(take(9), 0u) << "in the segments after it";
}

TEST_F(MetadataTest, WithoutAddressSpaceThereIsNothingAndLaterThereIs) {
  kernel().refuse_from_now_on(Call::kReserve);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(meta().take(3), 0u);
  EXPECT_EQ(kernel().mapped_bytes(), 0u);
  kernel().refuse_nothing();
  EXPECT_NE(take(3), 0u);
}

TEST_F(MetadataTest, WithoutMemoryThereIsNothingAndLaterThereIs) {
  ASSERT_NE(take(3), 0u);
  while (meta().committed() - owners_.size() * kUnit > 10 * kUnit) take(1);  // up to the end of what is accessible
  kernel().refuse_from_now_on(Call::kCommit);
  for (int i = 0; i < 20; ++i) meta().take(9);
  EXPECT_EQ(meta().take(9), 0u);
  kernel().refuse_nothing();
  for (int i = 0; i < 1000; ++i) ASSERT_NE(take(9), 0u);
}

// The kernel refuses the first try of a commit, which is for more than is needed, and grants the second.
TEST_F(MetadataTest, ACommitThatIsGrantedOnlyInPartIsFollowedByOthers) {
  kernel().refuse(Call::kCommit, 1);
  ASSERT_NE(take(1), 0u);
  for (int i = 0; i < 1000; ++i) ASSERT_NE(take(9), 0u) << "piece " << i;
}

TEST_F(MetadataTest, AnyRefusedCallLosesNothing) {
  for (std::uint64_t nth = 1; nth <= 40; ++nth) {
    make(kMiB);
    kernel().refuse_any(nth);
    int refused = 0;
    for (int i = 0; i < 4000; ++i) refused += take(9) == 0;
    EXPECT_LE(refused, 1) << "call " << nth;
    EXPECT_LT(meta().committed(), 4000 * 9 * kUnit + kMiB);
  }
}

TEST_F(MetadataTest, OfTwoThreadsThatReserveASegmentOneGivesHisBack) {
  u32 other = 0;
  TestEnv::at_step("metadata.segment", [&] { other = take(3); });
  const u32 mine = take(3);
  EXPECT_NE(mine, 0u);
  EXPECT_NE(other, 0u);
  EXPECT_EQ(kernel().mapped_bytes(), kMiB);
}

TEST_F(MetadataTest, AThreadThatStopsLosesAPieceAtMost) {
  for (const char* step : {"metadata.segment", "range.committed"}) {
    make(kMiB);
    ASSERT_TRUE(test::ended_at(step, [&] { meta().take(3); })) << step;
    const u32 index = take(3);
    EXPECT_GE(index, 1u);
    EXPECT_LE(index, 4u);
    for (int i = 0; i < 5000; ++i) ASSERT_NE(take(9), 0u);
  }
}

TEST_F(MetadataTest, WalkingMeetsEveryPieceOnceInOrder) {
  Random random(test::test_seed());
  std::vector<u32> expected;
  while (kernel().calls(Call::kReserve) < 3) {
    const u32 units = static_cast<u32>(1 + random.below(9));
    const u32 index = take(units);
    ASSERT_NE(index, 0u);
    *static_cast<u32*>(meta().at(index)) = units;
    expected.push_back(index);
  }
  std::vector<u32> met;
  constexpr u32 kUnits = 1u << Meta::kSegmentShift;
  for (u32 index = 1; index < meta().end();) {
    if (index % kUnits * 64 >= meta().accessible(index / kUnits)) {
      index = (index / kUnits + 1) * kUnits;
      continue;
    }
    const u32 units = *static_cast<const u32*>(meta().at(index));  // every unit that is met is accessible
    if (units != 0) met.push_back(index);
    index += units == 0 ? 1 : units;
  }
  EXPECT_EQ(met, expected);
}

TEST_F(MetadataTest, WhileNothingWasTakenNothingIsBelowItsEnd) { EXPECT_EQ(meta().end(), 0u); }

}  // namespace
}  // namespace freeway
