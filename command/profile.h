// SPDX-License-Identifier: MIT
// profile.h: the program behind `freeway profile`.
#pragma once

#include <string>

namespace freeway_command {

// The program that reads heap profiles; empty if there is none.
std::string profile_program();

}  // namespace freeway_command
