// SPDX-License-Identifier: MIT
// tree_scenarios.h: what the models of the corrected tree run.
#pragma once

#include <vector>

#include "tests/explorer/scenarios.h"

namespace freeway::nbbs {

// One word: levels in a word, with or without UP, and how many words a path has.
struct TreeForm {
  unsigned levels_per_word;
  bool up;
  unsigned bunches;
};
constexpr TreeForm kLowForms[] = {{1, false, 3}, {1, true, 3},  {3, false, 2},
                                  {3, true, 2},  {4, false, 2}, {4, true, 2}};
constexpr TreeForm kHighForms[] = {{1, false, 4}, {1, true, 4},  {3, false, 3},
                                   {3, true, 3},  {4, false, 3}, {4, true, 3}};

// A program of threads' scripts (tree_program.h) on a tree of that form.
model::Scenario tree_scenario(TreeForm form, const char* setup, const char* first, const char* second,
                              const char* third = "");

// Chosen by hand: what it takes to notice each planted fault; these and more; with a thread that stops for ever.
std::vector<model::Scenario> fault_scenarios(TreeForm form);
std::vector<model::Scenario> chosen_scenarios(TreeForm form);
std::vector<model::Scenario> stopping_scenarios(TreeForm form);
std::vector<model::Scenario> bigger_stopping_scenarios(TreeForm form);
// Longer ones, walked through at random: FREEWAY_TEST_SEED and FREEWAY_MODEL_LIMIT (walks).
std::vector<model::Scenario> long_scripts(TreeForm form);
// Every two threads' scripts in every situation; every three threads'.
std::vector<model::Scenario> pairs(TreeForm form);
std::vector<model::Scenario> triples(TreeForm form);

}  // namespace freeway::nbbs
