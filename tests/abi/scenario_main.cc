// SPDX-License-Identifier: MIT
//
// scenario_main.cc: main of the test programs with scenarios, and the code that starts and reads them. Output goes to
// files in memory, not pipes: a child that writes a lot and then aborts can neither block nor lose anything.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <regex>
#include <sstream>

#include "abi_test.h"
#include "scenario.h"

extern "C" {
// The linker's bounds of the program's own image.
extern const char __executable_start;
extern const char etext;
extern char** environ;
}

namespace freeway::test {
namespace {

constexpr unsigned kTimeLimitSeconds = 120;
constinit Scenario* first_scenario = nullptr;

// "NAME=..." is an option of Freeway that this process was given and a scenario should not inherit.
bool is_inherited_option(const char* variable) {
  return strncmp(variable, "FREEWAY_", 8) == 0 && strncmp(variable, "FREEWAY_RSEQ=", 13) != 0 &&
         strncmp(variable, "FREEWAY_LIB=", 12) != 0 && strncmp(variable, "FREEWAY_TEST_ENGINE=", 20) != 0;
}

std::string whole_file(int fd) {
  std::string text;
  char buffer[4096];
  lseek(fd, 0, SEEK_SET);
  for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;) text.append(buffer, size_t(got));
  return text;
}

}  // namespace

Scenario::Scenario(const char* scenario_name, Body scenario_body)
    : name(scenario_name), body(scenario_body), next(first_scenario) {
  first_scenario = this;
}

bool Outcome::aborted() const { return signal == SIGABRT; }

std::vector<std::string> Outcome::reports() const {
  std::vector<std::string> lines;
  std::istringstream stream(err);
  for (std::string line; std::getline(stream, line);)
    if (line.starts_with("freeway: ")) lines.push_back(line);
  return lines;
}

Outcome run_scenario(const std::string& name, long argument, std::initializer_list<const char*> options) {
  return run_scenario(name, argument, std::vector<const char*>(options));
}

Outcome run_scenario(const std::string& name, long argument, const std::vector<const char*>& options) {
  const std::string name_argument = "--scenario=" + name;
  const std::string number_argument = std::to_string(argument);
  const char* arguments[] = {"/proc/self/exe", name_argument.c_str(), number_argument.c_str(), nullptr};
  std::vector<const char*> environment;
  for (char** each = environ; *each != nullptr; ++each) {
    // An option given here replaces the inherited one of its name.
    const bool replaced = std::any_of(options.begin(), options.end(), [&](const char* option) {
      const char* const name_end = strchr(option, '=');
      return name_end != nullptr && strncmp(option, *each, size_t(name_end - option) + 1) == 0;
    });
    if (!replaced && !is_inherited_option(*each)) environment.push_back(*each);
  }
  environment.insert(environment.end(), options.begin(), options.end());
  environment.push_back(nullptr);

  const int out = memfd_create("scenario-out", 0);
  const int err = memfd_create("scenario-err", 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out, 1);
    dup2(err, 2);
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(kTimeLimitSeconds);
    execve(arguments[0], const_cast<char**>(arguments), const_cast<char**>(environment.data()));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  if (WIFEXITED(status)) outcome.exit_status = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) outcome.signal = WTERMSIG(status);
  outcome.out = whole_file(out);
  outcome.err = whole_file(err);
  close(out);
  close(err);
  return outcome;
}

void require(bool condition, const char* what) {
  if (condition) return;
  dprintf(2, "scenario: %s (errno %d)\n", what, errno);
  _exit(3);
}

void announce(const void* pointer) {
  dprintf(1, "pointer 0x%" PRIxPTR " code 0x%" PRIxPTR " 0x%" PRIxPTR "\n", reinterpret_cast<uintptr_t>(pointer),
          reinterpret_cast<uintptr_t>(&__executable_start), reinterpret_cast<uintptr_t>(&etext));
}

bool parse_report(const std::string& line, Report* report) {
  static const std::regex
      form(
          "^freeway: (double free|(?:free|realloc|malloc_usable_size) of an? (?:foreign|misaligned|interior|freed) "
          "pointer)" "(?: of)? (0x[0-9a-f]+)(?: by (0x[0-9a-f]+)(?: \\(/[^()]+\\))?| \\(freed earlier[^()]+\\))"
          " in thread [0-9]+ of [^ ]+ \\([0-9]+\\)$");
  std::smatch match;
  if (!std::regex_match(line, match, form)) return false;
  *report = {match[1], match[2], match[3]};
  return true;
}

void expect_report(const Outcome& outcome, std::initializer_list<const char*> kinds, When when) {
  const auto all = [&] { return "stdout:\n" + outcome.out + "stderr:\n" + outcome.err; };
  const std::vector<std::string> lines = outcome.reports();
  ASSERT_EQ(lines.size(), 1u) << all();
  Report report;
  ASSERT_TRUE(parse_report(lines[0], &report)) << lines[0];
  // Large blocks of the paper engines are mappings, of which only the beginning is known, and nothing once they end.
  const bool unknown = !on_flagship() && report.kind.ends_with("of a foreign pointer");
  EXPECT_TRUE(unknown || std::find(kinds.begin(), kinds.end(), report.kind) != kinds.end()) << lines[0];
  uintptr_t pointer = 0, code_start = 0, code_end = 0;
  ASSERT_EQ(
      sscanf(outcome.out.c_str(), "pointer %" SCNxPTR " code %" SCNxPTR " %" SCNxPTR, &pointer, &code_start, &code_end),
      3)
      << all();
  EXPECT_EQ(strtoull(report.pointer.c_str(), nullptr, 16), pointer) << lines[0];
  if (report.caller.empty()) {
    EXPECT_EQ(when, When::kBatchReturned) << "no caller, though it was seen at once: " << lines[0];
    return;
  }
  const uintptr_t caller = strtoull(report.caller.c_str(), nullptr, 16);
  EXPECT_TRUE(caller >= code_start && caller < code_end) << "the caller is not in this program: " << lines[0];
}

}  // namespace freeway::test

int main(int argc, char** argv) {
  constexpr char kFlag[] = "--scenario=";
  if (argc == 3 && strncmp(argv[1], kFlag, sizeof kFlag - 1) == 0) {
    for (auto* each = freeway::test::first_scenario; each != nullptr; each = each->next) {
      if (strcmp(each->name, argv[1] + sizeof kFlag - 1) != 0) continue;
      each->body(strtol(argv[2], nullptr, 0));
      return 0;
    }
    dprintf(2, "no scenario %s\n", argv[1]);
    return 126;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
