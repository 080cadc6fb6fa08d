// SPDX-License-Identifier: MIT
// superblock_mutants_model.cc: the superblock models notice each planted fault, and each missing memory order.
//
// A checker that finds nothing proves little until it is known what it would have found. Some faults are planted in
// the shipped code through Env::mutant(), some are things that earlier forms of the protocol did, and every acquire
// and release in superblocks.h is taken away once.
#include <gtest/gtest.h>

#include <vector>

#include "sync/tagged_stack.h"
#include "tests/superblock/superblock_scenarios.h"

namespace freeway::model {
namespace {

// Two calls of two threads do for each planted fault.
std::vector<Scenario> clients() { return superblock_clients(2, 2); }

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = superblock_scenarios();
  for (Scenario& each : clients()) all.push_back(each);
  for (Scenario& each : limited(superblock_clients(2, 3), 100)) all.push_back(each);
  return all;
}

void sequential(Options& options) { options.memory = MemoryModel::kSequential; }

TEST(SuperblockMutants, OwedForgottenIsCaught) { expect_mutant_caught(clients(), "owed forgotten"); }
TEST(SuperblockMutants, ListingWithoutUIsCaught) { expect_mutant_caught(clients(), "list without U"); }
TEST(SuperblockMutants, AdoptingTombstonesIsCaught) { expect_mutant_caught(clients(), "no tombstone test"); }
TEST(SuperblockMutants, RecyclingADescriptorThatAListKnowsIsCaught) {
  expect_mutant_caught(clients(), "no tombstone left");
}
TEST(SuperblockMutants, ForgettingTheEntryIsCaught) { expect_mutant_caught(clients(), "entry forgotten"); }
TEST(SuperblockMutants, KeepingADroppedEntryIsCaught) { expect_mutant_caught(clients(), "entry kept"); }
TEST(SuperblockMutants, ForgettingOtherNodesIsCaught) { expect_mutant_caught(clients(), "other nodes forgotten"); }
TEST(SuperblockMutants, ReadingTheDescriptorAfterTheEmptyStepIsCaught) { expect_mutant_caught(clients(), "late span"); }
TEST(SuperblockMutants, UntaggedListsAreCaught) {
  expect_caught(clients(), "untagged lists",
                [](Options& options) { options.lose_bits.push_back({"heap", StackHead::kIndexMask}); });
}
TEST(SuperblockMutants, PurgingWithoutHoldingIsCaught) {
  expect_caught(purging_without_holding(), "late minus", sequential);
}
TEST(SuperblockMutants, LettingGoAfterOneScanIsCaught) {
  expect_caught(letting_go_after_one_scan(), "one scan", sequential);
}

TEST(SuperblockMutants, EachMemoryOrderIsNeeded) {
  expect_orders_needed(all_scenarios(), "superblock/superblocks.h", {});
}

}  // namespace
}  // namespace freeway::model
