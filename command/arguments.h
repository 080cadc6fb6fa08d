// SPDX-License-Identifier: MIT
// arguments.h: what was typed behind a subcommand's name, read by its description (usage.h).
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "usage.h"

namespace freeway_command {

class Arguments {
 public:
  struct Given {
    const Option* option;
    bool has_value;
    std::string value;
  };

  // Throws Failure (kWrongUsage) for what the description does not have. Options and others may come in any order, but
  // for a command that starts a program; "--" ends the options.
  Arguments(const Command& command, char** argv);

  // Whether --help is among them; then nothing else was read.
  bool wants_help() const { return wants_help_; }
  // Options as they were given, in order.
  const std::vector<Given>& given() const { return given_; }
  bool has(std::string_view option) const;
  // The value that was given last; `otherwise`, if none was.
  std::string value(std::string_view option, const std::string& otherwise = {}) const;
  // What is no option.
  const std::vector<std::string>& others() const { return others_; }
  // Where the program and its arguments begin.
  char** program() const { return program_; }

  // Throws: this is wrong usage of the command, because of `fault`.
  [[noreturn]] void refuse(const std::string& fault) const;

 private:
  char** take_option(char** argv);

  const Command& command_;
  std::vector<Given> given_;
  std::vector<std::string> others_;
  char** program_ = nullptr;
  bool wants_help_ = false;
};

}  // namespace freeway_command
