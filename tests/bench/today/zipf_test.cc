// SPDX-License-Identifier: MIT
//
// The generator of Zipf's law against the exact probabilities.
#include "today/zipf.h"

#include <gtest/gtest.h>

#include <vector>

namespace {

constexpr double kDraws = 1e6;

std::vector<double> probabilities(std::size_t n, double s) {
  std::vector<double> p(n + 1, 0.0);
  double sum = 0;
  for (std::size_t k = n; k >= 1; --k) sum += p[k] = std::pow(static_cast<double>(k), -s);
  for (double& one : p) one /= sum;
  return p;
}

std::vector<double> counts(std::size_t n, double s) {
  const bench::Zipf zipf(n, s);
  bench::Random random(4711);
  std::vector<double> found(n + 1, 0.0);
  for (double i = 0; i < kDraws; ++i) {
    const std::uint64_t rank = zipf.draw(random);
    if (rank < 1 || rank > n) {
      ADD_FAILURE() << "rank " << rank << " of " << n;
      return found;
    }
    found[rank] += 1;
  }
  return found;
}

class Zipf : public testing::TestWithParam<double> {};

// Chi-square over all ranks: beyond five standard deviations of its distribution something is wrong.
TEST_P(Zipf, HasTheExactDistribution) {
  constexpr std::size_t kRanks = 300;
  const auto expected = probabilities(kRanks, GetParam());
  const auto found = counts(kRanks, GetParam());
  double chi_square = 0;
  double freedom = -1;
  double few_expected = 0;
  double few_found = 0;  // ranks too rare for a term of their own
  for (std::size_t k = 1; k <= kRanks; ++k) {
    const double mean = expected[k] * kDraws;
    if (mean < 20) {
      few_expected += mean;
      few_found += found[k];
      continue;
    }
    chi_square += (found[k] - mean) * (found[k] - mean) / mean;
    ++freedom;
  }
  if (few_expected > 0) {
    chi_square += (few_found - few_expected) * (few_found - few_expected) / few_expected;
    ++freedom;
  }
  EXPECT_LT(chi_square, freedom + 5 * std::sqrt(2 * freedom));
  EXPECT_GT(chi_square, freedom - 5 * std::sqrt(2 * freedom)) << "closer than chance allows";
}

// A million keys, as the cache has: the head, and the tail as a whole.
TEST_P(Zipf, HoldsForManyRanks) {
  constexpr std::size_t kRanks = 1'000'000;
  const auto expected = probabilities(kRanks, GetParam());
  const auto found = counts(kRanks, GetParam());
  const auto near = [](double count, double p) {
    const double deviation = std::sqrt(kDraws * p * (1 - p));
    return std::abs(count - kDraws * p) <= 5 * deviation + 1;
  };
  for (const std::size_t k : {1, 2, 3, 10, 100}) EXPECT_TRUE(near(found[k], expected[k])) << "rank " << k;
  double tail_found = 0;
  double tail_expected = 0;
  for (std::size_t k = 1001; k <= kRanks; ++k) {
    tail_found += found[k];
    tail_expected += expected[k];
  }
  EXPECT_TRUE(near(tail_found, tail_expected));
}

INSTANTIATE_TEST_SUITE_P(Skews, Zipf, testing::Values(0.5, 0.99, 1.0, 1.5));

TEST(ZipfEdges, OneRankIsAlwaysDrawn) {
  const bench::Zipf zipf(1, 0.99);
  bench::Random random(1);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(zipf.draw(random), 1u);
}

}  // namespace
