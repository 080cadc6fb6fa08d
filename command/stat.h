// SPDX-License-Identifier: MIT
// stat.h: `freeway stat`: what a process's heap holds, from outside.
#pragma once

namespace freeway_command {

int stat(char** argv);

}  // namespace freeway_command
