// SPDX-License-Identifier: MIT
// doctor.h: `freeway doctor` and `freeway options`.
#pragma once

namespace freeway_command {

// Prints what this machine offers, which path Freeway uses on it, and whether the library works. A Status.
int doctor();

// Prints the library's own list of options. A Status.
int options();

}  // namespace freeway_command
