// SPDX-License-Identifier: MIT
// cpu_slabs_model.cc: src/cache/cpu_slabs.h: slabs that belong to CPUs and are entered through restartable sections,
// made by whoever needs one first and drained by others; with the magazines and superblocks behind them.
//
// Bounds    2 or 3 threads of 1 or 2 actions (cache_program.h) on one CPU and another, superblocks of 1 to 3 blocks. A
//           section is interrupted at most once by a thread of its CPU ("sections begin again"), or never where a
//           program is too large for that, and by each membarrier. Weak memory, sleep sets, exhausted. Stops: each
//           thread for ever at each operation, also inside a section. Long: random walks, sections interrupted up to
//           three times
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/cache/cache_program.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

struct Cpus {
  int first, second, third;
};
constexpr Cpus kOne = {0, 0, 1}, kTwo = {0, 1, 1};

Scenario scenario(const Cpus& cpus, int restarts, const char* setup, u32 blocks, const char* first, const char* second,
                  const char* third = "") {
  const CacheScript script{
      CacheMode::kSections, blocks, 1, setup, {first, second, third}, {cpus.first, cpus.second, cpus.third}};
  Scenario each{std::string(cpus.second == 0 ? "one CPU" : "two CPUs") +
                    (restarts != 0 ? ", sections begin again, " : ", ") + (*setup ? setup : "nothing") + ": " + first +
                    " | " + second + (*third ? " | " : "") + third,
                program_type<CacheProgram>(script)};
  each.options.reduction = Reduction::kSleep;
  each.options.restarts = restarts;
  return each;
}

std::vector<Scenario> by_hand() {
  return {
      scenario(kOne, 1, "m", 3, "m", "m"),
      scenario(kOne, 1, "mm0", 3, "f", "m"),
      scenario(kOne, 1, "mm01", 3, "f", "f"),
      scenario(kTwo, 1, "m", 3, "m", "d"),
      scenario(kTwo, 1, "mm0", 3, "f", "d"),
      scenario(kTwo, 1, "mm0", 3, "f", "m"),
      scenario(kTwo, 0, "mm", 2, "m", "d"),
      scenario(kOne, 0, ">mm01", 2, "f", "f"),
      scenario(kTwo, 0, ">mm0", 2, "f", "d"),
      scenario(kTwo, 0, "", 3, "m", "a"),
      scenario(kTwo, 1, "mm", 3, "d", "d"),
      scenario(kTwo, 0, "mmm0", 3, "f>m", "d"),
      scenario(kOne, 0, "mm01", 3, "f", "f", "a"),
      scenario(kTwo, 0, "mm0", 3, "f", "D"),
      scenario(kTwo, 1, "m", 3, "m", "D"),
      scenario(kTwo, 0, "mmm00", 3, "ffh", "d"),
      scenario(kOne, 0, "mmm00", 3, "ffh", "m"),
      scenario(kOne, 0, "mmm001", 3, "ffh", "f"),
      scenario(kOne, 0, "mmmmmmffff11", 3, "h", "ff"),
  };
}

// The second thread forks; the first was draining, or on its way to a slab.
std::vector<Scenario> forks() {
  return {scenario(kTwo, 0, "mm1", 3, "d", "F>m"), scenario(kTwo, 0, "mm1", 3, "d", "F>f"),
          scenario(kTwo, 0, ">m1", 3, "m", "F>f"), scenario(kOne, 1, "mm1", 3, "m", "Ff")};
}

TEST(CpuSlabsModel, PromisesHoldInScenariosChosenByHand) { expect_hold(by_hand()); }
std::vector<Scenario> pairs() {
  constexpr const char* kScripts[] = {"m", "f", "mf", "fm"};
  std::vector<Scenario> all;
  for (const Cpus& cpus : {kOne, kTwo})
    for (const char* setup : {"mm01", ">mm01", "mmmm01"})
      for (const char* first : kScripts)
        for (const char* second : {"m", "f", "mf", "d", "D"}) all.push_back(scenario(cpus, 0, setup, 3, first, second));
  return all;
}

TEST(CpuSlabsModel, PromisesHoldForEveryPairOfScripts) { expect_all_hold(limited(pairs(), 400)); }
TEST(CpuSlabsModel, DISABLED_PromisesHoldForEveryPairOfScripts) { expect_all_hold(limited(pairs(), 10000)); }
TEST(CpuSlabsModel, AChildOfAForkPutsBackWhatWasTakenOut) { expect_hold(forks()); }

TEST(CpuSlabsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : by_hand()) {
    each.options.max_executions = 800;
    if (!explore_program(each.program, each.options).exhausted) continue;
    each.options.max_executions = 0;
    each.stalls = true;
    scenarios.push_back(each);
  }
  EXPECT_GT(scenarios.size(), 5U);
  expect_hold(scenarios);
}

TEST(CpuSlabsModel, DISABLED_RandomWalksThroughLongScripts) {
  std::vector<Scenario> all = {
      scenario(kOne, 3, "mmmm0011", 3, "fmfm", "fmmf", "dmd"),
      scenario(kTwo, 3, "mmmm0011", 2, "fm>fm", "dfm>d", "mdf"),
      scenario(kOne, 2, "", 3, "mmff", "mfmf", "dd"),
      scenario(kOne, 2, ">mmm01", 1, "ff", "fmf", "dd>m"),
  };
  const char* seed = std::getenv("FREEWAY_TEST_SEED");
  const char* walks = std::getenv("FREEWAY_MODEL_LIMIT");
  for (Scenario& each : all) {
    each.options.seed = seed ? std::strtoull(seed, nullptr, 10) : 20261120;
    each.options.random_walks = walks ? std::strtoull(walks, nullptr, 10) : 100000;
  }
  expect_hold(all);
}

TEST(CpuSlabsMutants, AreCaught) {
  for (const char* mutant : {"sections are not interrupted", "held ones are claimed", "held beside the current one",
                             "the current superblock is looked at, not taken", "put over the current superblock",
                             "refused is taken for done", "what does not fit is forgotten", "closed before it is empty",
                             "sent home and kept", "kept blocks that do not fit are forgotten"})
    expect_mutant_caught(by_hand(), mutant);
  expect_mutant_caught(forks(), "always a new slab");
}
TEST(CpuSlabsMutants, EachMemoryOrderIsNeeded) {
  const std::vector<Scenario> all = {
      scenario(kTwo, 0, "", 3, "m", "a"),     scenario(kTwo, 1, "mm", 3, "d", "d"),
      scenario(kTwo, 1, "m", 3, "m", "d"),    scenario(kOne, 0, ">mm01", 2, "f", "f"),
      scenario(kTwo, 0, ">mm0", 2, "f", "d"),
  };
  expect_orders_needed(all, "cache/cpu_slabs.h");
}

}  // namespace
}  // namespace freeway::model
