// SPDX-License-Identifier: MIT
//
// Inheritance: a heap changes hands while others free its blocks. All executions of small programs (heap_program.h),
// and the faults that they must show.
#include <gtest/gtest.h>

#include "heap_program.h"

namespace freeway::hmalloc {
namespace {

using model::Scenario;

std::vector<Scenario> scenarios() {
  return {
      heap_scenario("the heir allocates", "jmA", "fe", "jm"),
      heap_scenario("the heir, or a heap of its own", "jA", "me", "jmf"),
      heap_scenario("two may inherit", "jmA", "fe", "jm", "jm"),
      heap_scenario("inherited, ended, inherited", "jmA", "fe", "jmfe", "jm"),
      heap_scenario("a reset while it changes hands", "jmm2A", "e", "jm", "F"),
      heap_scenario("two resets while it changes hands", "jmm22A", "e", "jmm", "FF"),
      heap_scenario<1>("a list of superblocks is inherited", "jmm2A", "e", "jm", "F"),
      heap_scenario("a cached block is inherited", "jmm1A", "fe", "jFm"),
      heap_scenario("another heap's block is inherited in the list", "jm1AjB", "m", "fe", "jm"),
      heap_scenario("the owner resets a block after it ended", "jmmA", "eF", "jm"),
      heap_scenario("a heap between owners is trimmed", "jmm2A", "Fe", "T", "F"),
      heap_scenario("a heap between owners is trimmed, or inherited", "jmm2A", "Fe", "T", "jmF"),
      heap_scenario("local blocks of one who is past", "jlA", "ed", "jl"),
      heap_scenario("local blocks of one who is past, and trim", "jllA", "edd", "jt"),
      heap_scenario("late frees, trimmed between owners", "jlA", "ed", "T"),
      heap_scenario("walks", "jA", "w", "jw"),
      heap_scenario("walks beside two that join", "jA", "w", "jw", "jw"),
      heap_scenario("walks beside an heir", "jA", "e", "jw", "jw"),
  };
}

constexpr const char* kSetups[] = {"jmm1AjBjC", "jmm12AjBjC", "jmmAjmB", "jmm22AjmlBjC", "jAjBjC"};
constexpr const char* kScripts[] = {"m",  "mm", "f",   "F",   "fm",  "Fm", "mf", "sm", "rf", "rFm", "t", "ft",
                                    "Ft", "fe", "feF", "ejm", "ejt", "eT", "T",  "ld", "le", "led", "w", "ejw"};

std::vector<Scenario> pairs() {
  std::vector<Scenario> all;
  for (const char* setup : kSetups)
    for (const char* first : kScripts)
      for (const char* second : kScripts) all.push_back(heap_scenario("pair", setup, first, second));
  return all;
}

std::vector<Scenario> triples() {
  std::vector<Scenario> all;
  for (const char* setup : {kSetups[0], kSetups[1], kSetups[4]})  // in these the third thread has a heap
    for (const char* first : kScripts)
      for (const char* second : kScripts)
        for (const char* third : kScripts) all.push_back(heap_scenario("three", setup, first, second, third));
  return all;
}

TEST(InheritanceModel, PromisesHold) { model::expect_hold(scenarios()); }

TEST(InheritanceModel, PromisesHoldForEveryPairOfScripts) { model::expect_all_hold(pairs()); }

// Longer: a sample of the three scripts, and of the two with a thread stopped.
TEST(InheritanceModel, DISABLED_PromisesHoldForThreeScripts) {
  model::expect_all_hold(model::limited(model::sample(triples(), 20000), 500));
}
TEST(InheritanceModel, DISABLED_OthersFinishInPairsAndAmongThree) {
  std::vector<Scenario> all = model::limited(scenarios(), 2000);
  for (Scenario& each : model::limited(model::sample(pairs(), 1000), 200)) all.push_back(each);
  for (Scenario& each : model::limited(model::sample(triples(), 1000), 100)) all.push_back(each);
  for (Scenario& each : all) each.stalls = true;
  model::expect_all_hold(all);
}

TEST(InheritanceModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all;
  for (Scenario& each : scenarios()) {
    model::Options options{.max_executions = 2000};
    if (!model::explore_program(each.program, options).exhausted) continue;
    each.stalls = true;
    all.push_back(each);
  }
  EXPECT_GT(all.size(), 8u);
  model::expect_hold(all);
}

// The heap handed over without release, or taken without acquire.
TEST(InheritanceModel, EachOrderOfTheHandoverIsNeeded) {
  model::expect_orders_needed(scenarios(), "sync/tagged_stack.h");
}
TEST(InheritanceModel, EachOrderOfTheListOfHeapsIsNeeded) {
  model::expect_orders_needed(scenarios(), "hmalloc/heaps.h");
}
TEST(InheritanceModel, EachOrderOfLateFreesIsNeeded) {
  model::expect_orders_needed(scenarios(), "hmalloc/late_frees.h");
}
TEST(InheritanceModel, EachOrderOfTheFlagIsNeeded) { model::expect_orders_needed(scenarios(), "hmalloc/flag.h"); }

TEST(InheritanceModel, TouchingTheHeapAfterItWasLeftIsCaught) {
  model::expect_mutant_caught(scenarios(), "late touch");
}
TEST(InheritanceModel, FreeingIntoAHeapOneNoLongerOwnsIsCaught) {
  model::expect_mutant_caught(scenarios(), "freed as owner");
}

TEST(InheritanceModel, FreeingLateByStoreIsCaught) { model::expect_mutant_caught(scenarios(), "late free by store"); }
TEST(InheritanceModel, ListingAHeapByStoreIsCaught) {
  model::expect_mutant_caught(scenarios(), "heap listed by store");
}

TEST(InheritanceModel, UntaggedStacksLoseHeaps) {
  model::expect_caught({heap_scenario("pop sleeps through pop, pop, push", "jAjB", "ej", "eje", "j")}, "no tag",
                       [](model::Options& options) { options.lose_bits.push_back({"heaps", StackHead::kIndexMask}); });
}

}  // namespace
}  // namespace freeway::hmalloc
