// SPDX-License-Identifier: MIT
//
// Whole runs by threads: the same seed gives the same committed events whatever the synchronisation, the number of
// threads and the mapping. Registered on glibc's malloc and on Freeway's.
#include <gtest/gtest.h>

#include "tests/bench/simulation/small_models.h"

namespace simulation::test {
namespace {

constexpr Time kEnd = 1500;

// All ways to run `model`; 16 threads are more than one of the models has processes. Adds to `rolled_back` what Time
// Warp undid.
template <class Model>
void check_all_ways(const Model& model, std::uint64_t seed, std::uint64_t& rolled_back, std::uint64_t events = 1000) {
  const Outcome wanted = reference(model, seed, kEnd);
  ASSERT_GT(wanted.committed, events);
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u, 16u}) {
    for (const Synchronisation synchronisation : {Synchronisation::kConservative, Synchronisation::kTimeWarp}) {
      for (const Mapping mapping : {Mapping::kBlocks, Mapping::kRoundRobin}) {
        Settings settings;
        settings.threads = threads;
        settings.mapping = mapping;
        settings.end = kEnd;
        settings.seed = seed;
        settings.gvt_interval = 256;
        const Outcome outcome = run(model, settings, synchronisation);
        const auto how = testing::Message() << threads << " threads, seed " << seed << ", synchronisation "
                                            << static_cast<int>(synchronisation);
        ASSERT_EQ(outcome.committed, wanted.committed) << how;
        ASSERT_EQ(outcome.checksum, wanted.checksum) << how;
        ASSERT_EQ(outcome.blocks.allocated, outcome.blocks.freed) << how;
        ASSERT_TRUE(synchronisation == Synchronisation::kTimeWarp || outcome.rolled_back == 0);
        rolled_back += outcome.rolled_back;
      }
    }
  }
}

TEST(SameEvents, Phold) {
  std::uint64_t rolled_back = 0;
  for (const std::uint32_t remote : {0u, 50u, 100u})
    for (const std::uint64_t seed : {1u, 2u}) check_all_ways(small_phold(remote), seed, rolled_back);
  EXPECT_GT(rolled_back, 0u);
}

TEST(SameEvents, Pcs) {
  std::uint64_t rolled_back = 0;
  for (const std::uint64_t seed : {1u, 2u}) check_all_ways(small_pcs(), seed, rolled_back);
  EXPECT_GT(rolled_back, 0u);
}

TEST(SameEvents, Airport) {
  std::uint64_t rolled_back = 0;
  for (const std::uint64_t seed : {1u, 2u}) check_all_ways(small_airport(), seed, rolled_back);
  EXPECT_GT(rolled_back, 0u);
}

// With three events in all, often the earliest one, or every one, is on its way when the threads meet.
TEST(SameEvents, EventsOnTheirWayCount) {
  const Phold model({.processes = 3, .events = 1, .remote = 100, .mean = 20, .lookahead = 2});
  std::uint64_t rolled_back = 0;
  for (const std::uint64_t seed : {1u, 2u, 3u}) check_all_ways(model, seed, rolled_back, 100);
}

TEST(SameEvents, AnotherSeedGivesOtherEvents) {
  EXPECT_NE(reference(small_phold(50), 1, kEnd).checksum, reference(small_phold(50), 2, kEnd).checksum);
}

// No window, no GVT but when a thread has nothing left: threads run as far apart as they can.
TEST(SameEvents, UnboundedOptimismIsUndone) {
  const Outcome wanted = reference(small_phold(100), 5, kEnd);
  Settings settings;
  settings.threads = 8;
  settings.end = kEnd;
  settings.seed = 5;
  settings.gvt_interval = 1'000'000;
  const Outcome outcome = run(small_phold(100), settings, Synchronisation::kTimeWarp);
  EXPECT_EQ(outcome.checksum, wanted.checksum);
  EXPECT_GT(outcome.rolled_back, 0u);
  EXPECT_GT(outcome.anti_messages, 0u);
  EXPECT_EQ(outcome.blocks.allocated, outcome.blocks.freed);
}

// A narrow window: no thread is more than 10 ticks ahead of GVT.
TEST(SameEvents, ANarrowWindowNeedsMoreAgreements) {
  const Outcome wanted = reference(small_phold(50), 5, kEnd);
  Settings settings;
  settings.threads = 3;
  settings.end = kEnd;
  settings.seed = 5;
  settings.window = 10;
  const Outcome outcome = run(small_phold(50), settings, Synchronisation::kTimeWarp);
  EXPECT_EQ(outcome.checksum, wanted.checksum);
  EXPECT_GE(outcome.rounds, kEnd / 20) << "GVT moves on by at most the window and one event's delay";
}

}  // namespace
}  // namespace simulation::test
