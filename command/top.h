// SPDX-License-Identifier: MIT
// top.h: `freeway top`: a process's heap, again and again.
#pragma once

namespace freeway_command {

int top(char** argv);

}  // namespace freeway_command
