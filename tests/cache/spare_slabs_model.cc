// SPDX-License-Identifier: MIT
// spare_slabs_model.cc: src/cache/spare_slabs.h, with the slabs, magazines and superblocks behind it: slabs that are
// claimed for one call, and slabs that stay their thread's between its calls, entered by plain stores and loads and
// revoked through membarrier; and who takes over what in the child of a fork (src/sync/lives.h).
//
// Bounds    2 or 3 threads of 1 to 4 actions (cache_program.h), superblocks of 1 to 3 blocks. Weak memory. Stops: each
//           thread for ever at each operation.
//           For calls: 1 or 2 slabs; source-DPOR, exhausted; forks: sleep sets, exhausted. Every three scripts (long):
//           at most 2000 executions each, which is printed
//           Kept: 1 or 2 slabs to keep and one for calls. membarrier is a moment at which everybody sees what everybody
//           did before; until then a thread that enters may read an old claim, and a revoker an old inside. Sleep sets;
//           exhausted in the long form
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cache/cache_program.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

Scenario scenario(CacheMode mode, const char* setup, u32 slabs, u32 blocks, const char* first, const char* second,
                  const char* third = "") {
  const CacheScript script{mode, blocks, slabs, setup, {first, second, third}};
  Scenario each{std::to_string(slabs) + (mode == CacheMode::kKept ? " to keep, " : " for calls, ") +
                    (*setup ? setup : "nothing") + ": " + first + " | " + second + (*third ? " | " : "") + third,
                program_type<CacheProgram>(script)};
  if (mode == CacheMode::kKept) each.options.reduction = Reduction::kSleep;
  return each;
}
Scenario calls(const char* setup, u32 slabs, u32 blocks, const char* first, const char* second,
               const char* third = "") {
  return scenario(CacheMode::kClaimed, setup, slabs, blocks, first, second, third);
}
Scenario keepers(const char* setup, u32 slabs, const char* first, const char* second, const char* third = "") {
  return scenario(CacheMode::kKept, setup, slabs, 3, first, second, third);
}

// The second thread forks, or the first; the third, if there is one, is made in the child.
Scenario fork_scenario(CacheMode mode, const char* setup, u32 slabs, const char* first, const char* second,
                       const char* third = "") {
  Scenario each = scenario(mode, setup, slabs, 3, first, second, third);
  if (*third != 0)
    each.program = program_type<CacheProgramWithChild>(CacheScript{mode, 3, slabs, setup, {first, second, third}});
  each.options.reduction = Reduction::kSleep;
  return each;
}

std::vector<Scenario> of_calls() {
  return {
      calls("", 1, 3, "m", "m"),           calls("", 2, 3, "m", "m"),          calls("m", 1, 3, "m", "m"),
      calls("mmm0", 1, 3, "f", "m"),       calls("mmm0", 2, 3, "mf", "mf"),    calls("mmm01", 1, 3, "f", "f"),
      calls("mmm0", 1, 3, "m", "d"),       calls("mmm0", 2, 3, "mf", "d"),     calls("mmm0", 1, 3, "f", "d"),
      calls("mmm0", 1, 3, "df", "dm"),     calls("mm", 1, 2, "m", "d"),        calls("mm01", 1, 2, "f", "fd"),
      calls("mm01", 2, 1, "f", "fd"),      calls("m0", 2, 1, "fm", "dm"),      calls("mmm0", 1, 3, "m", "f", "d"),
      calls("m", 1, 3, "m", "m", "m"),     calls("mm01", 2, 2, "f", "f", "d"), calls("mmmm0000", 1, 3, "ffff", "d"),
      calls("mmmm00", 2, 3, "cuvvr", "d"), calls("mmm0", 2, 3, "cum", "fd"),   calls("", 1, 3, "m", "a"),
      calls("mmm01", 1, 3, "fh", "fh"),    calls("mmm0", 1, 3, "fh", "m"),     calls("mmm0", 2, 3, "fh", "d"),
      calls("mmm0", 1, 3, "ffh", "h"),     calls("mmmm00", 1, 3, "ffh", "mf"),
  };
}
// The setup's slab is the first thread's.
std::vector<Scenario> of_keepers() {
  return {
      keepers("", 1, "m", "m"),        keepers("", 2, "m", "m"),      keepers("m", 1, "m", "m"),
      keepers("mmm1", 1, "m", "f"),    keepers("mmm0", 1, "f", "m"),  keepers("mmm01", 1, "f", "f"),
      keepers("mm0", 1, "f", "d"),     keepers("m", 1, "m", "d"),     keepers("m0", 1, "df", ""),
      keepers("m", 1, "", "mm"),       keepers("m", 1, "m", "Km"),    keepers("", 1, "m", "a"),
      keepers("m", 2, "d", "m"),       keepers("m", 1, "cu", "m"),    keepers("m", 1, "cumr", ""),
      keepers("m", 1, "", "d", "m"),   keepers("mmm0", 1, "fh", "m"), keepers("mmm00", 1, "ffh", "d"),
      keepers("mmm01", 2, "fh", "fh"), keepers("m", 1, "cdur", "m"),  keepers("m", 1, "d", "d"),
  };
}

