// SPDX-License-Identifier: MIT
// doctor.h: `freeway doctor`.
#pragma once

namespace freeway_command {

// Prints what this machine offers, which path Freeway uses on it, and whether the library works. A Status.
int doctor();

}  // namespace freeway_command
