// SPDX-License-Identifier: MIT
// scenarios.h: what a model test does with its scenarios: each must hold, and each planted fault must break one of them.
#pragma once

#include <string>
#include <vector>

#include "model/explorer.h"

namespace freeway::model {

struct Scenario {
  std::string name;
  ProgramType program;
  Options options = {};
  bool stalls = false;  // also with each thread stopped for ever at each operation
};

// Explores each scenario; a failure, or a search that is not exhausted although it has no limit, fails the test. Prints a
// line a scenario. Returns the sum.
Result expect_hold(const std::vector<Scenario>& scenarios);

// Some scenario must fail under `change`, which plants the fault `name`. Prints which one did.
void expect_caught(const std::vector<Scenario>& scenarios, const std::string& name, void (*change)(Options&));
void expect_mutant_caught(const std::vector<Scenario>& scenarios, const std::string& mutant);

// Every acquire and every release part of every operation that the scenarios execute is needed: without it one of them
// fails. `carried` lists the exceptions, as a piece of the source line: what makes them safe is carried by something else.
void expect_orders_needed(const std::vector<Scenario>& scenarios, const std::vector<std::string>& carried);

}  // namespace freeway::model
