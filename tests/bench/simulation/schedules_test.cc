// SPDX-License-Identifier: MIT
//
// Time Warp on schedules that a test chooses: executors of several threads, stepped at random by one. So every rollback
// can be repeated, and there are many more than threads would make. The committed events must be the sequential run's;
// with a fault planted into the engine, they must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <stdexcept>

#include "tests/bench/simulation/small_models.h"
#include "tests/support/random.h"

namespace simulation::test {
namespace {

using freeway::test::Random;
using freeway::test::test_seed;

constexpr Time kEnd = 150;

struct Result {
  std::uint64_t committed = 0, checksum = 0, rolled_back = 0, anti_messages = 0;
  BlockCounts blocks;
};

// One run by `threads` executors in an order that `random` chooses. With `skip_deliveries` GVT is taken, wrongly, while
// messages are on their way.
template <class Faults, class Model>
Result run_by_schedule(const Model& model, std::uint64_t seed, std::uint32_t threads, Random& random,
                       bool skip_deliveries = false) {
  using Thread = TimeWarpExecutor<Model, Faults>;
  Settings settings;
  settings.threads = threads;
  settings.mapping = random.chance(50) ? Mapping::kBlocks : Mapping::kRoundRobin;
  settings.end = kEnd;
  settings.seed = seed;
  World<Model> world(model, settings);
  std::deque<Thread> team;
  for (std::uint32_t i = 0; i < threads; ++i) team.emplace_back(world, i).start();
  Time gvt = 0;
  while (gvt < kEnd) {
    Thread& thread = team[random.below(threads)];
    if (random.chance(60)) thread.receive();
    thread.execute_before(random.chance(50) ? kNever : gvt + 40, random.below(20));
    if (!random.chance(10)) continue;
    for (bool quiet = skip_deliveries; !quiet;) {
      quiet = true;
      for (Thread& each : team) quiet = each.receive() == 0 && quiet;
    }
    gvt = kEnd;
    for (Thread& each : team) gvt = std::min(gvt, each.earliest());
    for (Thread& each : team) each.collect_before(gvt);
  }
  Result result;
  for (Thread& thread : team) {
    thread.receive();
    thread.finish();
    result.blocks.add(thread.counts());
    result.rolled_back += thread.rolled_back();
    result.anti_messages += thread.anti_messages();
  }
  result.committed = world.committed();
  result.checksum = world.checksum();
  return result;
}

template <class Model> void check_schedules(const Model& model, int rounds) {
  Random random(test_seed());
  std::uint64_t rolled_back = 0, anti_messages = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t seed = random.next();
    const auto threads = static_cast<std::uint32_t>(1 + random.below(5));
    const Outcome wanted = reference(model, seed, kEnd);
    const Result result = run_by_schedule<NoFaults>(model, seed, threads, random);
    ASSERT_EQ(result.committed, wanted.committed) << "round " << round << ", threads " << threads;
    ASSERT_EQ(result.checksum, wanted.checksum) << "round " << round << ", threads " << threads;
    ASSERT_EQ(result.blocks.allocated, result.blocks.freed);
    rolled_back += result.rolled_back;
    anti_messages += result.anti_messages;
  }
  // About 150 and 50 a run were seen.
  std::printf("%llu executions undone, %llu anti-messages in %d runs\n", static_cast<unsigned long long>(rolled_back),
              static_cast<unsigned long long>(anti_messages), rounds);
  EXPECT_GT(rolled_back, static_cast<std::uint64_t>(rounds) * 10);
  EXPECT_GT(anti_messages, static_cast<std::uint64_t>(rounds));
}

TEST(Schedules, PholdCommitsTheSameEventsUnderAnySchedule) {
  check_schedules(small_phold(60), 300);
  check_schedules(small_phold(100), 300);
}
TEST(Schedules, PcsCommitsTheSameEventsUnderAnySchedule) { check_schedules(small_pcs(), 300); }
TEST(Schedules, AirportCommitsTheSameEventsUnderAnySchedule) { check_schedules(small_airport(), 300); }

// --- Planted faults --------------------------------------------------------------------------------------------------

struct TimeOnly {
  static bool before(const Key& a, const Key& b) { return a.time < b.time; }
};
struct TiesUndecided : NoFaults {
  using Order = TimeOnly;
};
struct AntiMessagesDropped : NoFaults {
  static constexpr bool kDropAntiMessages = true;
};
struct RandomStreamKept : NoFaults {
  static constexpr bool kKeepRandomStream = true;
};
struct Reporting : NoFaults {
  [[noreturn]] static void broken(const char* what) { throw std::logic_error(what); }
};

// In how many of `rounds` schedules the committed events are not those of the sequential run.
template <class Faults> int noticed(int rounds) {
  const Phold model = small_phold(60);
  Random random(test_seed());
  int differences = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t seed = random.next();
    differences += run_by_schedule<Faults>(model, seed, 3, random).checksum != reference(model, seed, kEnd).checksum;
  }
  return differences;
}

TEST(PlantedFaults, UndecidedTiesAreNoticed) { EXPECT_GT(noticed<TiesUndecided>(20), 10); }
TEST(PlantedFaults, DroppedAntiMessagesAreNoticed) { EXPECT_GT(noticed<AntiMessagesDropped>(20), 10); }
TEST(PlantedFaults, RandomNumbersThatAreNotRestoredAreNoticed) { EXPECT_GT(noticed<RandomStreamKept>(20), 10); }
TEST(PlantedFaults, WithoutAFaultNothingIsNoticed) { EXPECT_EQ(noticed<NoFaults>(20), 0); }

TEST(PlantedFaults, AGvtThatIgnoresMessagesOnTheirWayIsReported) {
  const Phold model = small_phold(60);
  Random random(test_seed());
  int reports = 0;
  for (int round = 0; round < 20; ++round) {
    try {
      run_by_schedule<Reporting>(model, random.next(), 3, random, true);
    } catch (const std::logic_error&) {
      ++reports;  // what that run had allocated is lost
    }
  }
  EXPECT_GT(reports, 10);
}

}  // namespace
}  // namespace simulation::test
