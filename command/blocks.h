// SPDX-License-Identifier: MIT
// blocks.h: `freeway blocks`: what addresses of a process are.
#pragma once

namespace freeway_command {

int blocks(char** argv);

}  // namespace freeway_command
