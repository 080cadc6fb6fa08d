// SPDX-License-Identifier: MIT
// escapes.h: `freeway run --require`: which processes of a program run without the library.
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>

#include "library.h"

namespace freeway_command {

class Escapes {
 public:
  explicit Escapes(const Library& library) : library_(library) {}

  // Until process `child` has ended (it is not waited for): looks at it and all that descend from it ten times a
  // second, and says on fd 2 what of them runs without the library, and why; of each file once. What ends sooner is not
  // seen.
  void watch_while(pid_t child);

 private:
  struct Seen {
    std::string file;    // that it executes
    unsigned looks = 0;  // since then
  };

  void look_at(pid_t process);
  std::string reason(pid_t process, const std::string& file) const;

  const Library& library_;
  std::map<pid_t, Seen> seen_;
  std::set<std::string> told_;
};

}  // namespace freeway_command
