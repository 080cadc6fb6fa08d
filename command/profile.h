// SPDX-License-Identifier: MIT
// profile.h: `freeway profile`.
#pragma once

namespace freeway_command {

// argv: the arguments after "profile". Becomes the program that reads heap profiles (command/profile); returns only if
// there is none, with a Status.
int profile(char** argv);

}  // namespace freeway_command
