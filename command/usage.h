// SPDX-License-Identifier: MIT
// usage.h: the command, described once: subcommands, their options and arguments, examples, exit status. What is typed
// is read by it (arguments.h), and help, completion, freeway(1) and the pages are made from it (help.h).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace freeway_command {

enum class Takes {
  kNothing,
  kValue,    // in the same argument behind '=', or the next argument
  kOptional  // behind '=' only
};

struct Option {
  std::string name;  // "--json", "-o"
  Takes takes = Takes::kNothing;
  std::string value;  // how the help names it: "FILE"; words to choose from: "text|html"
  std::string meaning;
  const char* variable = nullptr;  // of the library, which has the value: without FREEWAY_
  const char* alone = nullptr;     // the variable's value where the option has none
};

struct Example {
  const char* line;
  const char* meaning;
};

struct ExitStatus {
  const char* status;
  const char* meaning;
};

struct Command {
  const char* name;       // "stat", "profile top"
  const char* group;      // of the help's list; null: not listed
  const char* arguments;  // "PID|NAME|CORE"
  std::size_t least, most;
  const char* summary;      // a line
  const char* description;  // paragraphs, parted by empty lines; code in backticks
  std::vector<Option> options;
  std::vector<Example> examples;
  std::vector<ExitStatus> statuses;  // beside 2, wrong usage
  bool starts_program = false;       // options end at its first argument, which is a program
};

// In the order of the help.
const std::vector<Command>& commands();
// By its whole name; null: there is none.
const Command* find_command(std::string_view name);
// "profile" has "profile top" and others.
bool is_part_of(const Command& part, const Command& whole);

// "--leaks[=BYTES]", "--keep BYTES".
std::string shown(const Option& option);
// The words that an option's value is one of; none: it is something else.
std::vector<std::string> words_of(const Option& option);
// What follows `freeway` in a line that uses the command.
std::string usage_of(const Command& command);

// The most similar of `known`; empty: none is similar.
std::string_view similar_to(std::string_view name, std::span<const std::string_view> known);
// ": did you mean NAME?", or nothing.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known);

}  // namespace freeway_command
