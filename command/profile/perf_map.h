// SPDX-License-Identifier: MIT
// perf_map.h: names of code that no file has: what a compiler at run time (Node, Java, Python with -X perf) writes to
// /tmp/perf-PID.map for tools like this one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace freeway_profile {

class PerfMap {
 public:
  // Of the process with this number, if it has such a file. Lines "START LENGTH NAME", hexadecimal; others are passed
  // over. Of code that was written over other code the later line counts.
  explicit PerfMap(std::uint64_t pid);
  // Empty: not known.
  std::string name_at(std::uint64_t address) const;

 private:
  struct Code {
    std::uint64_t end;
    std::string name;
  };
  std::map<std::uint64_t, Code> by_start_;
};

}  // namespace freeway_profile
