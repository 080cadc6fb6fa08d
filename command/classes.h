// SPDX-License-Identifier: MIT
// classes.h: `freeway classes`: a process's heap by size class.
#pragma once

namespace freeway_command {

int classes(char** argv);

}  // namespace freeway_command
