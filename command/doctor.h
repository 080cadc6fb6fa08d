// SPDX-License-Identifier: MIT
// doctor.h: `freeway doctor PROGRAM`.
#pragma once

#include <string>

namespace freeway_command {

// Prints which malloc a program has, whether it will have Freeway's instead, and if not, what to do. A Status.
int doctor_of_program(const std::string& name);

}  // namespace freeway_command
