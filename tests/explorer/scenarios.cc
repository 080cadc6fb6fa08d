// SPDX-License-Identifier: MIT
// scenarios.cc: see scenarios.h.
#include "tests/explorer/scenarios.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include "tests/support/proof.h"

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

// A compiler cache may have made the file's path relative to the build folder.
std::string source_line(const Site& site) {
  const char* build = std::getenv("FREEWAY_BUILD_DIR");
  const bool is_relative = site.file[0] != '/' && build != nullptr;
  std::ifstream file(is_relative ? std::string(build) + "/" + site.file : std::string(site.file));
  std::string line;
  for (int i = 0; i < site.line && std::getline(file, line); ++i) continue;
  return line.substr(std::min(line.find_first_not_of(' '), line.size()));
}

void print_caught(const std::string& fault, const Scenario& scenario, const Result& result) {
  std::printf("  caught: %-60s by %s: %s (execution %llu)\n", fault.c_str(), scenario.name.c_str(), result.what.c_str(),
              static_cast<unsigned long long>(result.executions + result.pruned));
}

// The model is called as the test suite that runs it.
const char* suite() { return ::testing::UnitTest::GetInstance()->current_test_info()->test_suite_name(); }

// What has been explored, for docs/proof.md.
class Explored {
 public:
  void add(const Scenario& scenario, const Result& result) {
    Figures& figures = figures_[scenario.stalls];
    ++figures.programs;
    figures.exhausted += result.exhausted;
    figures.executions += result.executions;
    for (int operations : result.max_operations) figures.operations = std::max(figures.operations, operations);
  }
  void write() const {
    for (bool stalls : {false, true}) {
      const Figures& figures = figures_[stalls];
      if (figures.programs == 0) continue;
      const char* area = stalls ? "models, a thread stopped for ever" : "models";
      test::proof(area, suite(), "programs", figures.programs);
      test::proof(area, suite(), "exhausted", figures.exhausted);
      test::proof(area, suite(), "executions", figures.executions);
      test::proof_most(area, suite(), "operations of one thread at most",
                       static_cast<std::uint64_t>(figures.operations));
    }
  }

 private:
  struct Figures {
    std::uint64_t programs = 0, exhausted = 0, executions = 0;
    int operations = 0;
  };
  Figures figures_[2];
};

void count_mutant(bool caught) {
  test::proof("mutants", suite(), "planted", 1);
  test::proof("mutants", suite(), "caught", caught ? 1 : 0);
}

void expect_good(const Scenario& scenario, const Result& result) {
  EXPECT_TRUE(result.ok()) << scenario.name << ": " << result.report();
  if (scenario.options.max_executions == 0 && scenario.options.random_walks == 0) {
    EXPECT_TRUE(result.failed || result.exhausted) << scenario.name;
  }
}

}  // namespace

Result expect_hold(const std::vector<Scenario>& scenarios) {
  Explored explored;
  Result total;
  total.exhausted = true;
  for (const Scenario& scenario : scenarios) {
    Result result = run(scenario, scenario.options);
    std::printf("  %-58s %s\n", scenario.name.c_str(), result.summary().c_str());
    std::fflush(stdout);
    expect_good(scenario, result);
    explored.add(scenario, result);
    total.absorb(result);
  }
  explored.write();
  return total;
}

Result expect_all_hold(const std::vector<Scenario>& scenarios) {
  Explored explored;
  Result total;
  total.exhausted = true;
  std::size_t exhausted = 0, failed = 0;
  for (const Scenario& scenario : scenarios) {
    Result result = run(scenario, scenario.options);
    exhausted += result.exhausted;
    failed += result.failed;
    if (failed <= 3) expect_good(scenario, result);
    total.bounds = result.bounds;
    explored.add(scenario, result);
    total.absorb(result);
  }
  explored.write();
  EXPECT_EQ(failed, 0U);
  std::printf("  %zu programs, %zu of them exhausted: %s\n", scenarios.size(), exhausted, total.summary().c_str());
  return total;
}

std::vector<Scenario> sample(const std::vector<Scenario>& scenarios, std::size_t most) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const auto seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::vector<Scenario> chosen;
  std::sample(scenarios.begin(), scenarios.end(), std::back_inserter(chosen), most, std::mt19937_64(seed));
  std::printf("  %zu of %zu programs, FREEWAY_TEST_SEED=%llu\n", chosen.size(), scenarios.size(),
              static_cast<unsigned long long>(seed));
  return chosen;
}

std::vector<Scenario> limited(std::vector<Scenario> scenarios, std::uint64_t executions) {
  for (Scenario& each : scenarios) each.options.max_executions = executions;
  return scenarios;
}

void expect_caught(const std::vector<Scenario>& scenarios, const std::string& name, void (*change)(Options&)) {
  Result result;
  int by = catcher(scenarios, change, result);
  EXPECT_GE(by, 0) << "nothing notices the planted fault: " << name;
  count_mutant(by >= 0);
  if (by >= 0) print_caught(name, scenarios[static_cast<std::size_t>(by)], result);
}

void expect_mutant_caught(const std::vector<Scenario>& scenarios, const std::string& mutant) {
  Result result;
  int by = catcher(scenarios, [&](Options& options) { options.mutant = mutant; }, result);
  EXPECT_GE(by, 0) << "nothing notices the mutant: " << mutant;
  count_mutant(by >= 0);
  if (by >= 0) print_caught(mutant, scenarios[static_cast<std::size_t>(by)], result);
}

void expect_orders_needed(const std::vector<Scenario>& scenarios, const std::string& file,
                          const std::vector<Carried>& carried) {
  Result all;
  for (const Scenario& scenario : scenarios) all.absorb(run(scenario, scenario.options));
  EXPECT_TRUE(all.ok()) << all.report();
  std::vector<bool> used(carried.size());
  std::uint64_t caught = 0, carried_by_others = 0;
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
    carried_by_others += known;
    std::printf("  %s: %-51s %s\n", known ? "carried by others" : "NOT CAUGHT", fault.c_str(), line.c_str());
    EXPECT_TRUE(known) << "nothing notices " << fault << ": " << line;
  }
  test::proof("mutants", suite(), "memory orders taken away", caught + carried_by_others);
  test::proof("mutants", suite(), "caught by a model", caught);
  test::proof("mutants", suite(), "carried by other orders", carried_by_others);
  EXPECT_GT(caught, 0U) << "no orders found in " << file;
  for (std::size_t i = 0; i < carried.size(); ++i)
    EXPECT_TRUE(used[i]) << "'" << carried[i].line << "' is needed, or is not in the code";
}

}  // namespace freeway::model
