// SPDX-License-Identifier: MIT
// profile.h: `freeway profile`.
#pragma once

#include <string>

namespace freeway_command {

// The program that reads heap profiles; empty if there is none.
std::string profile_program();

// argv: the arguments after "profile". Becomes the program that reads heap profiles (command/profile); returns only if
// there is none, with a Status.
int profile(char** argv);

}  // namespace freeway_command
