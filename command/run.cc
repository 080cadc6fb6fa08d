// SPDX-License-Identifier: MIT
// run.cc: `freeway run [options] [--] program args…`.
//
// An option is an environment variable of the library, whose tables judge its value here, before the program is
// started: what the library would not understand, and run without, is refused. A variable FREEWAY_... that is none of
// its options is named. After exec nothing of this command is left; the program's exit status is its own. Only with
// --stats this command stays, as the parent that shows the program's report when it has ended; with --pressure, as the
// one that watches for pressure; with --require, for processes that run without the library; and with --leaks, as the
// one that looks into processes that end.
#include "run.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "attend.h"
#include "binding.h"
#include "elf_file.h"
#include "engines.h"
#include "escapes.h"
#include "leaks.h"
#include "library.h"
#include "os/option_table.h"
#include "os/options.h"
#include "pressure.h"
#include "program.h"
#include "report.h"
#include "reports.h"
#include "variables.h"

namespace freeway_command {
namespace {

struct RunOption {
  std::string_view flag;  // ending in '=': the rest of the argument is the value
  const char* variable;
  const char* value;  // of a flag without '='
  const char* shown;  // how the help writes it
  const char* meaning;
};

constexpr RunOption kRunOptions[] = {
    {"--stats", "FREEWAY_STATS", "1", "--stats", "at exit, print what each layer of the program's heap did"},
    {"--stats=", "FREEWAY_STATS", nullptr, "--stats=json:PATH", "as JSON in PATH, or text:PATH; %p in it: process id"},
    {"--no-rseq", "FREEWAY_RSEQ", "0", "--no-rseq", "spare slabs instead of per-CPU ones"},
    {"--harden", "FREEWAY_HARDEN", "1", "--harden",
     "catch every invalid free where it happens; random order, blocks rest"},
    {"--harden=", "FREEWAY_HARDEN", nullptr, "--harden=1,fill",
     "also name writes to freed blocks; quarantine=BYTES: how many rest"},
    {"--guard=", "FREEWAY_GUARD", nullptr, "--guard=N[,large]",
     "explain overflows and uses after free of one in N slow mallocs; large: of all large blocks"},
    {"--on-error=", "FREEWAY_ON_ERROR", nullptr, "--on-error=report",
     "name an invalid free and go on instead of aborting"},
    {"--background", "FREEWAY_BACKGROUND", "1", "--background",
     "a thread gives memory back while the program does nothing"},
    {"--pressure", "FREEWAY_BACKGROUND", "1", "--pressure",
     "the same, and whenever memory is short (systemd's protocol, or PSI)"},
};

// The program may change its directory before the file is written.
std::string with_absolute_path(const std::string& value) {
  for (const std::string_view form : {"json:", "text:"})
    if (value.starts_with(form) && value.size() > form.size())
      return std::string(form) + std::filesystem::absolute(value.substr(form.size())).native();
  return value;
}

// The value of `flag`, given as `flag=value` or in the next argument (then argv moves on); null if *argv is not `flag`.
const char* value_of(const char* flag, char**& argv) {
  const std::size_t length = std::strlen(flag);
  if (std::strncmp(*argv, flag, length) != 0) return nullptr;
  if ((*argv)[length] == '=') return *argv + length + 1;
  if ((*argv)[length] != 0) return nullptr;
  if (argv[1] == nullptr) return "";
  ++argv;
  return *argv;
}

// Why the library would not do what the option asks for; empty: it would.
std::string fault_of_value(const RunOption& option, const std::string& value) {
  const char* name = option.variable + sizeof("FREEWAY_") - 1;
  if (!value.empty() && freeway::takes_value(name, value.c_str())) return {};
  std::string fault = "run: " + std::string(option.flag) + value + " is not understood";
  for (const freeway::OptionDescription& each : freeway::kOptionTable)
    if (std::strcmp(each.name, name) == 0) fault += std::string(" (") + each.values + ")";
  return fault;
}

// Puts the option `argument` into the environment; false if there is no such option, or `fault` says what is wrong with
// it.
bool take_option(std::string_view argument, std::string& fault) {
  for (const RunOption& option : kRunOptions) {
    const bool takes_value = option.value == nullptr;
    if (takes_value ? !argument.starts_with(option.flag) : argument != option.flag) continue;
    const std::string value =
        takes_value ? with_absolute_path(std::string(argument.substr(option.flag.size()))) : option.value;
    if (takes_value) fault = fault_of_value(option, value);
    setenv(option.variable, value.c_str(), 1);
    return fault.empty();
  }
  return false;
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

// Takes an option about leaks; false: it is none, or `fault` says what is wrong with it.
bool take_leak_option(char**& argv, LeakOptions& leaks, std::string& fault) {
  const std::string_view argument = *argv;
  if (argument == "--leaks" || argument.starts_with("--leaks=")) {
    leaks.wanted = true;
    leaks.interval = argument == "--leaks" ? "1" : argument.substr(sizeof("--leaks=") - 1);
    return true;
  }
  if (const char* status = value_of("--leaks-status", argv)) {
    leaks.status = parse_status(status);
    if (leaks.status == 0) fault = std::string("run: --leaks-status wants 1 to 255, not ") + status;
    return leaks.status != 0;
  }
  if (const char* prefix = value_of("--leaks-dump", argv)) {
    leaks.dump = prefix;
    if (leaks.dump.empty()) fault = "run: --leaks-dump wants the beginning of files' names";
    return !leaks.dump.empty();
  }
  return false;
}

// Why what was asked for about leaks cannot be had.
std::string fault_of(const LeakOptions& leaks, const std::string& engine) {
  if (!leaks.wanted)
    return leaks.status != 0 || !leaks.dump.empty() ? "--leaks-status and --leaks-dump are of --leaks" : "";
  return engine != "freeway" ? "--leaks: the engine " + engine + " has no heap profile" : "";
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

void print_run_options() {
  for (const RunOption& option : kRunOptions) std::printf("  %-20s %s\n", option.shown, option.meaning);
  std::printf("  %-20s %s\n", "--require", "do not run a program that would have another malloc all the same");
  std::printf("  %-20s %s\n", "--leaks[=BYTES]",
              "at exit, who allocated blocks that no pointer reaches; one sample in BYTES");
  std::printf("  %-20s %s\n", "--leaks-status N", "exit status where something leaked and the program's is 0");
  std::printf("  %-20s %s\n", "--leaks-dump PREFIX", "what leaked as heap profiles, too: PREFIX.PID.heap");
  std::printf("  %-20s %s\n", "--engine NAME", "a paper's allocator instead of Freeway's own: see `freeway engines`");
  std::printf("  %-20s %s\n", "--set NAME=VALUE", "an option of that engine, such as heaps=4");
}

int run(char** argv) {
  std::string engine = "freeway";
  std::vector<std::string> settings;
  bool report = false, pressure = false, require = false;
  LeakOptions leaks;
  for (; *argv != nullptr && **argv == '-'; ++argv) {
    if (std::strcmp(*argv, "--") == 0) {
      ++argv;
      break;
    }
    if (const char* name = value_of("--engine", argv)) {
      engine = name;
      continue;
    }
    if (const char* setting = value_of("--set", argv)) {
      settings.push_back(setting);
      continue;
    }
    if (std::strcmp(*argv, "--require") == 0) {
      require = true;
      continue;
    }
    std::string fault;
    if (take_leak_option(argv, leaks, fault)) continue;
    if (!fault.empty()) return fail(kWrongValue, fault);
    pressure |= std::strcmp(*argv, "--pressure") == 0;
    report = std::strcmp(*argv, "--stats") == 0 || (report && !std::string_view(*argv).starts_with("--stats="));
    if (take_option(*argv, fault)) continue;
    if (!fault.empty()) return fail(kWrongValue, fault);
    return fail(kOwnFailure, std::string("run: unknown option ") + *argv + " (see `freeway --help`)");
  }
  if (const std::string why = fault_of_engine(engine); !why.empty()) return fail(kWrongValue, why);
  for (const std::string& setting : settings)
    if (const std::string why = set_engine_option(engine, setting); !why.empty()) return fail(kWrongValue, why);
  name_unknown_variables();
  if (const std::string why = fault_of(leaks, engine); !why.empty()) return fail(kOwnFailure, "run: " + why);
  if (*argv == nullptr) return fail(kOwnFailure, "run: which program? (freeway run [options] -- program args...)");

  const Program program = find_program(*argv);
  if (program.status == kNotFound) return fail(kNotFound, "program not found: " + program.path);
  if (program.status == kNotExecutable) return fail(kNotExecutable, "not an executable file: " + program.path);
  const Library library = find_library(engine);
  if (library.path.empty()) return fail(kOwnFailure, library.fault);
  if (const std::string why = obstacle(program.path); !why.empty()) return fail(kOwnFailure, why);
  const bool has_own = exports_malloc(executed_file(program.path));
  if (require || has_own) {
    const std::string why = why_not_taken(program.path, binding_of(program.path, library));
    if (require && !why.empty()) return fail(kOwnFailure, why);
    if (!why.empty()) std::fprintf(stderr, "freeway: it does not take: %s\n", why.c_str());
  }

  if (const std::string sanitizer = sanitizer_of(program.path); !sanitizer.empty())
    std::fprintf(stderr,
                 "freeway: %s is built with %s, which does not see Freeway's malloc and free: it misses errors, or "
                 "complains " "where there are none\n",
                 program.path.c_str(), sanitizer.c_str());

  setenv("LD_PRELOAD", preload_with(library).c_str(), 1);
  const Meanwhile escapes = [&library](pid_t child) { Escapes(library).watch_while(child); };
  const Meanwhile company = together(require ? escapes : nullptr, pressure ? relief() : nullptr);
  if (!leaks.wanted) return run_beside(program, argv, report, company);
  return run_for_leaks(leaks, [&](const Meanwhile& look) {
    const Meanwhile all = together(company, look);
    return report ? attend_and_report(program, argv, all) : attend(program.path, argv, all);
  });
}

}  // namespace freeway_command
