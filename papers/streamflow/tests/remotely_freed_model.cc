// SPDX-License-Identifier: MIT
// remotely_freed_model.cc: who owns a page block, in every execution of small programs over the shipped allocator:
// remote frees against reclaim, thread ends, adoption, hand-over, the global lists and trimming.
//
// Promises: see owners_program.h. The mutants are what the paper warns of, what its text leaves open, and each memory
// order taken away.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "papers/streamflow/tests/owners_program.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::string(setup) + ": " + first + " | " + second + (*third ? " | " : "") + third,
          program_type<OwnersProgram>(OwnersScript{setup, {first, second, third}})};
}

Scenario keeping_one(const char* setup, const char* first, const char* second) {
  return {std::string("one kept: ") + setup + ": " + first + " | " + second,
          program_type<OwnersProgram>(OwnersScript{setup, {first, second, ""}, 1})};
}

std::vector<Scenario> two_threads() {
  return {
      // The owner allocates and frees while others free to it.
      scenario("aaa1", "a", "f"),
      scenario("aaa11", "a", "ff"),
      scenario("aaa11", "aaf", "fF"),
      scenario("aaa110", "fa", "ff"),
      scenario("aaa111", "aaaa", "fff"),
      // The owner ends: full page blocks are orphaned, others listed, empty ones given back.
      scenario("aaa1", "x", "f"),
      scenario("aaa1", "x", "F"),
      scenario("aaa11", "x", "ff"),
      scenario("aaa11", "x", "fF"),
      scenario("aaa11", "x", "Ff"),
      scenario("aaa111", "x", "fff"),
      scenario("aaa111", "x", "FFF"),
      scenario("aaa110", "xf", "ff"),
      scenario("aaa110", "fx", "ff"),
      scenario("aa1", "x", "f"),
      scenario("aa11", "x", "ff"),
      // Somebody takes what was listed or orphaned, and goes on with it.
      scenario("aa1", "x", "af"),
      scenario("aaa1", "x", "fa"),
      scenario("aaa11", "x", "faf"),
      scenario("aaa11", "x", "fxf"),
      scenario("aaa10", "xF", "fx"),
      scenario("aaa1", "xna", "f"),
      scenario("aaa10", "xnf", "f"),
      // Trimming.
      scenario("aa11", "x", "fft"),
      scenario("aa11", "xt", "ff"),
      scenario("aaa11", "t", "ff"),
      scenario("aaa110", "xt", "fFt"),
      // Heaps go from thread to thread.
      scenario("aaa1", "e", "xjf"),
      scenario("aaa11", "e", "xfjaf"),
      scenario("aaa10", "ef", "xfja"),
      scenario("aa1", "eja", "xfj"),
      // The global cache keeps a wholly free page block.
      keeping_one("aa1", "x", "f"),
      keeping_one("aa11", "xna", "ff"),
      keeping_one("aaa11", "x", "ffa"),
      keeping_one("aaa1", "xt", "fx"),
  };
}

std::vector<Scenario> three_threads() {
  return {scenario("aaa12", "x", "f", "f"), scenario("aaa12", "x", "F", "f"),  scenario("aaa12", "x", "F", "F"),
          scenario("aaa12", "a", "f", "f"), scenario("aaa12", "xa", "f", "f"), scenario("aa12", "x", "a", "f"),
          scenario("aa1", "x", "f", "a"),   scenario("aaa1", "x", "f", "a")};
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = two_threads();
  for (Scenario& each : three_threads()) all.push_back(each);
  return all;
}

TEST(RemotelyFreedModel, HoldsWithTwoThreads) { expect_hold(two_threads()); }
TEST(RemotelyFreedModel, HoldsWithThreeThreads) { expect_hold(three_threads()); }

TEST(RemotelyFreedModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = two_threads();
  for (Scenario& each : scenarios) each.stalls = true;
  expect_hold(scenarios);
}

TEST(RemotelyFreedModel, ReductionsSeeAllOutcomes) {
  for (Scenario each : {scenario("aaa1", "x", "f"), scenario("aaa11", "a", "f")}) {
    Result reduced = explore_program(each.program, each.options);
    each.options.reduction = Reduction::kFull;
    EXPECT_EQ(reduced.outcomes, explore_program(each.program, each.options).outcomes) << each.name;
  }
}

// "The atomic operation eliminates the possibility of declaring a page block as orphaned after all its objects have
// been returned" (section 3.1.1, Thread termination).
TEST(RemotelyFreedModel, OrphaningWithoutTheEmptyCheckIsCaught) {
  expect_mutant_caught(all_scenarios(), "orphan without empty check");
}
TEST(RemotelyFreedModel, AdoptingWithoutTheOwnerCheckIsCaught) {
  expect_mutant_caught(all_scenarios(), "adopt without owner check");
}
TEST(RemotelyFreedModel, ReclaimingByLoadAndStoreIsCaught) {
  expect_mutant_caught(all_scenarios(), "reclaim by load and store");
}
// What the paper's text says: a page block with a NULL id on the global list, and the next freer adopts it.
TEST(RemotelyFreedModel, AListedPageBlockThatCanBeAdoptedIsCaught) {
  expect_mutant_caught(all_scenarios(), "listed is nobody's");
}

TEST(RemotelyFreedModel, WaitingUntilAListedPageBlockHasAnOwnerIsCaught) {
  expect_mutant_caught({scenario("aa1", "x", "f")}, "waits while listed");
}

TEST(RemotelyFreedModel, EachMemoryOrderIsNeeded) {
  expect_orders_needed(all_scenarios(), "streamflow/remote.h", {});
  expect_orders_needed(all_scenarios(), "sync/tagged_stack.h", {});
}

TEST(RemotelyFreedModel, DISABLED_OthersFinishAmongThree) {
  std::vector<Scenario> scenarios = limited(three_threads(), 20000);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_all_hold(scenarios);
}

}  // namespace
}  // namespace freeway::model
