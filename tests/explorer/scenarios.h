// SPDX-License-Identifier: MIT
// scenarios.h: what a model test does with its scenarios: each must hold, each planted fault must break one of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/explorer/explorer.h"

namespace freeway::model {

struct Scenario {
  std::string name;
  ProgramType program;
  Options options = {};
  bool stalls = false;  // also with each thread stopped for ever at each operation
};

// Explores each scenario; a failure, or a search that is not exhausted although it has no limit, fails the test.
// Prints a line a scenario. Returns the sum.
Result expect_hold(const std::vector<Scenario>& scenarios);
// The same for very many scenarios: one line for all, and for each that failed.
Result expect_all_hold(const std::vector<Scenario>& scenarios);

// `most` of them, chosen at random: FREEWAY_TEST_SEED, else a new seed; it is printed, with how many there were.
std::vector<Scenario> sample(const std::vector<Scenario>& scenarios, std::size_t most);
// The same programs with at most so many executions each.
std::vector<Scenario> limited(std::vector<Scenario> scenarios, std::uint64_t executions);

// Some scenario must fail under `change`, which plants the fault `name`. Prints which one did.
void expect_caught(const std::vector<Scenario>& scenarios, const std::string& name, void (*change)(Options&));
void expect_mutant_caught(const std::vector<Scenario>& scenarios, const std::string& mutant);

// An order that can be left out without harm, because something else carries what it would: a piece of its source line.
struct Carried {
  std::string line;
  Part part;
};
// Every acquire and every release part of every operation in `file` that the scenarios execute is needed: without it
// one of them fails, except those in `carried`.
void expect_orders_needed(const std::vector<Scenario>& scenarios, const std::string& file,
                          const std::vector<Carried>& carried = {});

}  // namespace freeway::model
