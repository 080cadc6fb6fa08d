// SPDX-License-Identifier: MIT
//
// scenario.h: runs a piece of a test in a process of its own, started afresh so that options in its environment take
// effect from its first malloc on. A scenario is a function with a name in the same program:
//
//   FREEWAY_SCENARIO(FreesTwice) { void* p = malloc(argument); free(p); free(p); }
//   ...
//   const Outcome outcome = run_scenario("FreesTwice", 64, {"FREEWAY_HARDEN=1"});
//
// The program's main (scenario_main.cc) runs the named scenario when it is called with --scenario=NAME.
#ifndef FREEWAY_TESTS_ABI_SCENARIO_H
#define FREEWAY_TESTS_ABI_SCENARIO_H

#include <initializer_list>
#include <string>
#include <vector>

namespace freeway::test {

struct Scenario {
  using Body = void (*)(long argument);
  const char* name;
  Body body;
  Scenario* next;

  // Links the scenario into the program's list. Runs before main.
  Scenario(const char* scenario_name, Body scenario_body);
};

#define FREEWAY_SCENARIO(name)                                                \
  static void scenario_##name(long argument);                                 \
  static ::freeway::test::Scenario registered_##name{#name, scenario_##name}; \
  static void scenario_##name([[maybe_unused]] long argument)

// How a scenario's process ended and what it wrote.
struct Outcome {
  int exit_status = -1;  // -1: killed by a signal
  int signal = 0;        // 0: exited
  std::string out;
  std::string err;

  bool aborted() const;
  bool succeeded() const { return exit_status == 0; }
  // The lines of `err` that begin with "freeway: ".
  std::vector<std::string> reports() const;
};

// Runs the scenario to its end with the options ("NAME=value") added to this process's environment, and any other
// FREEWAY_ option but FREEWAY_RSEQ taken out. Killed after two minutes.
Outcome run_scenario(const std::string& name, long argument = 0, std::initializer_list<const char*> options = {});
Outcome run_scenario(const std::string& name, long argument, const std::vector<const char*>& options);

// In a scenario: ends the process with status 3 and a message when something else than what is tested went wrong.
void require(bool condition, const char* what);

// In a scenario: writes `pointer` and the range of the program's own code to stdout, for expect_report.
void announce(const void* pointer);

// One parsed line "freeway: <kind> of <pointer> by <caller>"; the caller is "" where the fault was found only when the
// block's batch went back.
struct Report {
  std::string kind;
  std::string pointer;
  std::string caller;
};
// False if `line` has not that form.
bool parse_report(const std::string& line, Report* report);

enum class When { kAtOnce, kBatchReturned };

// Checks (with GoogleTest's EXPECT) that `outcome` has exactly one report, that its kind is among `kinds`, its pointer
// is the announced one and its caller, which may be missing when the batch was returned, lies in the announced code.
void expect_report(const Outcome& outcome, std::initializer_list<const char*> kinds, When when = When::kAtOnce);

// In each of them a block has its size found in another way.
inline constexpr const char* kSizedModes[] = {"FREEWAY_HARDEN=0",
                                              "FREEWAY_RSEQ=0",
                                              "FREEWAY_HARDEN=1",
                                              "FREEWAY_HARDEN=1,fill",
                                              "FREEWAY_GUARD=1",
                                              "FREEWAY_GUARD=0,large",
                                              "FREEWAY_PROFILE=1,dump=signal:WINCH"};

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_SCENARIO_H
