// SPDX-License-Identifier: MIT
// report.h: how the command speaks of itself: its version, and its failures: one line on fd 2 and a status that a
// script can tell from the program's own.
#pragma once

#include <string>

namespace freeway_command {

// The statuses of env(1), nice(1) and timeout(1).
enum Status : int {
  kOk = 0,
  kUnwell = 1,        // doctor: the library does not work here; stat and its like: what is there cannot be looked into
  kWrongValue = 2,    // run: no such engine, or a value that the library, or the engine, does not understand
  kOwnFailure = 125,  // the command itself could not do it: wrong usage, no library, nothing to preload into
  kNotExecutable = 126,
  kNotFound = 127,
};

// Writes "freeway: message" to fd 2; returns `status`.
int fail(int status, const std::string& message);

// "0.2.0": of this command, which should be the library's too.
std::string command_version();

}  // namespace freeway_command
