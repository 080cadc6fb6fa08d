// SPDX-License-Identifier: MIT
// page_manager_model.cc: what stands in the place of the paper's page manager lock, in every execution of small
// programs.
//
// Promises: see pages_program.h. The mutants: taking by load and store, filing or retiring without the second look, a
// header in use by two, and each memory order taken away.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "papers/streamflow/tests/pages_program.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::string(setup) + ": " + first + " | " + second + (*third ? " | " : "") + third,
          program_type<PagesProgram>(PagesScript{setup, {first, second, third}})};
}

// 0 takes leaf 0 of a new superpage, further ones leaf 1, then those of the other word.
std::vector<Scenario> small_programs() {
  return {
      scenario("0A", "g", "0"),                                 // the superpage goes, or is found
      scenario("0A", "g", "1"),    scenario("00AB", "g", "g"),  // both leaves of one word: one of the two retires
      scenario("10AB", "g", "g"),                               // two words: both look twice
      scenario("11AB", "g", "g"),  scenario("00B", "0", "g"),  scenario("100BB", "0", "gg"),
      scenario("000BC", "0", "g"),  // one leaf is free: who gets it, who makes a superpage
      scenario("100B", "0", "g"),  scenario("110B", "0", "0"), scenario("", "0", "0"),  // two first page blocks
      scenario("", "0g", "0"),
  };
}
std::vector<Scenario> larger_programs() {
  return {
      scenario("10AB", "g0", "g"), scenario("10AB", "g", "g0"), scenario("00AB", "g0", "g0"),
      scenario("10AB", "g1", "g"), scenario("11AB", "g0", "g"), scenario("0A", "g0", "0"),
      scenario("0A", "g0", "1"),   scenario("", "0g", "0g"),
  };
}
std::vector<Scenario> three_threads() {
  return {scenario("10AB", "g", "g", "0"), scenario("11AB", "g", "g", "1"), scenario("000ABC", "g", "g", "g")};
}

TEST(PageManagerModel, HoldsInSmallPrograms) { expect_hold(small_programs()); }
TEST(PageManagerModel, HoldsInLargerPrograms) {
  std::vector<Scenario> scenarios = larger_programs();
  for (Scenario& each : scenarios) each.options.max_executions = 10000;  // more: the long test
  expect_hold(scenarios);
}
TEST(PageManagerModel, HoldsWithThreeThreads) {
  std::vector<Scenario> scenarios = three_threads();
  for (Scenario& each : scenarios) each.options.max_executions = 10000;  // more: the long test
  expect_hold(scenarios);
}

TEST(PageManagerModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = small_programs();
  for (Scenario& each : scenarios) {
    each.stalls = true;
    each.options.max_executions = 300;  // with each stall; all: the long test
  }
  expect_hold(scenarios);
}

TEST(PageManagerModel, TakingByLoadAndStoreIsCaught) {
  expect_mutant_caught(small_programs(), "take by load and store");
}
TEST(PageManagerModel, FilingWithoutASecondLookIsCaught) {
  expect_mutant_caught(small_programs(), "file without a second look");
}
TEST(PageManagerModel, RetiringWithoutASecondLookIsCaught) {
  expect_mutant_caught(small_programs(), "retire without a second look");
}

TEST(PageManagerModel, PublishingAPieceOfHeadersByStoreIsCaught) {
  expect_mutant_caught(small_programs(), "piece by store");
}
TEST(PageManagerModel, RecyclingAHeaderBeforeItsSuperpageIsGivenBackIsCaught) {
  expect_mutant_caught({scenario("0A", "g", "0"), scenario("000BC", "0", "g")}, "recycled early");
}

TEST(PageManagerModel, EachMemoryOrderOfTheHeadersIsNeeded) {
  std::vector<Scenario> scenarios = limited(small_programs(), 5000);
  expect_orders_needed(scenarios, "streamflow/superpages.h");
}
TEST(PageManagerModel, EachMemoryOrderIsNeeded) {
  std::vector<Scenario> scenarios = small_programs();
  scenarios.push_back(scenario("0A", "g0", "0"));  // a stale hint leads to the next superpage of that header
  for (Scenario& each : scenarios) each.options.max_executions = 5000;
  // [A4] and [R3] keep two threads from each changing one word and then looking at the other one too early. A thread's
  // changes of two words take effect in their order here (tests/explorer/memory.h), so that nothing can go wrong
  // without.
  expect_orders_needed(scenarios, "streamflow/page_manager.h",
                       {{"fetch_or_acq_rel(mask)", Part::kAcquire}, {"fetch_or_release(0)", Part::kRelease}});
}

TEST(PageManagerModel, DISABLED_HoldsInLargerProgramsForLong) {
  std::vector<Scenario> scenarios = larger_programs();
  for (Scenario& each : three_threads()) scenarios.push_back(each);
  expect_hold(limited(scenarios, 200000));
}
TEST(PageManagerModel, DISABLED_OthersFinishWhereverAThreadStopsForEver) {
  std::vector<Scenario> scenarios = limited(small_programs(), 3000);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_hold(scenarios);
}

}  // namespace
}  // namespace freeway::model