// T0 may be anywhere in a call when T1 forks. "c…F…r": the fork is in a handler that interrupted T1's own call.
std::vector<Scenario> forks_of_calls() {
  const auto each = [](const char* setup, u32 slabs, const char* first, const char* second, const char* third = "") {
    return fork_scenario(CacheMode::kClaimed, setup, slabs, first, second, third);
  };
  return {
      each("m0", 1, "f", "Fm"),          each("m0", 1, "f", "Fmf"),           each("m0", 2, "f", "Fm"),
      each("mmm0", 1, "m", "Fm"),        each("mmm0", 1, "m", "Fd"),          each("mm1", 1, "d", "Fm"),
      each("mm1", 1, "d", "Ff"),         each("mmm1", 1, "", "cFmTvr", "m"),  each("mmm1", 2, "", "cFTvr", "m"),
      each("mmm1", 1, "", "cFTur", "m"), each("mmm1", 1, "m", "cFmTvr", "m"),
  };
}
std::vector<Scenario> forks_of_keepers() {
  const auto each = [](const char* setup, u32 slabs, const char* first, const char* second, const char* third = "") {
    return fork_scenario(CacheMode::kKept, setup, slabs, first, second, third);
  };
  return {
      each("m0", 1, "f", "Fm"),  each("m1", 1, "m", "Ff"),         each("m1", 1, "d", "Fd"),
      each("m1", 2, "m", "mFf"), each("mm0", 1, "cFTvr", "", "m"), each("m0", 1, "cFTvr", "m", "m"),
  };
}

std::vector<Scenario> pairs_of_calls() {
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
      for (const char* second : kScripts) all.push_back(calls(at.setup, at.slabs, at.blocks, first, second));
  return all;
}
std::vector<Scenario> pairs_of_keepers() {
  std::vector<Scenario> all;
  for (const char* setup : {"", "mmm01"})
    for (u32 slabs : {1U, 2U})
      for (const char* first : {"m", "f", "d", "mf"})
        for (const char* second : {"m", "f", "d", "fm"}) all.push_back(keepers(setup, slabs, first, second));
  return all;
}

