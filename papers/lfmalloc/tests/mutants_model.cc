// SPDX-License-Identifier: MIT
// mutants_model.cc: LFMalloc's models notice each planted fault, and each missing memory order.
#include <gtest/gtest.h>

#include "papers/lfmalloc/tests/model_scenarios.h"

namespace freeway::lfmalloc::test {
namespace {

TEST(LfmallocMutants, MergingForgottenIsCaught) { expect_mutant_caught(all_scenarios(), "merging forgotten"); }
TEST(LfmallocMutants, FullNeverListedIsCaught) { expect_mutant_caught(all_scenarios(), "full never listed"); }
TEST(LfmallocMutants, AdoptingATombstoneIsCaught) { expect_mutant_caught(all_scenarios(), "tombstone adopted"); }
TEST(LfmallocMutants, CountingWithoutTheLocalListIsCaught) {
  expect_mutant_caught(all_scenarios(), "local list forgotten");
}
// A block that was local a moment ago goes to a superblock that is in the global heap by now, or another class's.
TEST(LfmallocMutants, AskingOutsideTheSectionWhetherABlockIsLocalIsCaught) {
  expect_mutant_caught(section_scenarios(), "local outside");
}
TEST(LfmallocMutants, AskingTheHeaderForMemoryAfterTheLastBlockIsCaught) {
  expect_mutant_caught(all_scenarios(), "late base");
}

// The paper's own lines.
TEST(LfmallocMutants, FreeAsPrintedDestroysASuperblockThatIsOnLine) {
  expect_caught(printed_free_of_a_superblock_on_line(), "free [13]-[17] as printed, on line",
                [](Options& options) { options.memory = MemoryModel::kSequential; });
}
TEST(LfmallocMutants, FreeAsPrintedDestroysASuperblockThatMallocTakesMeanwhile) {
  expect_caught(printed_free_of_a_superblock_off_line(), "free [13]-[17] as printed, off line",
                [](Options& options) { options.memory = MemoryModel::kSequential; });
}

TEST(LfmallocMutants, AMutexOfTheSuperblockIsCaught) {
  std::vector<Scenario> stopping = limited(section_scenarios(), 200);
  for (Scenario& each : stopping) each.stalls = true;
  expect_mutant_caught(stopping, "under the paper's mutex");
}

// CAS: the tag, and the gate.
TEST(LfmallocMutants, PopByCasWithoutATagIsCaught) {
  std::vector<Scenario> scenarios = cas_scenarios();
  expect_caught(scenarios, "no tag", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"local", low_bits(30)});
  });
}
TEST(LfmallocMutants, GoingOffLineWithTheGateOpenIsCaught) { expect_mutant_caught(all_scenarios(), "gate left open"); }
TEST(LfmallocMutants, NotLookingAtTheGateIsCaught) { expect_mutant_caught(all_scenarios(), "gate not looked at"); }

TEST(LfmallocMutants, EachMemoryOrderOfTheRemoteListIsNeeded) {
  expect_orders_needed(section_scenarios(), "lfmalloc/remote_list.h");
}
TEST(LfmallocMutants, EachMemoryOrderOfTheGlobalHeapIsNeeded) {
  expect_orders_needed(all_scenarios(), "lfmalloc/global_heap.h");
}
TEST(LfmallocMutants, EachMemoryOrderOfHeapsUnderCasIsNeeded) {
  // What a pop's release keeps apart, a load that reads from the future, this memory does not show (model/memory.h).
  expect_orders_needed(cas_scenarios(), "lfmalloc/protection.h", {{"local::popped_by_cas", Part::kRelease}});
}

}  // namespace
}  // namespace freeway::lfmalloc::test
