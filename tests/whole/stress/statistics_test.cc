// SPDX-License-Identifier: MIT
//
// statistics_test.cc: threads that count and trim beside threads that allocate and free. Nobody is disturbed, no figure
// is out of all proportion, and what is counted when all have ended is exact.
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "stress_test.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {
namespace {

constexpr unsigned kWorkers = 4;
constexpr size_t kTable = 200;

// Blocks of all workers together never reach this.
constexpr size_t kMostLive = size_t{kWorkers} * kTable * 256 * kKiB;

TEST(Statistics, MayBeAskedForWhileOthersAllocate) {
  const uint64_t seed = test_seed();
  const uint64_t steps = number_from_environment("FREEWAY_TEST_STEPS", 600000) / kWorkers;
  freeway_stats_t before{};
  freeway_stats(&before, sizeof before);
  std::atomic<unsigned> running{kWorkers};
  std::atomic<unsigned> damaged{0}, asked{0}, absurd{0};
  std::vector<std::thread> threads;
  for (unsigned self = 0; self < kWorkers; ++self) {
    threads.emplace_back([&, self] {
      Random random(seed + self);
      auto table = std::make_unique<Parcel*[]>(kTable);
      for (uint64_t i = 0; i < steps; ++i) {
        Parcel*& slot = table[random.below(kTable)];
        if (slot != nullptr && free_chain(slot) != 1) ++damaged;
        slot = make_parcel(program_like_size(random), uint32_t(i));
      }
      for (size_t i = 0; i < kTable; ++i)
        if (table[i] != nullptr && free_chain(table[i]) != 1) ++damaged;
      --running;
    });
  }
  threads.emplace_back([&] {
    do {
      freeway_stats_t stats{};
      freeway_stats(&stats, sizeof stats);
      if (stats.live > before.live + kMostLive) ++absurd;
      ++asked;
      if (asked % 16 == 0) freeway_trim(0);
    } while (running > 0);
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0u) << "FREEWAY_TEST_SEED=" << seed;
  EXPECT_EQ(absurd, 0u);
  EXPECT_GE(asked, 1u);
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

}  // namespace
}  // namespace freeway::test
