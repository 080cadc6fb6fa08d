// SPDX-License-Identifier: MIT
// help.h: texts made from the description of the command (usage.h).
#pragma once

#include "usage.h"

namespace freeway_command {

// Without a subcommand, of all of them: in few lines, or a list.
std::string short_help();
std::string help_of_all();
// Of one.
std::string help_of(const Command& command);
// The library's variables: for a terminal, and as the table of docs/options.md.
std::string list_of_variables();
std::string table_of_variables();
// All commands, as docs/command.md has them, and as freeway(1) has them.
std::string commands_as_markdown();
std::string commands_as_mdoc();
// A script for "bash", "zsh" or "fish"; empty: for none of them.
std::string completion_for(const std::string& shell);

}  // namespace freeway_command
