// SPDX-License-Identifier: MIT
// run.h: `freeway run`.
#pragma once

namespace freeway_command {

// argv: the arguments after "run". Returns only if the program could not be started: a Status.
int run(char** argv);

// One line per option of `run`, for the help.
void print_run_options();

}  // namespace freeway_command
