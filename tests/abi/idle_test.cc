// SPDX-License-Identifier: MIT
//
// idle_test.cc: freeway_trim_step, and freeway_idle.
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "tests/support/cpu_affinity.h"
#include "wanderer.h"

namespace freeway::test {
namespace {

size_t cached_bytes() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats.cached;
}

// All that trimming would give back, by steps; how many there were. Adds to `given`, raises `most`.
size_t trim_by_steps(size_t bytes, size_t& given, size_t& most) {
  size_t steps = 0;
  for (size_t step; (step = freeway_trim_step(bytes)) != 0; ++steps) {
    given += step;
    most = std::max(most, step);
  }
  return steps;
}

TEST(TrimStep, GivesBackPieceByPieceWhatTrimWouldGive) {
  static void* blocks[60000];
  Wanderer self;
  size_t steps = 0, given = 0, most = 0;
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (size_t i = 0; i < std::size(blocks); ++i) {
    const size_t size = 16 + i % 120 * 16;
    memset(blocks[i] = hide(malloc(size)), 1, size);
  }
  for (size_t i = 0; i < std::size(blocks); ++i)
    if (i % 50 != 0) free(blocks[i]);
  const size_t freed = anonymous_rss();
  self.trim_elsewhere([&] { steps += trim_by_steps(kMiB, given, most); });
  const size_t after = anonymous_rss();
  if (on_flagship()) {
    EXPECT_GT(steps, (freed - after) / kMiB / 4);
    EXPECT_LE(most, 2 * kMiB);
  }
  EXPECT_GE(given + kMiB, freed - after);
  EXPECT_LE(freeway_trim(0), 256 * kKiB) << "nothing was left out";
  self.go_home();
  EXPECT_LE(freeway_trim(0), 256 * kKiB) << "nor where it came from";
  for (size_t i = 0; i < std::size(blocks); i += 50) free(blocks[i]);
  self.trim_elsewhere([&] { trim_by_steps(1, given, most); });
  EXPECT_LE(anonymous_rss(), before + 4 * kMiB);
}

TEST(TrimStep, EndsBesideThreadsThatAllocate) {
  std::atomic<bool> stop{false};
  std::thread other([&stop] {
    for (size_t i = 0; !stop; ++i) {
      void* several[64];
      for (size_t k = 0; k < 64; ++k) several[k] = hide(malloc(1 + (i * 131 + k * 977) % 40000));
      for (void* each : several) free(each);
    }
  });
  for (int i = 0; i < 2000; ++i) freeway_trim_step(64 * kKiB);
  stop = true;
  other.join();
  size_t given = 0, most = 0;
  trim_by_steps(kMiB, given, most);
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
}

TEST(Idle, IsAHintThatLosesNothing) {
  static void* blocks[4000];
  for (int round = 0; round < 200; ++round) {
    for (size_t i = 0; i < std::size(blocks); ++i) {
      blocks[i] = hide(malloc(1 + i));
      memset(blocks[i], round, 1 + i);
    }
    freeway_idle();
    for (size_t i = 0; i < std::size(blocks); ++i) {
      ASSERT_EQ(static_cast<unsigned char*>(blocks[i])[i], round);
      free(blocks[i]);
    }
    freeway_idle();
  }
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
}

// A thread that says again and again that it is about to sleep: its slab is emptied when it has rested for a while.
TEST(Idle, EmptiesTheSlabOfAThreadThatDoesNothing) {
  if (!on_flagship()) GTEST_SKIP() << "other engines have no slabs";
  const std::vector<int> before = freeway_test::usable_cpus();
  freeway_test::stay_on(before[0]);
  freeway_trim(0);
  for (size_t i = 0; i < 1000; ++i) {
    void* several[20];
    for (void*& each : several) each = hide(malloc(16 + i));
    for (void* each : several) free(each);
  }
  EXPECT_GT(cached_bytes(), 0u);
  for (int i = 0; i < 2000 && cached_bytes() != 0; ++i) {
    freeway_idle();
    usleep(10'000);
  }
  EXPECT_EQ(cached_bytes(), 0u) << "20 seconds of idleness";
  freeway_test::stay_on(before);
}

}  // namespace
}  // namespace freeway::test
