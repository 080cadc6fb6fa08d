// SPDX-License-Identifier: MIT
// main.cc: the `freeway` command: finds out which subcommand is meant (usage.h says what there is), and calls it.
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "commit.h"
#include "freeway/freeway.h"
#include "help.h"
#include "report.h"
#include "subcommands.h"

namespace freeway_command {

int fail(int status, const std::string& message) {
  std::fprintf(stderr, "freeway: %s\n", message.c_str());
  return status;
}

std::string command_version() {
  return std::to_string(FREEWAY_VERSION_MAJOR) + "." + std::to_string(FREEWAY_VERSION_MINOR) + "." +
         std::to_string(FREEWAY_VERSION_PATCH);
}

namespace {

int print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return kOk;
}

int print_version() {
  return print("freeway " + command_version() + "\ncommit " FREEWAY_COMMIT "; " FREEWAY_BUILD "\n");
}

int version(const Arguments&) { return print_version(); }

int options(const Arguments& arguments) {
  return print(arguments.has("--markdown") ? table_of_variables() : list_of_variables());
}

int completion(const Arguments& arguments) {
  const std::string script = completion_for(arguments.others()[0]);
  if (script.empty()) arguments.refuse("it knows bash, zsh and fish, not " + arguments.others()[0]);
  return print(script);
}

// The subcommand that the words at the front of argv name: "profile top" rather than "profile". Moves argv behind it.
const Command& command_in(char**& argv) {
  const Command* found = find_command(*argv);
  std::vector<std::string_view> known;
  for (const Command& each : commands())
    if (each.group != nullptr) known.push_back(each.name);
  if (found == nullptr)
    throw Failure(kWrongUsage,
                  std::string("there is no command ") + *argv + did_you_mean(*argv, known) + " (see `freeway --help`)");
  known.clear();
  for (const Command& each : commands())
    if (is_part_of(each, *found)) known.push_back(each.name);
  ++argv;
  if (known.empty() || *argv == nullptr || **argv == '-') return *found;
  const std::string name = std::string(found->name) + " " + *argv;
  const Command* const part = find_command(name);
  if (part == nullptr)
    throw Failure(kWrongUsage, "there is no command " + name + did_you_mean(name, known) + " (see `freeway " +
                                   found->name + " --help`)");
  ++argv;
  return *part;
}

int help(const Arguments& arguments) {
  if (arguments.has("--markdown")) return print(commands_as_markdown());
  if (arguments.has("--mdoc")) return print(commands_as_mdoc());
  if (arguments.others().empty()) return print(help_of_all());
  std::vector<char*> names;
  for (const std::string& each : arguments.others()) names.push_back(const_cast<char*>(each.c_str()));
  names.push_back(nullptr);
  char** argv = names.data();
  return print(help_of(command_in(argv)));
}

struct Function {
  std::string_view command;  // also of its parts
  int (*call)(const Arguments&);
};

constexpr Function kFunctions[] = {
    {"run", run},         {"trim", trim},       {"stat", stat},       {"top", top},
    {"classes", classes}, {"map", map},         {"blocks", blocks},   {"leaks", leaks},
    {"doctor", doctor},   {"options", options}, {"engines", engines}, {"completion", completion},
    {"help", help},       {"version", version}, {"probe", probe},
};

int command(char** argv) {
  const std::string first = *argv == nullptr ? "" : *argv;
  if (first.empty()) {
    std::fputs(short_help().c_str(), stderr);
    return kWrongUsage;
  }
  if (first == "--help" || first == "-h") return print(help_of_all());
  if (first == "--version" || first == "-V") return print_version();
  char** rest = argv;
  const Command& named = command_in(rest);
  const Arguments arguments(named, rest);
  if (arguments.wants_help()) return print(help_of(named));
  if (first == "profile") return profile(argv + 1);
  for (const Function& each : kFunctions)
    if (first == each.command) return each.call(arguments);
  return kWrongUsage;
}

int end_with(int status) {
  return std::fflush(stdout) == 0 ? status : fail(kCannot, "the answer could not be written");
}

}  // namespace
}  // namespace freeway_command

int main(int, char** argv) {
  using namespace freeway_command;
  try {
    return end_with(command(argv + 1));
  } catch (const Failure& failure) {
    std::fflush(stdout);
    return fail(failure.status, failure.what());
  } catch (const std::bad_alloc&) { return fail(kCannot, "there is not enough memory for what is to be read"); }
}
