// SPDX-License-Identifier: MIT
//
// Tests of harden/births.h: a block's byte is its own and its tag no other address's, what is used is accessible and
// nothing else, and what is refused or in the way is said so and found elsewhere. Leaves and purging:
// births_far_test.cc.
#include "harden/births.h"

#include <gtest/gtest.h>

#include <iterator>
#include <map>
#include <set>

#include "pages/arena.h"
#include "tests/harden/births_on_place.h"

namespace freeway {
namespace {

using Kind = BirthsOf::Kind;

INSTANTIATE_TEST_SUITE_P(Spaces, BirthsTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "Reserved" : "Chosen"; });

// Spans of all classes, one behind the other from the arena's start and up to its end, as a heap may have them.
TEST_P(BirthsTest, NoTwoBlocksShareAByte) {
  std::set<uptr> bytes;
  std::size_t blocks = 0;
  for (const bool from_end : {false, true}) {
    uptr at = from_end ? kArena + kArenaBytes - 64 * kMiB : kArena;
    for (int round = 0; round < 2; ++round)
      for (unsigned c = 1; c < kClassCount; ++c) {
        const SizeClass& k = kSizeClasses[c];
        const uptr span = align_up(at, k.span_bytes());
        at = span + k.span_bytes();
        for (u32 i = 0; i < k.blocks; ++i, ++blocks) bytes.insert(address_of(near(span + i * k.size, k.size)));
      }
    ASSERT_LE(at, kArena + kArenaBytes);
  }
  EXPECT_EQ(bytes.size(), blocks);
  EXPECT_GE(*bytes.begin(), place_.base);
  EXPECT_LT(*bytes.rbegin(), place_.base + birth::place_bytes(kArenaBytes));
}

TEST_P(BirthsTest, NoOtherAddressThatLeadsToABlocksByteHasItsTag) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    std::map<uptr, uptr> blocks;  // of bytes
    for (u32 i = 0; i < k.blocks; ++i) blocks[address_of(near(kArena + i * k.size, k.size))] = kArena + i * k.size;
    for (uptr other = kArena; other < kArena + k.span_bytes(); other += kMinBlock) {
      ASSERT_NE(birth::tag_of(other), 0);
      const auto found = blocks.find(address_of(near(other, k.size)));
      if (found == blocks.end() || found->second == other) continue;
      ASSERT_NE(birth::tag_of(other), birth::tag_of(found->second)) << "class " << c << " offset " << other - kArena;
    }
  }
}

TEST_P(BirthsTest, ThePlacesOfGranuleSizesLieApart) {
  uptr reached = place_.base;
  for (unsigned i = std::size(kSizes); i-- > 0;) {  // the longest granules' are the first
    const uptr first = address_of(near(kArena, kSizes[i]));
    const uptr last = address_of(near(kArena + kArenaBytes - 1, kSizes[i]));
    EXPECT_GE(first, reached);
    EXPECT_EQ(last - first + 1, kArenaBytes >> birth::shift_of(kSizes[i]));
    reached = last + 1;
  }
  EXPECT_LE(reached, place_.base + birth::place_bytes(kArenaBytes));
}

TEST_P(BirthsTest, AByteIsWhereTheFastPathLooksForIt) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 size = kSizeClasses[c].size;
    const unsigned shift = birth::shift_of(size);
    EXPECT_LE(u32{1} << shift, size) << "no two blocks begin in one granule";
    for (const uptr block : {kArena, kArena + 5 * size, kArena + kArenaBytes - size})
      EXPECT_EQ((block * birth::scale_of(shift) >> birth::kMostShift) + births().base(shift),
                address_of(near(block, size)));
  }
}

TEST_P(BirthsTest, WhatIsUsedIsAccessibleAndZeroAndLittleElse) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    start(kArenaBytes);
    const SizeClass& k = kSizeClasses[c];
    for (const uptr span : {kArena, kArena + 7 * kMiB, kArena + 300 * kMiB}) {
      ASSERT_EQ(provide(k, span), Kind::kNear);
      for (u32 i = 0; i < k.blocks; ++i) ASSERT_EQ(near(span + i * k.size, k.size).load_relaxed(), 0);
      bear(k, span);
      expect_born(k, span);
      const std::size_t needed = ((span + k.span_bytes() - kArena) >> birth::shift_of(k.size)) + BirthsOf::kSkew;
      EXPECT_GE(births().committed(), needed);
      EXPECT_LE(births().committed(), needed + needed / 4 + 256 * kKiB) << "class " << c;
      EXPECT_EQ(kernel().accessible_bytes(), births().committed());
    }
  }
}

TEST_P(BirthsTest, ProvidingAgainAsksTheKernelForNothing) {
  const SizeClass& k = kSizeClasses[1];
  ASSERT_EQ(provide(k, kArena), Kind::kNear);
  bear(k, kArena);
  const auto calls = kernel().calls(piece_);
  ASSERT_EQ(provide(k, kArena), Kind::kNear);
  EXPECT_EQ(kernel().calls(piece_), calls);
  expect_born(k, kArena);
}

