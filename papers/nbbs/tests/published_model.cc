// SPDX-License-Identifier: MIT
// published_model.cc: the paper's own algorithms hand out blocks twice; the explorer must find it.
//
// All of it under sequential consistency, which is more than the paper's machine gives. A test that no longer finds the
// error means that the published form here is not the published one any more, or that the explorer is broken.
#include <gtest/gtest.h>

#include "papers/nbbs/published_optimized.h"
#include "papers/nbbs/tests/tree_program.h"
#include "tests/support/proof.h"

namespace freeway::nbbs {
namespace {

using model::explore_program;
using model::MemoryModel;
using model::ModelEnv;
using model::Options;
using model::Result;

template <class Tree, unsigned kWords> struct PublishedProgram : BlocksProgram<Tree, kWords> {
  using BlocksProgram<Tree, kWords>::BlocksProgram;
  void finish() {}
};
using OneLevel = PublishedProgram<PublishedSimplifiedTree<ModelEnv, 1>, Bunches<1>::words(3)>;
using ThreeLevel = PublishedProgram<PublishedSimplifiedTree<ModelEnv, 3>, Bunches<3>::words(6)>;
using FourLevel = PublishedProgram<PublishedOptimizedTree<ModelEnv, false>, Bunches<4>::words(8)>;
using FourLevelRepairedExit = PublishedProgram<PublishedOptimizedTree<ModelEnv, true>, Bunches<4>::words(8)>;

Options sequential() {
  Options options;
  options.memory = MemoryModel::kSequential;
  return options;
}

template <class Program> Result run(const TreeScript& script, const Options& options = sequential()) {
  return explore_program(model::program_type<Program>(script), options);
}

void expect_found(const Result& result) {
  EXPECT_TRUE(result.failed) << "the published error was not found: " << result.summary();
  EXPECT_EQ(result.what, "no block is handed out twice");
  test::proof("mutants", "Published", "planted", 1);
  test::proof("mutants", "Published", "caught", result.failed ? 1 : 0);
  std::printf("  found: %s\n%s\n", result.summary().c_str(), result.trace.c_str());
}

// Two threads with a block each never meet the error: so it is not the harness.
TEST(Published, TwoThreadsWithABlockEachAreRight) {
  EXPECT_TRUE(run<OneLevel>({shape(1, 3), "", {"axfx", "ayfy", ""}}).ok());
  EXPECT_TRUE(run<ThreeLevel>({shape(3, 2), "", {"axfx", "azfz", ""}}).ok());
  EXPECT_TRUE(run<FourLevel>({shape(4, 2), "", {"axfx", "azfz", ""}}).ok());
}

// Tree of the nodes 1, 2, 4, 5 …: one thread stalls in UNMARK before its CAS on the root; another allocates 4 and
// begins to free it; a third allocates 5; the second marks the root again; then the first clears it.
TEST(Published, TheOneLevelFormHandsOutABlockTwice) {
  expect_found(run<OneLevel>({shape(1, 3), "", {"axfx", "axfx", "ayaR"}}));
}
TEST(Published, TheThreeLevelFormHandsOutABlockTwice) {
  expect_found(run<ThreeLevel>({shape(3, 2), "", {"axfx", "axfx", "ayaR"}}));
}
// The same at the border between two words, with Algorithm 14 as printed and with its `exit` repaired.
TEST(Published, TheFourLevelFormHandsOutABlockTwice) {
  expect_found(run<FourLevel>({shape(4, 2), "", {"axfx", "axfx", "ayaP"}}));
  expect_found(run<FourLevelRepairedExit>({shape(4, 2), "", {"axfx", "axfx", "ayaP"}}));
}

// Algorithm 14, lines 13 and 20: `continue` without `exit = true`. 128 and 136 are in use, in different words below 8.
// Thread 0 frees 128, its unmark_ has done its CAS and is about to run a second time; 1 allocates 128; 2 allocates 129;
// 1 begins to free 128 and marks; 0 clears the bits of 128 and 129; 1 frees 128 and 136; 2 gets 8, in which its own 129
// is. With `exit = true` the same steps find nothing to clear, and 2 does not get 8.
TEST(Published, UnmarkRunsTwiceOnANodeBecauseExitIsMissing) {
  Options options = sequential();
  options.replay = "0 0 0 0 0 0 0 1 1 1 1 2 2 2 2 1 1 1 0 0 0 1 1 1 1 1 1 1 1 1 2 2";
  const TreeScript script{shape(4, 2), "ax0az1", {"fx", "axfxfz", "ayaP"}};
  expect_found(run<FourLevel>(script, options));
  EXPECT_TRUE(run<FourLevelRepairedExit>(script, options).ok());
}

}  // namespace
}  // namespace freeway::nbbs
