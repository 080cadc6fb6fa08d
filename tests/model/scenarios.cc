// SPDX-License-Identifier: MIT
// scenarios.cc: see scenarios.h.
#include "model/scenarios.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>

namespace freeway::model {

namespace {

Result run(const Scenario& scenario, const Options& options) {
  return scenario.stalls ? explore_program_stalls(scenario.program, options)
                         : explore_program(scenario.program, options);
}

// The scenario that fails under the change; -1 if none does.
int catcher(const std::vector<Scenario>& scenarios, const std::function<void(Options&)>& change, Result& caught) {
  for (std::size_t i = 0; i < scenarios.size(); ++i) {
    Options options = scenarios[i].options;
    change(options);
    caught = run(scenarios[i], options);
    if (caught.failed) return static_cast<int>(i);
  }
  return -1;
}

std::string source_line(const Site& site) {
  std::ifstream file(site.file);
  std::string line;
  for (int i = 0; i < site.line && std::getline(file, line); ++i) continue;
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

void print_caught(const std::string& fault, const Scenario& scenario, const Result& result) {
  std::printf("  caught: %-60s by %s: %s (execution %llu)\n", fault.c_str(), scenario.name.c_str(), result.what.c_str(),
              static_cast<unsigned long long>(result.executions + result.pruned));
}

void expect_good(const Scenario& scenario, const Result& result) {
  EXPECT_TRUE(result.ok()) << scenario.name << ": " << result.report();
  if (scenario.options.max_executions == 0 && scenario.options.random_walks == 0) {
    EXPECT_TRUE(result.failed || result.exhausted) << scenario.name;
  }
}

}  // namespace

Result expect_hold(const std::vector<Scenario>& scenarios) {
  Result total;
  total.exhausted = true;
  for (const Scenario& scenario : scenarios) {
    Result result = run(scenario, scenario.options);
    std::printf("  %-58s %s\n", scenario.name.c_str(), result.summary().c_str());
    std::fflush(stdout);
    expect_good(scenario, result);
    total.absorb(result);
  }
  return total;
}

Result expect_all_hold(const std::vector<Scenario>& scenarios) {
  Result total;
  total.exhausted = true;
  std::size_t exhausted = 0, failed = 0;
  for (const Scenario& scenario : scenarios) {
    Result result = run(scenario, scenario.options);
    exhausted += result.exhausted;
    failed += result.failed;
    if (failed <= 3) expect_good(scenario, result);
    total.bounds = result.bounds;
    total.absorb(result);
  }
  EXPECT_EQ(failed, 0U);
  std::printf("  %zu programs, %zu of them exhausted: %s\n", scenarios.size(), exhausted, total.summary().c_str());
  return total;
}

void expect_caught(const std::vector<Scenario>& scenarios, const std::string& name, void (*change)(Options&)) {
  Result result;
  int by = catcher(scenarios, change, result);
  EXPECT_GE(by, 0) << "nothing notices the planted fault: " << name;
  if (by >= 0) print_caught(name, scenarios[static_cast<std::size_t>(by)], result);
}

void expect_mutant_caught(const std::vector<Scenario>& scenarios, const std::string& mutant) {
  Result result;
  int by = catcher(scenarios, [&](Options& options) { options.mutant = mutant; }, result);
  EXPECT_GE(by, 0) << "nothing notices the mutant: " << mutant;
  if (by >= 0) print_caught(mutant, scenarios[static_cast<std::size_t>(by)], result);
}

void expect_orders_needed(const std::vector<Scenario>& scenarios, const std::string& file,
                          const std::vector<Carried>& carried) {
  Result all;
  for (const Scenario& scenario : scenarios) all.absorb(run(scenario, scenario.options));
  EXPECT_TRUE(all.ok()) << all.report();
  std::vector<bool> used(carried.size());
  int caught = 0;
  for (const Weakening& weakening : all.order_sites) {
    const std::string path = weakening.site.file;
    if (path.size() < file.size() || path.compare(path.size() - file.size(), file.size(), file) != 0) continue;
    const std::string fault = file + ":" + std::to_string(weakening.site.line) + " without " +
                              (weakening.part == Part::kAcquire ? "acquire" : "release");
    Result result;
    int by = catcher(scenarios, [&](Options& options) { options.weaken.push_back(weakening); }, result);
    if (by >= 0) {
      print_caught(fault, scenarios[static_cast<std::size_t>(by)], result);
      ++caught;
      continue;
    }
    const std::string line = source_line(weakening.site);
    bool known = false;
    for (std::size_t i = 0; i < carried.size(); ++i) {
      if (carried[i].part != weakening.part || line.find(carried[i].line) == std::string::npos) continue;
      known = true;
      used[i] = true;
    }
    std::printf("  %s: %-51s %s\n", known ? "carried by others" : "NOT CAUGHT", fault.c_str(), line.c_str());
    EXPECT_TRUE(known) << "nothing notices " << fault << ": " << line;
  }
  EXPECT_GT(caught, 0) << "no orders found in " << file;
  for (std::size_t i = 0; i < carried.size(); ++i)
    EXPECT_TRUE(used[i]) << "'" << carried[i].line << "' is needed, or is not in the code";
}

}  // namespace freeway::model
