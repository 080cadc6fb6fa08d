// SPDX-License-Identifier: MIT
// tree_model.cc: src/engine/nbbs/tree.h with 1, 3 and 4 levels in a word (one, 7 and 15 nodes), with and without UP: every
// execution of small programs of two and three threads, under C++ memory orders.
//
// What is promised is in tree_program.h. The long tests have every two and three scripts, and paths of three words.
#include <gtest/gtest.h>

#include "engines/nbbs/tree_scenarios.h"

namespace freeway::nbbs {
namespace {

TEST(TreeModel, NoBlockIsHandedOutTwiceAndNoHintIsLost) {
  for (TreeForm form : kLowForms) model::expect_hold(chosen_scenarios(form));
}

TEST(TreeModel, OthersGoOnWhenAThreadStopsForEver) {
  for (TreeForm form : kLowForms) model::expect_hold(stopping_scenarios(form));
}

// The longer searches. They stop at so many executions of a program; a line says whether all were seen.
std::vector<model::Scenario> limited(std::vector<model::Scenario> scenarios, unsigned executions) {
  for (model::Scenario& each : scenarios) each.options.max_executions = executions;
  return scenarios;
}

TEST(TreeModel, DISABLED_LongPathsHold) {
  for (TreeForm form : kHighForms) model::expect_hold(chosen_scenarios(form));
}

TEST(TreeModel, DISABLED_OthersGoOnInBiggerPrograms) {
  for (TreeForm form : kLowForms) model::expect_hold(limited(bigger_stopping_scenarios(form), 100000));
  for (TreeForm form : kHighForms) model::expect_hold(limited(stopping_scenarios(form), 100000));
}

TEST(TreeModel, DISABLED_LongScriptsHoldAtRandom) {
  for (TreeForm form : kLowForms) model::expect_all_hold(long_scripts(form));
  for (TreeForm form : kHighForms) model::expect_all_hold(long_scripts(form));
}

TEST(TreeModel, DISABLED_EveryTwoScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(pairs(form), 300000));
  for (TreeForm form : kHighForms) model::expect_all_hold(limited(pairs(form), 100000));
}

TEST(TreeModel, DISABLED_EveryThreeScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(triples(form), 30000));
}

}  // namespace
}  // namespace freeway::nbbs
