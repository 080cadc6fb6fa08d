// SPDX-License-Identifier: MIT
// report.h: how the command speaks of itself: its version, and its failures: one line on fd 2 and a status.
#pragma once

#include <stdexcept>
#include <string>

namespace freeway_command {

enum Status : int {
  kOk = 0,
  kCannot = 1,      // what was asked for could not be done; doctor: Freeway does not work here
  kWrongUsage = 2,  // it was asked for wrongly: an option, value or argument that is not understood
  // Of `run`, so that they differ from most programs' own; as env(1), nice(1) and timeout(1) have them.
  kRunFailed = 125,  // Freeway cannot be preloaded
  kNotExecutable = 126,
  kNotFound = 127,
};

// Why there is no answer, and what to do about it.
struct Failure : std::runtime_error {
  Failure(int with, const std::string& message) : std::runtime_error(message), status(with) {}
  int status;  // a Status
};

// Writes "freeway: message" to fd 2; returns `status`.
int fail(int status, const std::string& message);

// "0.2.0": of this command, which should be the library's too.
std::string command_version();

}  // namespace freeway_command