TEST(SpareSlabsModel, CallsHoldInScenariosChosenByHand) { expect_hold(of_calls()); }
TEST(SpareSlabsModel, CallsHoldForEveryPairOfScripts) { expect_all_hold(pairs_of_calls()); }
TEST(SpareSlabsModel, AChildOfAForkGoesOnWithWhatCallsLeftBehind) { expect_hold(forks_of_calls()); }
TEST(SpareSlabsModel, KeepersHoldInScenariosChosenByHand) { expect_hold(limited(of_keepers(), 1500)); }
TEST(SpareSlabsModel, KeepersHoldForEveryPairOfScripts) { expect_all_hold(limited(pairs_of_keepers(), 200)); }
TEST(SpareSlabsModel, AChildOfAForkGoesOnWithWhatKeepersLeftBehind) { expect_hold(limited(forks_of_keepers(), 1500)); }
TEST(SpareSlabsModel, DISABLED_KeepersHoldInScenariosChosenByHand) { expect_hold(of_keepers()); }
TEST(SpareSlabsModel, DISABLED_AChildOfAForkGoesOnWithWhatKeepersLeftBehind) { expect_hold(forks_of_keepers()); }
TEST(SpareSlabsModel, DISABLED_KeepersHoldForEveryPairOfScripts) {
  expect_all_hold(limited(pairs_of_keepers(), 20000));
}

TEST(SpareSlabsModel, DISABLED_CallsHoldForEveryThreeScripts) {
  constexpr const char* kScripts[] = {"m", "f", "d", "mf", "fm"};
  std::vector<Scenario> all;
  for (const char* setup : {"", "mmm012", "mmmm012"})
    for (u32 slabs : {1U, 2U})
      for (const char* first : kScripts)
        for (const char* second : kScripts)
          for (const char* third : kScripts) {
            all.push_back(calls(setup, slabs, 3, first, second, third));
            all.back().options.max_executions = 2000;
          }
  expect_all_hold(all);
}

// A thread that dies with a slab, a batch, or a superblock in its hands.
TEST(SpareSlabsModel, OthersFinishWhenACallStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : of_calls()) {
    if (explore_program(each.program, {.max_executions = 150}).exhausted) {
      each.stalls = true;
      scenarios.push_back(each);
    }
  }
  EXPECT_GT(scenarios.size(), 10U);
  expect_all_hold(scenarios);
}
// Also in its slab, where nobody may follow it, or while it revokes another's. So many executions for each stop.
void expect_others_finish(std::uint64_t executions) {
  std::vector<Scenario> scenarios = limited(of_keepers(), executions);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_all_hold(scenarios);
}
TEST(SpareSlabsModel, OthersFinishWhenAKeeperStopsForEver) { expect_others_finish(100); }
TEST(SpareSlabsModel, DISABLED_OthersFinishWhenAKeeperStopsForEver) { expect_others_finish(2000); }

TEST(SpareSlabsMutants, OfCallsAreCaught) {
  for (const char* mutant : {"held ones are claimed", "claimed by a store", "released before it is used",
                             "closed before it is empty", "sent home and kept"})
    expect_mutant_caught(of_calls(), mutant);
}
TEST(SpareSlabsMutants, OfKeepersAreCaught) {
  for (const char* mutant :
       {"held ones are claimed", "no barrier", "inside is read before the mark", "the keeper does not look",
        "inside is said too late", "revoked from inside", "sent home and kept"})
    expect_mutant_caught(of_keepers(), mutant);
  expect_mutant_caught({keepers("m", 1, "cdur", "m")}, "what a handler interrupted is drained");
}
TEST(SpareSlabsMutants, TakingOverFromOneself) {
  expect_mutant_caught(forks_of_calls(), "the epoch alone decides");
  expect_mutant_caught(forks_of_keepers(), "the epoch alone decides");
}
// Found by this model: see decision 007.
TEST(SpareSlabsMutants, TakingAChildsThreadForTheSurvivor) {
  expect_mutant_caught(forks_of_calls(), "whoever comes first survived");
}
TEST(SpareSlabsMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed({calls("", 1, 3, "m", "a"), keepers("", 1, "m", "m"), keepers("", 1, "m", "a"),
                        keepers("m", 1, "m", "m"), keepers("mmm1", 1, "m", "f"), keepers("mm0", 1, "f", "d"),
                        keepers("m", 1, "d", "m"), keepers("m", 1, "d", "d"), keepers("", 1, "m", "d")},
                       "cache/spare_slabs.h");
}

}  // namespace
}  // namespace freeway::model
