// SPDX-License-Identifier: MIT
//
// Tests of cache/slab_age.h: a slab rests when nobody has used it for a while, and needs emptying once.
#include "cache/slab_age.h"

#include <gtest/gtest.h>

#include "unit/test_slab.h"

namespace freeway::test {
namespace {

constexpr u64 kNow = 5'000'000'000;
constexpr u64 kRest = slab_age::kRestNs;

TEST(SlabAge, ASlabRestsWhenNothingHasChangedForSoLong) {
  TestSlab test;
  Slab& slab = test.slab();
  EXPECT_FALSE(slab_age::rests(slab, kNow)) << "nobody has looked before";
  EXPECT_FALSE(slab_age::rests(slab, kNow + kRest - 1));
  EXPECT_TRUE(slab_age::rests(slab, kNow + kRest));
  EXPECT_FALSE(slab_age::rests(slab, kNow - 1)) << "another thread's clock may be ahead";
}

TEST(SlabAge, EveryChangeOfAMagazineAndEverySlowCallBeginsItAgain) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    TestSlab test;
    Slab& slab = test.slab();
    test.open(c);
    slab_age::rests(slab, kNow);
    PlainSlab(slab).push(c, block(c, 1));
    EXPECT_FALSE(slab_age::rests(slab, kNow + kRest)) << c;
    ++slab.counters[c].slow_mallocs;
    EXPECT_FALSE(slab_age::rests(slab, kNow + 2 * kRest)) << c;
    ++slab.counters[c].slow_frees;
    EXPECT_FALSE(slab_age::rests(slab, kNow + 3 * kRest)) << c;
    EXPECT_TRUE(slab_age::rests(slab, kNow + 4 * kRest)) << c;
  }
}

TEST(SlabAge, WhatWasEmptiedNeedsItAgainOnlyAfterItWasUsed) {
  TestSlab test;
  Slab& slab = test.slab();
  slab_age::rests(slab, kNow);
  slab_age::note_emptied(slab);
  EXPECT_TRUE(slab_age::was_emptied(slab));
  EXPECT_FALSE(slab_age::rests(slab, kNow + 10 * kRest));
  test.open(1);
  EXPECT_FALSE(slab_age::was_emptied(slab));
  EXPECT_FALSE(slab_age::rests(slab, kNow + 11 * kRest));
  EXPECT_TRUE(slab_age::rests(slab, kNow + 12 * kRest));
}

}  // namespace
}  // namespace freeway::test
