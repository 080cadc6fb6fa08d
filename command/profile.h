// SPDX-License-Identifier: MIT
// profile.h: the program behind `freeway profile`.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace freeway_command {

// Starts the program that reads heap profiles, with these words, and this standard input and output, not under Freeway.
// -1: it cannot be started, or there is none. `is_quiet`: without a standard error.
pid_t start_profile_program(std::vector<std::string> words, int in, int out, bool is_quiet = false);

// A file without a name, with that text, that programs which are executed have, too; -1: there is no memory for it.
int file_of(const std::string& text);

}  // namespace freeway_command
