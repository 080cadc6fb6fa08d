// SPDX-License-Identifier: MIT
// look.h: what the subcommands that look into a process share: their arguments, and how they write.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heap/memory.h"

namespace freeway_command {

// An option of such a subcommand: "--json", or, with a value, "--html FILE" and "--html=FILE"; "-o FILE".
struct LookOption {
  const char* name;
  bool has_value;
  std::function<void(const std::string& value)> take;
};

// Reads options and returns the other arguments; throws Failure, naming `usage`.
std::vector<std::string> read_arguments(char** argv, const std::vector<LookOption>& options, const char* usage);
// Does `f`, and says what failed as this command does: the status.
int look(const std::function<int()>& f);
// Says on fd 2 what a reader of the answer should know.
void warn_of(const Memory& memory);

// A string of JSON, with its quotes.
std::string json_text(const std::string& text);
// "12.3 MiB".
std::string in_units(std::uint64_t bytes);
// Nanoseconds since 1970.
std::uint64_t now_ns();

}  // namespace freeway_command
