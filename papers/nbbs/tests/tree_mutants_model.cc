// SPDX-License-Identifier: MIT
// tree_mutants_model.cc: the tree's models notice each planted fault and each missing memory order.
#include <gtest/gtest.h>

#include "papers/nbbs/shape.h"
#include "papers/nbbs/spin_tree.h"
#include "papers/nbbs/tests/tree_program.h"
#include "papers/nbbs/tests/tree_scenarios.h"

namespace freeway::nbbs {
namespace {

using model::Options;
using model::Part;
using model::Scenario;

void expect_mutants_caught(unsigned levels_per_word, unsigned bunches) {
  for (bool up : {false, true}) {
    const std::vector<Scenario> all = fault_scenarios({levels_per_word, up, bunches});
    for (const char* mutant : {"no look at the child", "the child before the parent", "climb past an occupied node",
                               "stamp only on 0 to 1", "stamp only on 1 to 1"})
      model::expect_mutant_caught(all, mutant);
    if (up) model::expect_mutant_caught(all, "UP kept on an empty word");
  }
}

// Keeps only `kStampBits` of a stamp whose lowest bit is 2^(2^(levels + 1)).
template <unsigned kLevels, unsigned kStampBits> void cut_stamp(Options& options) {
  options.lose_bits.push_back({"word", low_bits((2U << kLevels) + kStampBits)});
}
template <unsigned kLevels> void expect_narrow_stamps_caught(unsigned bunches) {
  const std::vector<Scenario> all = fault_scenarios({kLevels, false, bunches});
  model::expect_caught(all, "no stamp", cut_stamp<kLevels, 0>);
  model::expect_caught(all, "a stamp of one bit", cut_stamp<kLevels, 1>);
  model::expect_caught(all, "a stamp of two bits", cut_stamp<kLevels, 2>);
}

TEST(TreeMutants, PlantedFaultsAreCaughtWithOneLevelInAWord) { expect_mutants_caught(1, 3); }
TEST(TreeMutants, PlantedFaultsAreCaughtWithThreeLevelsInAWord) { expect_mutants_caught(3, 2); }
TEST(TreeMutants, PlantedFaultsAreCaughtWithFourLevelsInAWord) { expect_mutants_caught(4, 2); }

// They wrap: why a stamp must be wide.
TEST(TreeMutants, NarrowStampsAreCaught) {
  expect_narrow_stamps_caught<1>(3);
  expect_narrow_stamps_caught<3>(2);
  expect_narrow_stamps_caught<4>(2);
}

// The twin with a lock hands no block out twice, but whoever stops in it stops the others.
struct LockedTree : SpinTree<model::ModelEnv, 1> {
  LockedTree(Word* words, unsigned levels) : SpinTree(words, levels, &lock) {}
  Lock lock;
};
struct LockedProgram : BlocksProgram<LockedTree, Bunches<1>::words(3)> {
  using BlocksProgram::BlocksProgram;
  void finish() {}
};
TEST(TreeMutants, WaitingForALockIsCaught) {
  const TreeScript script{shape(1, 3), "", {"ax", "ay", ""}};
  model::expect_caught({{"a block each, one lock", model::program_type<LockedProgram>(script)}},
                       "the paper's spin lock", [](Options& options) {
                         options.stall_thread = 0;
                         options.stall_after = 1;
                       });
}

TEST(TreeMutants, EachMemoryOrderIsNeededWithOneLevelInAWord) {
  model::expect_orders_needed(fault_scenarios({1, true, 3}), "nbbs/tree.h");
}
TEST(TreeMutants, EachMemoryOrderIsNeededWithFourLevelsInAWord) {
  model::expect_orders_needed(fault_scenarios({4, true, 2}), "nbbs/tree.h");
}

}  // namespace
}  // namespace freeway::nbbs
