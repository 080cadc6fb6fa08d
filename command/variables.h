// SPDX-License-Identifier: MIT
// variables.h: the environment's FREEWAY_..., as `freeway run` looks at it.
#pragma once

namespace freeway_command {

// Writes a line to fd 2 for each of them that is no option of the library, of an engine, or of this command: nobody
// reads it. It may be another program's, so that nothing is refused.
void name_unknown_variables();

}  // namespace freeway_command
