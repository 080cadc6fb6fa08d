// SPDX-License-Identifier: MIT
// engines.cc: the table of engines and their options is the library's own (papers/front/options.h).
#include "engines.h"

#include <cstdio>
#include <cstdlib>

#include "child.h"
#include "library.h"
#include "papers/front/options.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {
namespace {

// "heaps" -> "HEAPS", "partial-slots" -> "PARTIAL_SLOTS".
std::string variable_name(std::string name) {
  for (char& c : name) c = c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

// The other way.
std::string shown_name(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

// What the engine's own summary says of its mode on this machine.
std::string mode_here(const char* engine) {
  const Library library = find_library(engine);
  if (library.path.empty()) return "not installed";
  const Said said = run_probe(library, {"FREEWAY_STATS=1", "FREEWAY_HARDEN"});
  if (said.status != kOk) return "does not work here (see `freeway doctor`)";
  const std::size_t begin = said.errors.find("what the heap did (");
  const std::size_t end = said.errors.find(')', begin);
  if (begin == std::string::npos || end == std::string::npos) return "unknown";
  return said.errors.substr(said.errors.find('(', begin) + 1, end - said.errors.find('(', begin) - 1);
}

}  // namespace

int engines(const Arguments&) {
  for (const freeway::EngineDescription& engine : freeway::kEngines)
    std::printf("%-11s %-27s %s; mode here: %s\n", engine.name, engine.paper, engine.promise,
                mode_here(engine.name).c_str());
  return kOk;
}

std::string fault_of_engine(const std::string& engine) {
  std::string known;
  for (const freeway::EngineDescription& each : freeway::kEngines) {
    if (engine == each.name) return {};
    known += (known.empty() ? "" : ", ") + std::string(each.name);
  }
  return "there is no engine '" + engine + "' (" + known + ")";
}

std::string set_engine_option(const std::string& engine, const std::string& assignment) {
  const std::size_t equals = assignment.find('=');
  if (equals == std::string::npos) return "'" + assignment + "' is not of the form name=value";
  const std::string name = variable_name(assignment.substr(0, equals));
  const std::string value = assignment.substr(equals + 1);
  std::string known;
  for (const freeway::EngineOption& option : freeway::kEngineOptions) {
    if (engine != option.engine) continue;
    known += (known.empty() ? "" : ", ") + shown_name(option.name);
    if (name != option.name) continue;
    freeway::u64 number;
    if (!freeway::parse_option(option.values, value.c_str(), &number))
      return assignment + " is not understood: " + engine + " takes " + option.values + " there";
    setenv(("FREEWAY_" + name).c_str(), value.c_str(), 1);
    return {};
  }
  return engine + " has no option '" + assignment.substr(0, equals) + "' (" + (known.empty() ? "it has none" : known) +
         ")";
}

}  // namespace freeway_command
