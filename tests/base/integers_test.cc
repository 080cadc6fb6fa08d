// SPDX-License-Identifier: MIT
//
// Tests of base/integers.h against definitions written down again, bit by bit and number by number.
#include "base/integers.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace freeway {
namespace {

using test::Random;

// Numbers at which arithmetic goes wrong: small ones, and those around each power of two.
template <class F> void each_interesting(F&& f) {
  for (u64 x = 0; x < 5000; ++x) f(x);
  for (unsigned bit = 12; bit < 64; ++bit)
    for (u64 x = (u64{1} << bit) - 3; x != (u64{1} << bit) + 4; ++x) f(x);
  for (u64 x = ~u64{0} - 5; x != 0; ++x) f(x);
}

TEST(Integers, PowersOfTwoAreTheNumbersWithOneBit) {
  each_interesting([](u64 x) {
    unsigned bits = 0;
    for (unsigned i = 0; i < 64; ++i) bits += x >> i & 1;
    ASSERT_EQ(is_power_of_two(x), bits == 1) << x;
    ASSERT_EQ(popcount(x), bits) << x;
  });
}

TEST(Integers, AligningGoesToTheNextMultipleAndNoFurther) {
  for (unsigned shift = 0; shift < 63; ++shift) {
    const u64 alignment = u64{1} << shift;
    each_interesting([&](u64 x) {
      const u64 down = align_down(x, alignment);
      ASSERT_EQ(down, x - x % alignment);
      if (x > ~u64{0} - alignment) return;  // the sum would overflow
      const u64 up = align_up(x, alignment);
      ASSERT_EQ(up, x % alignment == 0 ? x : x - x % alignment + alignment) << x << " to " << alignment;
    });
  }
}

TEST(Integers, CeilDivIsTheSmallestNumberOfPartsThatHoldsAll) {
  for (u64 x = 0; x < 2000; ++x)
    for (u64 divisor = 1; divisor < 300; ++divisor) {
      const u64 parts = ceil_div(x, divisor);
      ASSERT_GE(parts * divisor, x);
      ASSERT_TRUE(parts == 0 || (parts - 1) * divisor < x);
    }
  EXPECT_EQ(ceil_div(PTRDIFF_MAX, 64 * kKiB), u64{1} << 47);
}

TEST(Integers, LogarithmsEncloseTheNumber) {
  EXPECT_EQ(log2_ceil(0), 0u);
  each_interesting([](u64 x) {
    if (x == 0) return;
    const unsigned floor = log2_floor(x), ceil = log2_ceil(x);
    ASSERT_LE(u64{1} << floor, x);
    ASSERT_TRUE(floor == 63 || x < u64{1} << (floor + 1)) << x;
    ASSERT_EQ(ceil, is_power_of_two(x) ? floor : floor + 1) << x;
  });
}

TEST(Integers, LowBitsAreAsManyAsAskedForFromTheBottom) {
  for (unsigned n = 0; n <= 64; ++n)
    for (unsigned bit = 0; bit < 64; ++bit) ASSERT_EQ(low_bits(n) >> bit & 1, bit < n) << n;
}

TEST(Integers, LowestBitIsTheFirstThatIsSet) {
  each_interesting([](u64 x) {
    if (x == 0) return;
    unsigned first = 0;
    while ((x >> first & 1) == 0) ++first;
    ASSERT_EQ(lowest_bit(x), first) << x;
  });
}

// The definition, one bit after the other.
u64 naive_lowest_set_bits(u64 x, unsigned n) {
  u64 result = 0;
  for (unsigned i = 0; i < 64 && n > 0; ++i)
    if ((x >> i & 1) != 0) {
      result |= u64{1} << i;
      --n;
    }
  return result;
}

TEST(Integers, LowestSetBitsTakesThemInOrderForEveryWordOf16Bits) {
  for (u64 x = 0; x < 1 << 16; ++x)
    for (unsigned n = 0; n <= 17; ++n)
      ASSERT_EQ(lowest_set_bits(x, n), naive_lowest_set_bits(x, n)) << std::hex << x << " " << n;
}

TEST(Integers, LowestSetBitsTakesThemInOrderInWideWords) {
  Random random(test::test_seed());
  for (int i = 0; i < 20000; ++i) {
    const u64 x =
        random.next() & (random.chance(50) ? random.next() : ~u64{0}) & (random.chance(50) ? ~u64{0} << 32 : ~u64{0});
    const auto n = static_cast<unsigned>(random.below(65));
    ASSERT_EQ(lowest_set_bits(x, n), naive_lowest_set_bits(x, n)) << std::hex << x << " " << n;
  }
  EXPECT_EQ(lowest_set_bits(~u64{0}, 64), ~u64{0});
  EXPECT_EQ(lowest_set_bits(~u64{0}, 63), ~u64{0} >> 1);
}

TEST(Integers, ClampKeepsWhatIsWithinAndMovesTheRestToTheNearerBound) {
  for (u64 low = 0; low < 30; ++low)
    for (u64 high = low; high < 30; ++high)
      for (u64 x = 0; x < 35; ++x) {
        const u64 y = clamp(x, low, high);
        ASSERT_TRUE(y >= low && y <= high);
        if (x >= low && x <= high) {
          ASSERT_EQ(y, x);
        } else {
          ASSERT_EQ(y, x < low ? low : high);
        }
      }
}

TEST(Integers, AllOfItIsKnownAtCompileTime) {
  static_assert(is_power_of_two(64) && !is_power_of_two(0));
  static_assert(align_up(17, 16) == 32 && align_down(17, 16) == 16);
  static_assert(log2_floor(4097) == 12 && log2_ceil(4097) == 13);
  static_assert(lowest_set_bits(0b10110, 2) == 0b110);
  static_assert(kGiB == 1024 * 1024 * 1024);
}

}  // namespace
}  // namespace freeway
