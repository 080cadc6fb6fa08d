// SPDX-License-Identifier: MIT
// profile.h: the program behind `freeway profile`.
#pragma once

#include <string>

namespace freeway_command {

// The program that reads heap profiles; empty if there is none.
std::string profile_program();

// A file without a name, with that text, that programs which are executed have, too; -1: there is no memory for it.
int file_of(const std::string& text);

}  // namespace freeway_command
