// SPDX-License-Identifier: MIT
// options.h: `freeway options`.
#pragma once

namespace freeway_command {

// Prints the library's own list of options. A Status.
int options();

}  // namespace freeway_command
