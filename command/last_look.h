// SPDX-License-Identifier: MIT
// last_look.h: a look into a child before a signal ends it.
//
// A signal from the terminal goes to the child itself, and not by way of this command. So this command traces the
// child's first thread, which takes such signals first: the kernel asks the tracer what is to become of each. One that
// would end the child is held back until the child has been looked at. All others are passed on.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace freeway_command {

class LastLook {
 public:
  // The child waits to be traced: hold_next(), let_begin() (attend.h). `look` is called at most once, with the signal,
  // by the thread that traces the child, whose first thread is stopped.
  LastLook(pid_t child, std::function<void(int signal)> look);
  // Waits until the child has ended, or was let go.
  ~LastLook();
  LastLook(const LastLook&) = delete;
  LastLook& operator=(const LastLook&) = delete;

  // From now on the child is not traced; nothing is looked at any more. Any thread but that of `look`.
  void let_go();

 private:
  void watch();
  bool take_stop(int status);

  const pid_t child_;
  const std::function<void(int)> look_;
  std::atomic<bool> leave_ = false, left_ = false;
  std::thread watcher_;
};

}  // namespace freeway_command
