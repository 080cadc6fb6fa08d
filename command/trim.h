// SPDX-License-Identifier: MIT
// trim.h: `freeway trim`.
#pragma once

namespace freeway_command {

// argv: the arguments after "trim": a process, and --keep BYTES. Says how much memory went back. A Status.
int trim(char** argv);

}  // namespace freeway_command
