// SPDX-License-Identifier: MIT
// reports.h: `freeway run --stats`: the reports of all processes of a program, collected in a folder; the program's own
// is shown, and the others are summed up.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>

namespace freeway_command {

// A folder of this user's, in which each process leaves its report when it ends. Removed with this object. Processes
// name it by this one's descriptor of it: what ends later finds nothing there, nor what somebody else may have put in
// its place.
class Reports {
 public:
  Reports();
  ~Reports();
  Reports(const Reports&) = delete;
  Reports& operator=(const Reports&) = delete;

  // Where FREEWAY_STATS sends them; empty if there is no folder.
  std::string destination() const;
  // Writes to fd 2 the report of process `started` and a line on the others. Of a shell script (`is_script`), whose
  // shell may have started another program to do the work, the report of the process that used the heap most.
  void show(pid_t started, const std::string& program, bool is_script) const;

 private:
  std::filesystem::path folder_;
  int open_ = -1;
};

}  // namespace freeway_command
