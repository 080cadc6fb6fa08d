// SPDX-License-Identifier: MIT
// heap_mutants_model.cc: the heap models notice the paper's error, each planted fault, and each missing memory order.
//
// The DISABLED_ one takes half a minute: ctest's label `long` runs it. A checker that finds nothing proves little until
// it is known what it would have found.
#include <gtest/gtest.h>

#include "heap_program.h"

namespace freeway::model {
namespace {

namespace anchor = michael::anchor;

// Only the lower bits of anchors survive: no tag.
constexpr u64 kUntagged = low_bits(anchor::kTagShift);

// Executions of one scenario: more find nothing more.
constexpr std::uint64_t kLimit = 30000;

// Sequentially consistent, so that it is the protocol that is wrong and not an order that is missing.
TEST(MichaelHeapMutants, ThePapersRemoveEmptyDescRetiresALiveDescriptor) {
  expect_caught(heap_scenarios(kLimit), "RemoveEmptyDesc as published", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.mutant = "RemoveEmptyDesc as published";
  });
}

// Three threads: one pops, one frees, one has reserved and not yet popped.
TEST(MichaelHeapMutants, AnAnchorWithoutItsTagIsCaught) {
  expect_caught(heap_aba_scenarios(), "no tag", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"anchor", kUntagged});
  });
}

TEST(MichaelHeapMutants, PlantedFaultsAreCaught) {
  for (const char* mutant : {"FULL is nobody's duty", "EMPTY is taken up", "credits kept", "retired as it was"})
    expect_mutant_caught(heap_scenarios(kLimit), mutant);
}

TEST(MichaelHeapMutants, WaitingForActiveIsCaught) {
  std::vector<Scenario> stopping = limited(heap_scenarios(), 500);
  for (Scenario& each : stopping) each.stalls = true;
  expect_mutant_caught(stopping, "waits for Active");
}

TEST(MichaelHeapMutants, EachMemoryOrderOfThePartialListIsNeeded) {
  expect_hold(limited(heap_removal_scenarios(), 10000));
  expect_orders_needed(limited(heap_removal_scenarios(), 10000), "michael/partial_list.h");
}
TEST(MichaelHeapMutants, DISABLED_EachMemoryOrderIsNeeded) {
  expect_orders_needed(heap_scenarios(kLimit), "michael/proc_heap.h");
}

}  // namespace
}  // namespace freeway::model