// The skew leads beyond the end of the arrays: there the last spans are far.
TEST_P(BirthsTest, AnArenaMayBeFullToItsEnd) {
  for (const std::size_t bytes : {kShortest, kArenaBytes}) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      start(bytes);
      const SizeClass& k = kSizeClasses[c];
      const uptr last = kArena + bytes - k.span_bytes();
      ASSERT_EQ(provide(k, last), Kind::kFar) << "class " << c;
      const std::size_t skewed = align_up(BirthsOf::kSkew << birth::shift_of(k.size), k.span_bytes());
      ASSERT_EQ(provide(k, last - skewed), Kind::kNear) << "class " << c;
      bear(k, last - skewed);
    }
  }
}

TEST_P(BirthsTest, AnArenaThatIsTooShortForArraysHasFarBlocksOnly) {
  for (const std::size_t bytes : {kChunkSize, kShortest / 2}) {
    start(bytes);
    for (unsigned c = 1; c < kClassCount; ++c) EXPECT_EQ(provide(kSizeClasses[c], kArena), Kind::kFar);
    births().purge(kArena, bytes, kPage);
    EXPECT_EQ(kernel().calls(piece_), 0u);
  }
}

// --- Refused, or in the way. -----------------------------------------------------------------------------------------

TEST_P(BirthsTest, WhatIsRefusedChangesNothingAndIsHadLater) {
  const SizeClass& k = kSizeClasses[3];
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    start(kArenaBytes);
    const auto before = kernel().ranges();
    kernel().refuse_all(true);
    EXPECT_EQ(provide(k, kArena), Kind::kRefused);
    EXPECT_EQ(births().committed(), 0u);
    EXPECT_EQ(kernel().ranges(), before);
    kernel().refuse_all(false);
    kernel().refuse_any(nth);  // of what one span needs: a shorter piece, or a leaf
    const Kind kind = provide(k, kArena);
    EXPECT_NE(kind, Kind::kRefused);
    if (kind == Kind::kNear) bear(k, kArena);
    kernel().refuse_nothing();
    EXPECT_EQ(provide(k, kArena + 10 * kMiB), Kind::kNear);
    bear(k, kArena + 10 * kMiB);
  }
}

TEST_P(BirthsTest, WhereArraysAreRefusedAndLeavesAreNotBlocksAreFar) {
  kernel().refuse_from_now_on(piece_);
  const SizeClass& k = kSizeClasses[1];
  ASSERT_EQ(provide(k, kArena), Kind::kFar);
  EXPECT_EQ(births().committed(), BirthsOf::kLeafBytes);
  births().far(kArena + 16).store_relaxed(birth::tag_of(kArena + 16));
  EXPECT_EQ(births().far(kArena + 16).load_relaxed(), birth::tag_of(kArena + 16));
  EXPECT_EQ(births().far(kArena).load_relaxed(), 0);
}

INSTANTIATE_TEST_SUITE_P(Spaces, ChosenBirthsTest, testing::Values(false), [](const auto&) { return "Chosen"; });

TEST_P(ChosenBirthsTest, WhereSomethingIsInTheWayBlocksAreFarAndNearBehindIt) {
  const SizeClass& k = kSizeClasses[1];
  const uptr in_the_way = align_down(address_of(near(kArena + 8 * kMiB, k.size)), kFrameSize);
  kernel().occupy(in_the_way, kFrameSize);
  EXPECT_EQ(provide(k, kArena), Kind::kNear);
  EXPECT_EQ(provide(k, kArena + 8 * kMiB), Kind::kFar);
  EXPECT_EQ(provide(k, kArena + 64 * kMiB), Kind::kNear);
  EXPECT_EQ(provide(kSizeClasses[20], kArena + 8 * kMiB), Kind::kNear) << "other granules' bytes lie elsewhere";
  bear(k, kArena);
  bear(k, kArena + 64 * kMiB);
}

// --- Moves. ----------------------------------------------------------------------------------------------------------

TEST(BirthMoves, ABlockIsLiveFromItsBeginToItsEnd) {
  TestEnv::Atomic<u8> byte;
  unsigned barriers = 0;
  const auto born = [&](uptr block) { return birth::is_born(byte, block, [&] { return ++barriers, true; }); };
  EXPECT_FALSE(born(kArena));
  birth::begin(byte, kArena);
  barriers = 0;
  EXPECT_TRUE(born(kArena));
  EXPECT_EQ(barriers, 0u) << "what is found needs no kernel";
  EXPECT_FALSE(born(kArena + 16));
  birth::end(byte);
  EXPECT_FALSE(born(kArena));
  EXPECT_TRUE(birth::is_born(byte, kArena, [&] { return birth::begin(byte, kArena), true; }))
      << "the second look counts";
  birth::end(byte);
  EXPECT_FALSE(birth::is_born(byte, kArena, [&] { return birth::begin(byte, kArena), false; })) << "no second look";
}

}  // namespace
}  // namespace freeway
