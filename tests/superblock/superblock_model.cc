// SPDX-License-Identifier: MIT
// superblock_model.cc: src/superblock/superblocks.h keeps its promises in every execution of many small programs.
//
// Promises  see superblock_program.h and superblock_invariant.h; with a thread stopped for ever, the others must finish
//           and nothing may be in two places
// Bounds    programs chosen by hand (2 or 3 threads, up to 7 actions); all clients of two calls in each situation;
//           those of three calls of two threads, up to 40 executions each: weak memory, source-DPOR. More of these
//           executions: superblock_clients_model.cc. Long, in `make prove` (DISABLED_): 8000 clients of three calls,
//           chosen at random, with each thread stopped for ever at each operation, 500 executions a stop; random walks
//           through longer scripts
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "tests/superblock/superblock_scenarios.h"

namespace freeway::model {
namespace {

TEST(SuperblockModel, PromisesHoldInScenariosChosenByHand) { expect_hold(superblock_scenarios()); }

TEST(SuperblockModel, PromisesHoldForAllClientsOfTwoCalls) { expect_all_hold(superblock_clients(2, 2)); }
TEST(SuperblockModel, PromisesHoldForClientsOfThreeCalls) { expect_all_hold(limited(superblock_clients(2, 3), 40)); }

TEST(SuperblockModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : superblock_scenarios()) {
    Options options{.max_executions = 1500};
    if (!explore_program(each.program, options).exhausted) continue;  // the larger ones are left to the long tests
    each.stalls = true;
    scenarios.push_back(each);
  }
  expect_hold(scenarios);
}

TEST(SuperblockModel, ReductionsSeeAllOutcomes) {
  const std::vector<Scenario> clients = superblock_clients(2, 3);
  int compared = 0;
  for (std::size_t i = 0; i < clients.size() && compared < 30; i += 7) {  // a sample: full searches are slow
    const Scenario& each = clients[i];
    Options options{.max_executions = 3000};
    options.reduction = Reduction::kFull;
    Result full = explore_program(each.program, options);
    if (!full.exhausted || full.executions < 50) continue;  // too large, or too small to tell
    Result reduced = explore_program(each.program, each.options);
    ASSERT_EQ(reduced.outcomes, full.outcomes) << each.name;
    ++compared;
  }
  std::printf("  %d programs whose full search has 50 to 3000 executions\n", compared);
  EXPECT_GT(compared, 20);
}

// The long tests ----------------------------------------------------------------------------------------------------

std::uint64_t limit(std::uint64_t otherwise) {
  const char* given = std::getenv("FREEWAY_MODEL_LIMIT");
  return given ? std::strtoull(given, nullptr, 10) : otherwise;
}

TEST(SuperblockModel, DISABLED_OthersFinishInManyClientsWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = sample(superblock_clients(2, 3), 8000);
  for (Scenario& each : superblock_scenarios()) scenarios.push_back(each);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_all_hold(limited(scenarios, limit(500)));
}

TEST(SuperblockModel, DISABLED_RandomWalksThroughLongScripts) { expect_hold(superblock_long_scripts()); }

}  // namespace
}  // namespace freeway::model
