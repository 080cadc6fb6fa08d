// SPDX-License-Identifier: MIT
// tree_model.cc: papers/nbbs/tree.h with 1, 3 and 4 levels in a word (one, 7 and 15 nodes), with and without UP:
// every execution of small programs of two and three threads, under C++ memory orders.
//
// What is promised is in tree_program.h. The long tests have samples of all two and three
// scripts, and paths of three words.
#include <gtest/gtest.h>

#include "papers/nbbs/tests/tree_scenarios.h"

namespace freeway::nbbs {
namespace {

TEST(TreeModel, NoBlockIsHandedOutTwiceAndNoHintIsLost) {
  for (TreeForm form : kLowForms) model::expect_hold(chosen_scenarios(form));
}

TEST(TreeModel, OthersGoOnWhenAThreadStopsForEver) {
  for (TreeForm form : kLowForms) model::expect_hold(stopping_scenarios(form));
}

// The longer searches: more executions of each program, and a sample of the programs where there are too many.
using model::limited;
using model::sample;

TEST(TreeModel, DISABLED_LongPathsHold) {
  for (TreeForm form : kHighForms) model::expect_hold(limited(chosen_scenarios(form), 50000));
}

TEST(TreeModel, DISABLED_OthersGoOnInBiggerPrograms) {
  for (TreeForm form : kLowForms) model::expect_hold(limited(bigger_stopping_scenarios(form), 1000));
  for (TreeForm form : kHighForms) model::expect_hold(limited(stopping_scenarios(form), 1000));
}

TEST(TreeModel, DISABLED_LongScriptsHoldAtRandom) {
  for (TreeForm form : kLowForms) model::expect_all_hold(long_scripts(form));
  for (TreeForm form : kHighForms) model::expect_all_hold(long_scripts(form));
}

TEST(TreeModel, DISABLED_PairsOfScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(sample(pairs(form), 100), 5000));
  for (TreeForm form : kHighForms) model::expect_all_hold(limited(sample(pairs(form), 50), 5000));
}

TEST(TreeModel, DISABLED_ThreeScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(sample(triples(form), 80), 3000));
}

}  // namespace
}  // namespace freeway::nbbs
