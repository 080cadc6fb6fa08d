// SPDX-License-Identifier: MIT
// stopped.h: a process all of whose threads stand still.
#pragma once

#include "heap/memory.h"

namespace freeway_command {

// Stops a process with its first thread to its last, and lets it go on as it was when this object goes, or the thread
// that made it does, however that ends: the kernel lets go whom a tracer leaves. So who lives on after a failure, or
// after the process was killed meanwhile, makes it in a thread for that purpose. A system call that was interrupted is
// taken up again; signals that come meanwhile are handed on.
class Stopped {
 public:
  // Throws Failure if it may not be traced, or ends. `signal`, if there is one: the calling thread traces the first
  // thread already, and has stopped it when it was about to take that signal (last_look.h).
  explicit Stopped(int pid, int signal = 0);
  ~Stopped();
  Stopped(const Stopped&) = delete;
  Stopped& operator=(const Stopped&) = delete;

  const std::vector<Thread>& threads() const { return threads_; }

 private:
  bool stop(int thread);
  bool wait_for(int thread, int& signal) const;
  void let_go() const;

  struct Held {
    int thread;
    int signal;  // that it was about to take when it stopped
  };
  int pid_, signal_;
  std::vector<Held> held_;
  std::vector<Thread> threads_;
};

}  // namespace freeway_command
