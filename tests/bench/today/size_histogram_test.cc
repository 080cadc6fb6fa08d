// SPDX-License-Identifier: MIT
//
// Bins of sizes, and sizes drawn from tables.
#include "today/size_histogram.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "support/measure.h"
#include "today/measured_sizes.h"
#include "today/size_bins.h"

namespace {

TEST(SizeBins, FollowEachOther) {
  EXPECT_EQ(bench::bin_first(0), 1u);
  for (std::size_t bin = 1; bin < bench::kBins; ++bin) {
    EXPECT_EQ(bench::bin_first(bin), bench::bin_last(bin - 1) + 1);
    EXPECT_LE(bench::bin_first(bin), bench::bin_last(bin));
  }
}

TEST(SizeBins, HoldEverySize) {
  for (std::size_t bin = 0; bin < bench::kBins; ++bin)
    for (const std::size_t size : {bench::bin_first(bin), bench::bin_last(bin)})
      EXPECT_EQ(bench::bin_of(size), bin) << size;
  for (std::size_t size = 1; size < 100'000; ++size) {
    const std::size_t bin = bench::bin_of(size);
    ASSERT_TRUE(bench::bin_first(bin) <= size && size <= bench::bin_last(bin)) << size;
  }
  EXPECT_EQ(bench::bin_of(0), 0u);
  EXPECT_EQ(bench::bin_of(std::size_t{1} << 40), bench::kBins - 1);
}

// What came of many draws, for each row of the table, against its share.
void expect_shares(std::span<const bench::SizeRow> rows) {
  constexpr double kDraws = 1e6;
  const bench::SizeSampler sampler(rows);
  bench::Random random(99);
  std::vector<double> found(rows.size(), 0.0);
  for (double i = 0; i < kDraws; ++i) {
    const std::size_t size = sampler.draw(random.next());
    std::size_t row = 0;
    while (row < rows.size() && !(rows[row].first <= size && size <= rows[row].last)) ++row;
    ASSERT_LT(row, rows.size()) << "a size of no row: " << size;
    found[row] += 1;
  }
  double total = 0;
  for (const bench::SizeRow& row : rows) total += static_cast<double>(row.count);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const double share = static_cast<double>(rows[i].count) / total;
    const double deviation = std::sqrt(kDraws * share * (1 - share));
    EXPECT_NEAR(found[i], kDraws * share, 5 * deviation + 2) << "sizes from " << rows[i].first;
  }
}

TEST(SizeSampler, KeepsTheSharesOfSmallTables) {
  constexpr bench::SizeRow kOne[] = {{24, 24, 7}};
  constexpr bench::SizeRow kUneven[] = {{1, 8, 1}, {9, 16, 0}, {17, 24, 999'998}, {25, 32, 1}};
  constexpr bench::SizeRow kMixed[] = {{1, 8, 10}, {9, 16, 20}, {64, 64, 30}, {100, 199, 40}, {1000, 1999, 300}};
  expect_shares(kOne);
  expect_shares(kUneven);
  expect_shares(kMixed);
}

TEST(SizeSampler, KeepsTheSharesOfMeasuredTables) {
  for (const bench::NamedSizes& measured : bench::kMeasuredSizes) {
    SCOPED_TRACE(measured.name);
    expect_shares(measured.rows);
  }
}

TEST(SizeSampler, SpreadsEvenlyWithinARow) {
  constexpr bench::SizeRow kRow[] = {{101, 200, 5}};
  const bench::SizeSampler sampler(kRow);
  bench::Random random(3);
  std::vector<double> found(100, 0.0);
  for (int i = 0; i < 1'000'000; ++i) found[sampler.draw(random.next()) - 101] += 1;
  for (const double count : found) EXPECT_NEAR(count, 10'000, 5 * 100);
}

TEST(MeasuredSizes, AreTablesOfBins) {
  std::set<std::string> names;
  for (const bench::NamedSizes& measured : bench::kMeasuredSizes) {
    SCOPED_TRACE(measured.name);
    EXPECT_TRUE(names.insert(measured.name).second);
    EXPECT_LE(measured.rows.size(), bench::SizeSampler::kMostRows);
    std::size_t last = 0;
    for (const bench::SizeRow& row : measured.rows) {
      const std::size_t bin = bench::bin_of(row.first);
      EXPECT_EQ(bench::bin_first(bin), row.first);
      EXPECT_EQ(bench::bin_last(bin), row.last);
      EXPECT_GT(row.first, last);
      EXPECT_GT(row.count, 0u);
      last = row.last;
    }
  }
}

}  // namespace
