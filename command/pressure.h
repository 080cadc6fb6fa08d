// SPDX-License-Identifier: MIT
// pressure.h: `freeway run --pressure`: whoever is short of memory is given what the program does not need.
#pragma once

#include <sys/types.h>

#include <string>

namespace freeway_command {

// What says that memory is short: the file of systemd's protocol (MEMORY_PRESSURE_WATCH, MEMORY_PRESSURE_WRITE), else
// the control group's memory.pressure, else the machine's.
class Pressure {
 public:
  Pressure();
  ~Pressure();
  Pressure(const Pressure&) = delete;
  Pressure& operator=(const Pressure&) = delete;

  // Why nothing can be watched, as half a sentence; empty if something is.
  const std::string& fault() const { return fault_; }
  // Until process `child` has ended (it is not waited for): whenever memory is short, has it and all that descend from
  // it give back what they can.
  void relieve_while(pid_t child) const;

 private:
  bool open_file(const std::string& path, const std::string& order);
  int file_ = -1;
  short event_ = 0;
  std::string fault_;
};

}  // namespace freeway_command
