// SPDX-License-Identifier: MIT
#include "arguments.h"

#include "report.h"

namespace freeway_command {

Arguments::Arguments(const Command& command, char** argv) : command_(command) {
  for (bool options = true; *argv != nullptr; ++argv) {
    const std::string_view argument = *argv;
    if (options && argument.size() > 1 && argument[0] == '-') {
      if (argument == "--") {
        options = false;
        continue;
      }
      if (argument == "--help" || argument == "-h") {
        wants_help_ = true;
        return;
      }
      argv = take_option(argv);
    } else {
      if (program_ == nullptr) program_ = argv;
      others_.emplace_back(argument);
      options &= !command.starts_program;
    }
  }
  if (others_.size() < command.least) refuse(std::string("it wants ") + command.arguments);
  if (others_.size() > command.most) refuse("'" + others_[command.most] + "' is too much");
}

// Returns the argument that was the last of it.
char** Arguments::take_option(char** argv) {
  const std::string_view argument = *argv;
  const std::size_t equals = argument.starts_with("--") ? argument.find('=') : std::string_view::npos;
  const std::string_view name = argument.substr(0, equals);
  std::vector<std::string_view> known = {"--help"};
  for (const Option& each : command_.options) {
    known.push_back(each.name);
    if (each.name != name) continue;
    const bool has_value = equals != std::string_view::npos;
    if (has_value && each.takes == Takes::kNothing) refuse(each.name + " takes no value");
    if (has_value || each.takes != Takes::kValue) {
      given_.push_back({&each, has_value, std::string(has_value ? argument.substr(equals + 1) : "")});
      return argv;
    }
    if (argv[1] == nullptr) refuse(each.name + " wants a value: " + each.value);
    given_.push_back({&each, true, argv[1]});
    return argv + 1;
  }
  refuse("there is no option " + std::string(name) + did_you_mean(name, known));
}

bool Arguments::has(std::string_view option) const {
  for (const Given& each : given_)
    if (each.option->name == option) return true;
  return false;
}

std::string Arguments::value(std::string_view option, const std::string& otherwise) const {
  std::string value = otherwise;
  for (const Given& each : given_)
    if (each.option->name == option && each.has_value) value = each.value;
  return value;
}

void Arguments::refuse(const std::string& fault) const {
  throw Failure(kWrongUsage,
                std::string(command_.name) + ": " + fault + " (see `freeway " + command_.name + " --help`)");
}

}  // namespace freeway_command
