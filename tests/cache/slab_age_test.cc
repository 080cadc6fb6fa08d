// SPDX-License-Identifier: MIT
//
// Tests of cache/slab_age.h: a slab is idle when nobody has used it for a while, and needs emptying once.
#include "cache/slab_age.h"

#include <gtest/gtest.h>

#include "tests/cache/test_slab.h"

namespace freeway::test {
namespace {

constexpr u64 kNow = 5'000'000'000;
constexpr u64 kRest = slab_age::kIdleNs;

TEST(SlabAge, ASlabRestsWhenNothingHasChangedForSoLong) {
  TestSlab test;
  Slab& slab = test.slab();
  EXPECT_FALSE(slab_age::is_idle(slab, kNow)) << "nobody has looked before";
  EXPECT_FALSE(slab_age::is_idle(slab, kNow + kRest - 1));
  EXPECT_TRUE(slab_age::is_idle(slab, kNow + kRest));
  EXPECT_FALSE(slab_age::is_idle(slab, kNow - 1)) << "another thread's clock may be ahead";
}

TEST(SlabAge, EveryChangeOfAMagazineAndEverySlowCallBeginsItAgain) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    TestSlab test;
    Slab& slab = test.slab();
    test.open(c);
    slab_age::is_idle(slab, kNow);
    PlainSlab(slab).push(c, block(c, 1));
    EXPECT_FALSE(slab_age::is_idle(slab, kNow + kRest)) << c;
    ++slab.counters[c].slow_mallocs;
    EXPECT_FALSE(slab_age::is_idle(slab, kNow + 2 * kRest)) << c;
    ++slab.counters[c].slow_frees;
    EXPECT_FALSE(slab_age::is_idle(slab, kNow + 3 * kRest)) << c;
    EXPECT_TRUE(slab_age::is_idle(slab, kNow + 4 * kRest)) << c;
  }
}

TEST(SlabAge, WhatWasEmptiedNeedsItAgainOnlyAfterItWasUsed) {
  TestSlab test;
  Slab& slab = test.slab();
  slab_age::is_idle(slab, kNow);
  slab_age::note_emptied(slab);
  EXPECT_TRUE(slab_age::was_emptied(slab));
  EXPECT_FALSE(slab_age::is_idle(slab, kNow + 10 * kRest));
  test.open(1);
  EXPECT_FALSE(slab_age::was_emptied(slab));
  EXPECT_FALSE(slab_age::is_idle(slab, kNow + 11 * kRest));
  EXPECT_TRUE(slab_age::is_idle(slab, kNow + 12 * kRest));
}

}  // namespace
}  // namespace freeway::test
