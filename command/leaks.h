// SPDX-License-Identifier: MIT
// leaks.h: `freeway run --leaks`.
#pragma once

#include <functional>
#include <string>

#include "attend.h"

namespace freeway_command {

// What `freeway run` has been told about leaks.
struct LeakOptions {
  bool wanted = false;
  std::string interval = "1";
  int status = 0;    // of this command, if the program ended with 0 and something leaked; 0: the program's
  std::string dump;  // prefix of files; empty: none
};

// Reads an exit status of --leaks-status or --status, 1 to 255; 0: it is none.
int parse_status(const std::string& text);

// Runs the program by `start` (it gets what is to be done meanwhile; see attend.h), and prints what has leaked of it
// and its children when each of them ends. The status to exit with.
int run_for_leaks(const LeakOptions& options, const std::function<Ended(const std::function<void(pid_t)>&)>& start);

}  // namespace freeway_command
