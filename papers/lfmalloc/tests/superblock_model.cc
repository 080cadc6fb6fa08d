// SPDX-License-Identifier: MIT
// superblock_model.cc: LFMalloc keeps its promises in every execution of many small programs, under weak memory: with
// restartable sections as single steps on their CPU's heap, with heaps under CAS, and with both (threads with and
// without rseq in one process). With a thread stopped for ever, the others finish. The DISABLED_ ones take minutes:
// `make prove` runs them.
#include <gtest/gtest.h>

#include <cstdio>

#include "papers/lfmalloc/tests/model_scenarios.h"

namespace freeway::lfmalloc::test {
namespace {

TEST(LfmallocModel, SectionsHoldInScenariosChosenByHand) { expect_hold(section_scenarios()); }
TEST(LfmallocModel, CasHoldsInScenariosChosenByHand) { expect_hold(cas_scenarios()); }
TEST(LfmallocModel, ThreadsWithAndWithoutRseqHoldTogether) { expect_hold(mixed_scenarios()); }

TEST(LfmallocModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : all_scenarios()) {
    Options options{.max_executions = 400};
    if (!explore_program(each.program, options).exhausted) continue;  // the larger ones are left to the long tests
    each.stalls = true;
    scenarios.push_back(each);
  }
  EXPECT_GT(scenarios.size(), 10U);
  expect_hold(scenarios);
}

TEST(LfmallocModel, PromisesHoldInRandomWalksThroughLongScripts) { expect_hold(long_scripts(3000)); }

// The long tests: more executions of each program, and a sample of the programs where there are too many
// ------------------

TEST(LfmallocModel, DISABLED_PromisesHoldForPairsOfScripts) {
  for (const Kind kind : {Kind::kSections, Kind::kCas}) expect_all_hold(limited(sample(pairs(kind), 500), 4000));
}

TEST(LfmallocModel, DISABLED_OthersFinishInPairsWhenAThreadStopsForEver) {
  std::vector<Scenario> all = limited(all_scenarios(), 1000);
  for (Scenario& each : limited(sample(pairs(Kind::kSections), 100), 300)) all.push_back(each);
  for (Scenario& each : all) each.stalls = true;
  expect_all_hold(all);
}

TEST(LfmallocModel, DISABLED_RandomWalks) { expect_hold(long_scripts(100000)); }

}  // namespace
}  // namespace freeway::lfmalloc::test
