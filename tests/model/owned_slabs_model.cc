// SPDX-License-Identifier: MIT
// owned_slabs_model.cc: src/cache/owned_slabs.h, with the slabs, magazines and superblocks behind it: slabs that stay
// their thread's between its calls, entered by plain stores and loads, and revoked through membarrier.
//
// Bounds    2 or 3 threads of 1 to 4 actions (cache_program.h), 1 or 2 slabs to own and one to claim, superblocks of 1 to
//           3 blocks. membarrier is a moment at which everybody sees what everybody did before; until then a thread that
//           enters may read an old owner, and a revoker an old inside. Weak memory, sleep sets; exhausted in the long
//           form. Stops: each thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/cache_program.h"
#include "model/scenarios.h"

namespace freeway::model {
namespace {

Scenario scenario(const char* setup, u32 slabs, u32 blocks, const char* first, const char* second,
                  const char* third = "") {
  const CacheScript script{CacheMode::kOwned, blocks, slabs, setup, {first, second, third}};
  Scenario each{std::to_string(slabs) + " slabs, " + (*setup ? setup : "nothing") + ": " + first + " | " + second +
                    (*third ? " | " : "") + third,
                program_type<CacheProgram>(script)};
  each.options.reduction = Reduction::kSleep;
  return each;
}

// The third thread is made in the child.
Scenario with_child(const char* setup, u32 slabs, const char* first, const char* second, const char* third) {
  Scenario each = scenario(setup, slabs, 3, first, second, third);
  each.program =
      program_type<CacheProgramWithChild>(CacheScript{CacheMode::kOwned, 3, slabs, setup, {first, second, third}});
  return each;
}

// The setup's slab is the first thread's.
std::vector<Scenario> by_hand() {
  return {
      scenario("", 1, 3, "m", "m"),     scenario("", 2, 3, "m", "m"),     scenario("m", 1, 3, "m", "m"),
      scenario("mmm1", 1, 3, "m", "f"), scenario("mmm0", 1, 3, "f", "m"), scenario("mmm01", 1, 3, "f", "f"),
      scenario("mm0", 1, 3, "f", "d"),  scenario("m", 1, 3, "m", "d"),    scenario("m0", 1, 3, "df", ""),
      scenario("m", 1, 3, "", "mm"),    scenario("m", 1, 3, "m", "Km"),   scenario("", 1, 3, "m", "a"),
      scenario("m", 2, 3, "d", "m"),    scenario("m", 1, 3, "cu", "m"),   scenario("m", 1, 3, "cumr", ""),
      scenario("m", 1, 3, "", "d", "m"), scenario("mmm0", 1, 3, "fh", "m"), scenario("mmm00", 1, 3, "ffh", "d"),
      scenario("mmm01", 2, 3, "fh", "fh"),
  };
}

// T0 may be anywhere in a call when T1 forks. "c…F…r": the fork is in a handler that interrupted T1's own call.
std::vector<Scenario> forks() {
  return {
      scenario("m0", 1, 3, "f", "Fm"),
      scenario("m1", 1, 3, "m", "Ff"),
      scenario("m1", 1, 3, "d", "Fd"),
      scenario("m1", 2, 3, "m", "mFf"),
      with_child("mm0", 1, "cFTvr", "", "m"),
      with_child("m0", 1, "cFTvr", "m", "m"),
  };
}

std::vector<Scenario> pairs() {
  std::vector<Scenario> all;
  for (const char* setup : {"", "mmm01"})
    for (u32 slabs : {1U, 2U})
      for (const char* first : {"m", "f", "d", "mf"})
        for (const char* second : {"m", "f", "d", "fm"}) all.push_back(scenario(setup, slabs, 3, first, second));
  return all;
}

TEST(OwnedSlabsModel, PromisesHoldInScenariosChosenByHand) { expect_hold(limited(by_hand(), 1500)); }
TEST(OwnedSlabsModel, PromisesHoldForEveryPairOfScripts) { expect_all_hold(limited(pairs(), 200)); }
TEST(OwnedSlabsModel, AChildOfAForkGoesOnWithWhatStayedBehind) { expect_hold(limited(forks(), 1500)); }
TEST(OwnedSlabsModel, DISABLED_PromisesHoldInScenariosChosenByHand) { expect_hold(by_hand()); }
TEST(OwnedSlabsModel, DISABLED_AChildOfAForkGoesOnWithWhatStayedBehind) { expect_hold(forks()); }
TEST(OwnedSlabsModel, DISABLED_PromisesHoldForEveryPairOfScripts) { expect_all_hold(limited(pairs(), 20000)); }

// Also in its slab, where nobody may follow it, or while it revokes another's. So many executions for each stop.
void expect_others_finish(std::uint64_t executions) {
  std::vector<Scenario> scenarios = limited(by_hand(), executions);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_all_hold(scenarios);
}
TEST(OwnedSlabsModel, OthersFinishWhenAThreadStopsForEver) { expect_others_finish(100); }
TEST(OwnedSlabsModel, DISABLED_OthersFinishWhenAThreadStopsForEver) { expect_others_finish(2000); }

TEST(OwnedSlabsMutants, AreCaught) {
  for (const char* mutant : {"no barrier", "inside is read before the mark", "the owner does not look",
                             "inside is said too late", "revoked from inside", "sent home and kept"})
    expect_mutant_caught(by_hand(), mutant);
}
TEST(OwnedSlabsMutants, TakingOverFromOneself) { expect_mutant_caught(forks(), "the epoch alone decides"); }
TEST(OwnedSlabsMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed({scenario("", 1, 3, "m", "m"), scenario("", 1, 3, "m", "a"), scenario("m", 1, 3, "m", "m"),
                        scenario("mmm1", 1, 3, "m", "f"), scenario("mm0", 1, 3, "f", "d"), scenario("m", 1, 3, "d", "m"),
                        scenario("m", 1, 3, "d", "d")},
                       "cache/owned_slabs.h", {{"seen | kMark", Part::kAcquire}});  // the barrier carries it
}

}  // namespace
}  // namespace freeway::model
