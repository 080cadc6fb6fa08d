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

TEST(TreeModel, DISABLED_OthersGoOnInBiggerPrograms) {
  for (TreeForm form : kLowForms) model::expect_hold(bigger_stopping_scenarios(form));
}

// Bigger searches stop at so many executions of a program; a line says how many were exhausted.
std::vector<model::Scenario> limited(std::vector<model::Scenario> scenarios) {
  for (model::Scenario& each : scenarios) each.options.max_executions = 1000000;
  return scenarios;
}

TEST(TreeModel, DISABLED_LongPathsHold) {
  for (TreeForm form : kHighForms) {
    model::expect_hold(chosen_scenarios(form));
    model::expect_hold(stopping_scenarios(form));
  }
}

TEST(TreeModel, DISABLED_EveryTwoScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(pairs(form)));
  for (TreeForm form : kHighForms) model::expect_all_hold(limited(pairs(form)));
}

TEST(TreeModel, DISABLED_EveryThreeScriptsHold) {
  for (TreeForm form : kLowForms) model::expect_all_hold(limited(triples(form)));
}

}  // namespace
}  // namespace freeway::nbbs
