// SPDX-License-Identifier: MIT
// claimed_slabs_model.cc: src/cache/claimed_slabs.h, with the slabs, magazines and superblocks behind it, and who takes
// over what in the child of a fork (src/os/lives.h).
//
// Bounds    2 or 3 threads of 1 to 4 actions (cache_program.h), 1 or 2 slabs, superblocks of 1 to 3 blocks. Weak
//           memory, source-DPOR, exhausted; forks: sleep sets, exhausted. Stops: each thread for ever at each
//           operation. Every three scripts (long): at most 2000 executions each, which is printed
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/cache_program.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

Scenario scenario(const char* setup, u32 slabs, u32 blocks, const char* first, const char* second,
                  const char* third = "") {
  const CacheScript script{CacheMode::kClaimed, blocks, slabs, setup, {first, second, third}};
  return {std::to_string(slabs) + " slabs, " + (*setup ? setup : "nothing") + ": " + first + " | " + second +
              (*third ? " | " : "") + third,
          program_type<CacheProgram>(script)};
}

// The second thread forks; the third, if there is one, is made in the child.
Scenario fork_scenario(const char* setup, u32 slabs, const char* first, const char* second, const char* third = "") {
  Scenario each = scenario(setup, slabs, 3, first, second, third);
  if (*third != 0)
    each.program =
        program_type<CacheProgramWithChild>(CacheScript{CacheMode::kClaimed, 3, slabs, setup, {first, second, third}});
  each.options.reduction = Reduction::kSleep;
  return each;
}

std::vector<Scenario> by_hand() {
  return {
      scenario("", 1, 3, "m", "m"),           scenario("", 2, 3, "m", "m"),
      scenario("m", 1, 3, "m", "m"),          scenario("mmm0", 1, 3, "f", "m"),
      scenario("mmm0", 2, 3, "mf", "mf"),     scenario("mmm01", 1, 3, "f", "f"),
      scenario("mmm0", 1, 3, "m", "d"),       scenario("mmm0", 2, 3, "mf", "d"),
      scenario("mmm0", 1, 3, "f", "d"),       scenario("mmm0", 1, 3, "df", "dm"),
      scenario("mm", 1, 2, "m", "d"),         scenario("mm01", 1, 2, "f", "fd"),
      scenario("mm01", 2, 1, "f", "fd"),      scenario("m0", 2, 1, "fm", "dm"),
      scenario("mmm0", 1, 3, "m", "f", "d"),  scenario("m", 1, 3, "m", "m", "m"),
      scenario("mm01", 2, 2, "f", "f", "d"),  scenario("mmmm0000", 1, 3, "ffff", "d"),
      scenario("mmmm00", 2, 3, "cuvvr", "d"), scenario("mmm0", 2, 3, "cum", "fd"),
      scenario("", 1, 3, "m", "a"),           scenario("mmm01", 1, 3, "fh", "fh"),
      scenario("mmm0", 1, 3, "fh", "m"),      scenario("mmm0", 2, 3, "fh", "d"),
      scenario("mmm0", 1, 3, "ffh", "h"),     scenario("mmmm00", 1, 3, "ffh", "mf"),
  };
}

// T0 may be anywhere in a call when T1 forks. "c…F…r": the fork is in a handler that interrupted T1's own call.
std::vector<Scenario> forks() {
  return {
      fork_scenario("m0", 1, "f", "Fm"),
      fork_scenario("m0", 1, "f", "Fmf"),
      fork_scenario("m0", 2, "f", "Fm"),
      fork_scenario("mmm0", 1, "m", "Fm"),
      fork_scenario("mmm0", 1, "m", "Fd"),
      fork_scenario("mm1", 1, "d", "Fm"),
      fork_scenario("mm1", 1, "d", "Ff"),
      fork_scenario("mmm1", 1, "", "cFmTvr", "m"),
      fork_scenario("mmm1", 2, "", "cFTvr", "m"),
      fork_scenario("mmm1", 1, "", "cFTur", "m"),
      fork_scenario("mmm1", 1, "m", "cFmTvr", "m"),
  };
}

std::vector<Scenario> pairs() {
  struct Situation {
    const char* setup;
    u32 slabs, blocks;
  };
  constexpr Situation kSituations[] = {
      {"", 1, 3}, {"mmm01", 1, 3}, {"mmm01", 2, 3}, {"mm01", 2, 1}, {"mmmm0011", 1, 2}};
  constexpr const char* kScripts[] = {"m", "f", "d", "mf", "fd", "ff"};
  std::vector<Scenario> all;
  for (const Situation& at : kSituations)
    for (const char* first : kScripts)
      for (const char* second : kScripts) all.push_back(scenario(at.setup, at.slabs, at.blocks, first, second));
  return all;
}

TEST(ClaimedSlabsModel, PromisesHoldInScenariosChosenByHand) { expect_hold(by_hand()); }
TEST(ClaimedSlabsModel, PromisesHoldForEveryPairOfScripts) { expect_all_hold(pairs()); }
TEST(ClaimedSlabsModel, AChildOfAForkGoesOnWithWhatStayedBehind) { expect_hold(forks()); }

// A thread that dies with a slab, a batch, or a superblock in its hands.
TEST(ClaimedSlabsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : by_hand()) {
    if (explore_program(each.program, {.max_executions = 150}).exhausted) {
      each.stalls = true;
      scenarios.push_back(each);
    }
  }
  EXPECT_GT(scenarios.size(), 10U);
  expect_all_hold(scenarios);
}

TEST(ClaimedSlabsModel, DISABLED_PromisesHoldForEveryThreeScripts) {
  constexpr const char* kScripts[] = {"m", "f", "d", "mf", "fm"};
  std::vector<Scenario> all;
  for (const char* setup : {"", "mmm012", "mmmm012"})
    for (u32 slabs : {1U, 2U})
      for (const char* first : kScripts)
        for (const char* second : kScripts)
          for (const char* third : kScripts) {
            all.push_back(scenario(setup, slabs, 3, first, second, third));
            all.back().options.max_executions = 2000;
          }
  expect_all_hold(all);
}

TEST(ClaimedSlabsMutants, AreCaught) {
  for (const char* mutant :
       {"held slabs are claimed", "claimed by a store", "released before it is used", "closed before it is empty",
        "sent home and kept"})
    expect_mutant_caught(by_hand(), mutant);
}
TEST(ClaimedSlabsMutants, TakingOverFromOneself) { expect_mutant_caught(forks(), "the epoch alone decides"); }
// Found by this model: see decision 007.
TEST(ClaimedSlabsMutants, TakingAChildsThreadForTheSurvivor) {
  expect_mutant_caught(forks(), "whoever comes first survived");
}
TEST(ClaimedSlabsMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(by_hand(), "cache/claimed_slabs.h"); }

}  // namespace
}  // namespace freeway::model
