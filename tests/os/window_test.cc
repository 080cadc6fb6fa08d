// SPDX-License-Identifier: MIT
//
// Tests of os/window.h: the window lies where the kernel puts nothing by itself, for every size of the address space,
// and its parts side by side in it; regions give each place once, go around what is there, and come back to what is
// free again.
#include "os/window.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Random;
using test::TestEnv;
using window::Part;
using Region = window::Region<TestEnv>;

TEST(Window, TheBitsOfAddressesAreThoseOfTheStack) {
  EXPECT_EQ(window::address_bits(0x7ffc'1234'5678), 47u);  // x86-64
  EXPECT_EQ(window::address_bits(0xffff'c123'4560), 48u);  // aarch64, 48 bits
  EXPECT_EQ(window::address_bits(0x3ff'f123'4560), 42u);
  EXPECT_EQ(window::address_bits(0x7f'c123'4560), 39u);
  EXPECT_EQ(window::address_bits(0xf'c123'4560), 36u);
  EXPECT_EQ(window::address_bits(0xf'ffff'c123'4560), 48u) << "beyond that the page map does not reach";
  EXPECT_LT(window::address_bits(0), window::kLeastBits);
  EXPECT_LT(window::address_bits(0x7fff'ffff), window::kLeastBits);
}

TEST(Window, ItLiesClearOfAllThatTheKernelAndToolsChoose) {
  Random random(test::test_seed());
  for (unsigned bits = window::kLeastBits; bits <= window::kMostBits; ++bits) {
    const uptr all = uptr{1} << bits;
    for (int i = 0; i < 1000; ++i) {
      const u64 dice = i == 0 ? 0 : i == 1 ? ~u64{0} : random.next();
      const uptr base = window::base(bits, dice), end = base + window::bytes(bits);
      ASSERT_EQ(base % window::kGranule, 0u);
      ASSERT_GT(base, all / 8) << "shadows of sanitizers end there";
      ASSERT_LE(end, all / 4) << "aarch64 maps from there upwards where it is told to; x86-64 from a third";
      if (bits == 47) { ASSERT_GE(base, uptr{20} << 40) << "Java's coloured pointers"; }
    }
  }
}

TEST(Window, ItsPlaceIsHardToGuessAndTheSameForTheSameDice) {
  std::set<uptr> places;
  for (u64 i = 0; i < 100'000; ++i) places.insert(window::base(47, window::mixed(i)));
  EXPECT_GT(places.size(), 97'000u) << "of two million";
  EXPECT_EQ(window::base(47, 5), window::base(47, 5));
  std::set<uptr> all;
  for (u64 i = 0; i < 40'000; ++i) all.insert(window::base(39, i));
  EXPECT_EQ(all.size(), 2 * window::bytes(39) / window::kGranule + 1) << "each place can be had";
}

TEST(Window, ItsPartsLieSideBySideAndHaveRoom) {
  for (unsigned bits = window::kLeastBits; bits <= window::kMostBits; ++bits) {
    EXPECT_EQ(window::part_begin(Part::kSmall, bits), 0u);
    EXPECT_EQ(window::part_end(Part::kSmall, bits), window::part_begin(Part::kRanges, bits));
    EXPECT_EQ(window::part_end(Part::kRanges, bits), window::part_begin(Part::kLarge, bits));
    EXPECT_EQ(window::part_end(Part::kLarge, bits), window::bytes(bits));
    EXPECT_GE(window::part_end(Part::kRanges, bits) - window::part_begin(Part::kRanges, bits), kGiB);
  }
  EXPECT_GE(window::part_end(Part::kRanges, 47) - window::part_begin(Part::kRanges, 47),
            64 * kGiB + 64 * 64 * kMiB + 256 * kGiB)
      << "all arenas and metadata";
}

TEST(Window, WhatEveryProcessHasOfTwoPartsSharesItsPageTables) {
  for (unsigned bits = window::kLeastBits; bits <= window::kMostBits; ++bits) {
    const uptr meeting = window::base(bits, 12345) + window::part_end(Part::kSmall, bits);
    EXPECT_EQ(meeting % (2 * kMiB), kMiB) << "both sides lie within one page of a page table";
    EXPECT_EQ(meeting % window::kSmallAlignment, 0u);
  }
}

TEST(Window, TheMirrorKeepsPlacesInsideApartAndAligned) {
  const uptr begin = 4 * kGiB, end = begin + 256 * kMiB + kMiB;
  uptr above = end;
  for (uptr at = begin; at < begin + 200 * kMiB; at += kMiB) {
    const uptr place = window::mirrored(begin, end, at, kMiB);
    EXPECT_EQ(place + kMiB, above) << "the first lies at the end, each next one below";
    EXPECT_EQ(place % kMiB, 0u);
    EXPECT_EQ(window::mirrored(begin, end, place, kMiB), at);
    above = place;
  }
}

class RegionTest : public testing::Test {
 protected:
  static constexpr uptr kBegin = uptr{1} << 32, kEnd = kBegin + kGiB;
  static Extended free_place(uptr) { return Extended::kDone; }
  Region region_;
};

TEST_F(RegionTest, EachPlaceIsClaimedOnceUntilThereAreNoMore) {
  uptr last = kBegin;
  for (int i = 0; i < 64; ++i) {
    const uptr at = region_.claim(kBegin, kEnd, 16 * kMiB, 64 * kKiB);
    ASSERT_EQ(at, last);
    last = at + 16 * kMiB;
  }
  EXPECT_EQ(region_.claim(kBegin, kEnd, 64 * kKiB, 64 * kKiB), 0u);
  EXPECT_EQ(region_.claim(kBegin, kEnd, 2 * kGiB, 64 * kKiB), 0u);
  EXPECT_EQ(region_.claim(kBegin, kEnd, kMiB, uptr{1} << 63), 0u);
}

TEST_F(RegionTest, WhatIsOccupiedIsGoneAroundInFewTries) {
  int tries = 0;
  const uptr free_from = kBegin + 300 * kMiB;
  const auto taken = region_.take(kBegin, kEnd, kMiB, 64 * kKiB, [&](uptr at) {
    ++tries;
    return at >= free_from ? Extended::kDone : Extended::kOccupied;
  });
  EXPECT_GE(taken.address, free_from);
  EXPECT_LT(taken.address, free_from + 600 * kMiB);
  EXPECT_LE(tries, Region::kTries);
}

TEST_F(RegionTest, WhereAllIsOccupiedOrTooSmallItSaysSo) {
  const auto occupied = [](uptr) { return Extended::kOccupied; };
  EXPECT_EQ(region_.take(kBegin, kEnd, kMiB, 64 * kKiB, occupied).address, 0u);
  EXPECT_EQ(region_.take(kBegin, kEnd, 2 * kGiB, 64 * kKiB, free_place).address, 0u);
  EXPECT_EQ(region_.take(kBegin, kEnd, kMiB, uptr{1} << 62, free_place).address, 0u);
  EXPECT_NE(region_.take(kBegin, kEnd, kMiB, 64 * kKiB, free_place).address, 0u);
}

TEST_F(RegionTest, RefusedMemoryUsesUpNoAddresses) {
  const auto refused = [](uptr) { return Extended::kRefused; };
  for (int i = 0; i < 10'000; ++i) {
    const auto taken = region_.take(kBegin, kEnd, 100 * kMiB, 64 * kKiB, refused);
    ASSERT_TRUE(taken.refused && taken.address == 0);
  }
  EXPECT_EQ(region_.take(kBegin, kEnd, 100 * kMiB, 64 * kKiB, free_place).address, kBegin);
}

TEST_F(RegionTest, WhatIsFreeAgainIsFoundAgain) {
  const uptr first = region_.take(kBegin, kEnd, 100 * kMiB, 64 * kKiB, free_place).address;
  region_.take(kBegin, kEnd, 100 * kMiB, 64 * kKiB, free_place);
  region_.lower(first);
  EXPECT_EQ(region_.take(kBegin, kEnd, 100 * kMiB, 64 * kKiB, free_place).address, first);
  for (int i = 0; i < 1000; ++i) {  // many times its length: from the start again
    ASSERT_NE(region_.take(kBegin, kEnd, 100 * kMiB, kMiB, free_place).address, 0u);
  }
}

}  // namespace
}  // namespace freeway
