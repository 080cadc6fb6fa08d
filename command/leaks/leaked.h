// SPDX-License-Identifier: MIT
// leaked.h: what has leaked: as a line, as a table, and as a heap profile that has nothing else in it.
#pragma once

#include <map>

#include "heap/dump_text.h"

namespace freeway_command {

// The leaked blocks of one stack.
struct LeakingSite {
  Site site;
  Tally direct, indirect;  // indirect: other leaked blocks have pointers to them
  std::uint64_t age = 0;   // sum, ms
};

struct Leaks {
  std::string program;
  int pid = 0;
  std::uint64_t interval = 0;                   // bytes between two samples; 1: all blocks are
  std::uint64_t looked_at = 0;                  // sampled blocks
  std::uint64_t lost = 0;                       // samples that found no room
  Tally direct, indirect;                       // of samples
  double blocks = 0, bytes = 0, deviation = 0;  // what they stand for; what `bytes` may be off by
  std::map<std::uint64_t, LeakingSite> sites;
  std::string profile;  // freeway-profile(5)
  std::vector<Mapping> mappings;

  bool any() const { return direct.blocks + indirect.blocks != 0; }
};

// Of a process that stands still. Throws Failure where there is no profile.
Leaks find_leaks(const Memory& memory, const std::vector<Thread>& threads);
// The same of a running process, which stands still meanwhile. `signal`: see stopped.h.
Leaks find_leaks(int pid, int signal = 0);

// Prints the line, and the stacks of what has leaked: to standard output or standard error. `head` goes before the
// line.
void print_leaks(const Leaks& leaks, int fd, const std::string& head);
// To that file, or to a new one, PREFIX.PID.heap, or PREFIX.PID.2.heap and so on (os/output_file.h). Throw Failure.
void write_profile(const Leaks& leaks, const std::string& path);
void write_profile_of(const Leaks& leaks, const std::string& prefix, int pid);

}  // namespace freeway_command
