// SPDX-License-Identifier: MIT
// run.cc: `freeway run [options] [--] program args…`.
//
// Most options are environment variables of the library, whose tables judge their values here, before the program is
// started: what the library would not understand, and run without, is refused. After exec nothing of this command is
// left; the program's exit status is its own. Only with --stats this command stays, as the parent that shows the
// program's report when it has ended; with --pressure, as the one that watches for pressure; with --require, for
// processes that run without the library; and with --leaks and --profile, as the one that looks into those that end.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "attend.h"
#include "binding.h"
#include "elf_file.h"
#include "engines.h"
#include "escapes.h"
#include "leaks.h"
#include "library.h"
#include "pressure.h"
#include "profiled.h"
#include "program.h"
#include "report.h"
#include "reports.h"
#include "subcommands.h"
#include "variables.h"

namespace freeway_command {
namespace {

// The program may change its directory before the file is written.
std::string with_absolute_path(const std::string& value) {
  for (const std::string_view form : {"json:", "text:"})
    if (value.starts_with(form) && value.size() > form.size())
      return std::string(form) + std::filesystem::absolute(value.substr(form.size())).native();
  return value;
}

// Throws where the library would not do what the option asks for.
void set_variable(const Arguments& arguments, const Arguments::Given& given) {
  const Option& option = *given.option;
  const std::string value = given.has_value ? with_absolute_path(given.value) : option.alone;
  if (!is_understood(option.variable, value))
    arguments.refuse(option.name + "=" + given.value + " is not understood" + values_of(option.variable));
  setenv((std::string("FREEWAY_") + option.variable).c_str(), value.c_str(), 1);
}

// What a preset says counts where nothing else says anything.
void set_unless_set(const char* variable, const std::string& value) {
  const char* const before = std::getenv(variable);
  if (before == nullptr || *before == 0) setenv(variable, value.c_str(), 1);
}

void set_presets(const Arguments& arguments) {
  if (arguments.has("--realtime")) {
    const std::string bytes = arguments.value("--realtime", "64m");
    if (!is_understood("PREFAULT", bytes)) arguments.refuse("--realtime=" + bytes + " is not understood (BYTES)");
    set_unless_set("FREEWAY_PREFAULT", bytes);
    set_unless_set("FREEWAY_PURGE", "never");
  }
  if (arguments.has("--server")) {
    set_unless_set("FREEWAY_BACKGROUND", "1");
    set_unless_set("FREEWAY_LIMIT", ",90%");
  }
  if (arguments.has("--pressure")) setenv("FREEWAY_BACKGROUND", "1", 1);
}

// Throws for what cannot be had.
LeakOptions leak_options(const Arguments& arguments, const std::string& engine) {
  LeakOptions leaks;
  leaks.wanted = arguments.has("--leaks");
  for (const Arguments::Given& each : arguments.given())
    if (each.option->name == "--leaks" && each.has_value) leaks.interval = each.value;
  const std::string status = arguments.value("--leaks-status", "0");
  leaks.status = parse_status(status);
  leaks.dump = arguments.value("--leaks-dump");
  if (leaks.status == 0 && arguments.has("--leaks-status"))
    arguments.refuse("--leaks-status wants 1 to 255, not '" + status + "'");
  if (leaks.dump.empty() && arguments.has("--leaks-dump"))
    arguments.refuse("--leaks-dump wants the beginning of files' names");
  if (!leaks.wanted && (leaks.status != 0 || !leaks.dump.empty()))
    arguments.refuse("--leaks-status and --leaks-dump are of --leaks");
  if (leaks.wanted && engine != "freeway") arguments.refuse("--leaks: the engine " + engine + " has no heap profile");
  return leaks;
}

// One sample in so many bytes; empty: no profile is wanted, or one whose dumps the value describes itself.
std::string profile_rate(const Arguments& arguments, const std::string& engine) {
  if (!arguments.has("--profile")) return {};
  if (engine != "freeway") arguments.refuse("--profile: the engine " + engine + " has no heap profile");
  const std::string rate = arguments.value("--profile", "512k");
  return rate.find(',') == std::string::npos ? rate.empty() ? "512k" : rate : "";
}

using Meanwhile = std::function<void(pid_t)>;

// Runs the program to its end and shows its report; no process: there is no folder for reports.
Ended attend_and_report(const Program& program, char** argv, const Meanwhile& meanwhile) {
  Ended ended;
  const Reports reports;
  if (const std::string destination = reports.destination(); !destination.empty()) {
    setenv("FREEWAY_STATS", destination.c_str(), 1);
    ended = attend(program.path, argv, meanwhile);
    if (ended.pid > 0) reports.show(ended.pid, program.path, is_script(program.path));
  }
  return ended;
}

int run_and_report(const Program& program, char** argv, const Meanwhile& meanwhile) {
  if (const Ended ended = attend_and_report(program, argv, meanwhile); ended.pid > 0) return end_like(ended);
  // Each process writes to fd 2.
  setenv("FREEWAY_STATS", "1", 1);
  return become(program.path, argv);
}

// Both at once.
Meanwhile together(const Meanwhile& one, const Meanwhile& other) {
  if (!one || !other) return one ? one : other;
  return [one, other](pid_t child) {
    std::thread beside(one, child);
    other(child);
    beside.join();
  };
}

// Runs the program with company; without any, in this command's place.
int run_beside(const Program& program, char** argv, bool report, const Meanwhile& meanwhile) {
  if (report) return run_and_report(program, argv, meanwhile);
  const Ended ended = meanwhile ? attend(program.path, argv, meanwhile) : Ended{};
  return ended.pid > 0 ? end_like(ended) : become(program.path, argv);
}

// What relieves memory pressure while the program runs; none where nothing says that there is any.
Meanwhile relief() {
  const auto pressure = std::make_shared<const Pressure>();
  if (pressure->fault().empty()) return [pressure](pid_t child) { pressure->relieve_while(child); };
  std::fprintf(stderr, "freeway: memory pressure cannot be watched (%s); the background thread works all the same\n",
               pressure->fault().c_str());
  return {};
}

}  // namespace

int run(const Arguments& arguments) {
  const std::string engine = arguments.value("--engine", "freeway");
  if (const std::string why = fault_of_engine(engine); !why.empty()) arguments.refuse(why);
  bool report = false;  // the last --stats counts
  for (const Arguments::Given& each : arguments.given()) {
    if (each.option->variable != nullptr) set_variable(arguments, each);
    if (each.option->name == "--stats") report = !each.has_value;
    if (each.option->name != "--set") continue;
    if (const std::string why = set_engine_option(engine, each.value); !why.empty()) arguments.refuse(why);
  }
  set_presets(arguments);
  check_variables(engine);
  const LeakOptions leaks = leak_options(arguments, engine);
  const std::string profile = profile_rate(arguments, engine);
  const bool require = arguments.has("--require");
  char** const argv = arguments.program();

  const Program program = find_program(*argv);
  if (program.status == kNotFound) return fail(kNotFound, "program not found: " + program.path);
  if (program.status == kNotExecutable) return fail(kNotExecutable, "not an executable file: " + program.path);
  const Library library = find_library(engine);
  if (library.path.empty()) return fail(kRunFailed, library.fault);
  if (const std::string why = obstacle(program.path); !why.empty()) return fail(kRunFailed, why);
  const bool has_own = exports_malloc(executed_file(program.path));
  if (require || has_own) {
    const std::string why = why_not_taken(program.path, binding_of(program.path, library));
    if (require && !why.empty()) return fail(kRunFailed, why);
    if (!why.empty()) std::fprintf(stderr, "freeway: it does not take: %s\n", why.c_str());
  }

  if (const std::string sanitizer = sanitizer_of(program.path); !sanitizer.empty())
    std::fprintf(stderr,
                 "freeway: %s is built with %s, which does not see Freeway's malloc and free: it misses errors, or "
                 "complains " "where there are none\n",
                 program.path.c_str(), sanitizer.c_str());

  setenv("LD_PRELOAD", preload_with(library).c_str(), 1);
  const Meanwhile escapes = [&library](pid_t child) { Escapes(library).watch_while(child); };
  const Meanwhile company = together(require ? escapes : nullptr, arguments.has("--pressure") ? relief() : nullptr);
  const auto start = [&](const Meanwhile& look) {
    const Meanwhile all = together(company, look);
    return report ? attend_and_report(program, argv, all) : attend(program.path, argv, all);
  };
  if (!profile.empty() && !leaks.wanted) return run_for_profile(profile, program.path, start);
  return leaks.wanted ? run_for_leaks(leaks, start) : run_beside(program, argv, report, company);
}

}  // namespace freeway_command
