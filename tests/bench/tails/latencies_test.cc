// SPDX-License-Identifier: MIT
//
// Tests of bench/workloads/single_calls/latencies.h: each duration is in one bin, bins are in order, quantiles are what
// sorting says.
#include "single_calls/latencies.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

namespace bench {
namespace {

TEST(Latencies, BinsCoverAllDurationsInOrder) {
  EXPECT_EQ(Latencies::bin_of(0), 0u);
  std::uint64_t begin = 0;
  for (unsigned bin = 0; bin <= Latencies::bin_of(~std::uint64_t{0}); ++bin) {
    const std::uint64_t end = Latencies::end_of(bin);
    ASSERT_EQ(Latencies::bin_of(begin), bin);
    ASSERT_EQ(Latencies::bin_of(end), bin);
    ASSERT_LE(end - begin, begin / 16) << "6 % at most";
    begin = end + 1;
  }
  EXPECT_EQ(begin, 0u) << "the last one ends with the last duration";
}

TEST(Latencies, QuantilesAreThoseOfTheSortedDurations) {
  auto latencies = std::make_unique<Latencies>();
  std::vector<std::uint64_t> all;
  Random random(3);
  for (int i = 0; i < 100'000; ++i) all.push_back(random.next() >> (20 + random.below(44)));
  for (const std::uint64_t each : all) latencies->add(each);
  std::sort(all.begin(), all.end());
  EXPECT_EQ(latencies->count(), all.size());
  EXPECT_EQ(latencies->longest(), all.back());
  for (const double part : {0.1, 0.5, 0.9, 0.9999}) {
    const std::uint64_t exact = all[static_cast<std::size_t>(part * static_cast<double>(all.size())) - 1];
    EXPECT_GE(latencies->quantile(part), exact) << part;
    EXPECT_LE(latencies->quantile(part), exact + exact / 16) << part;
  }
  EXPECT_EQ(latencies->quantile(1), all.back());
}

TEST(Latencies, SumsAreThoseOfAll) {
  auto a = std::make_unique<Latencies>(), b = std::make_unique<Latencies>();
  EXPECT_EQ(a->quantile(0.5), 0u) << "of nothing";
  a->add(5);
  b->add(7);
  b->add(900);
  a->add(*b);
  EXPECT_EQ(a->count(), 3u);
  EXPECT_EQ(a->longest(), 900u);
  EXPECT_EQ(a->quantile(0.6), 5u);
  EXPECT_EQ(a->quantile(0.7), 7u);
}

}  // namespace
}  // namespace bench
