// SPDX-License-Identifier: MIT
// held.h: processes that wait, when they end, until they have been looked into: FREEWAY_PROFILE=...,dump=hold:SOCKET.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace freeway_command {

// A socket in a folder of this user's. Whoever connects to it waits for the end of the connection. When this object
// goes, or this command does, nobody waits any more.
class Held {
 public:
  Held();
  ~Held();
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

  const std::string& fault() const { return fault_; }  // why there is no such socket; empty: there is one
  const std::string& path() const { return path_; }
  // Until the child has ended: calls f(process) for each process that waits, and lets it go on.
  void look_while(pid_t child, const std::function<void(pid_t)>& f) const;

 private:
  bool look_at_next(const std::function<void(pid_t)>& f) const;
  std::string folder_, path_, fault_;
  int listener_ = -1;
};

}  // namespace freeway_command
