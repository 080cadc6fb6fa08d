// SPDX-License-Identifier: MIT
// fiber.h: a stack of its own and a switch to and from it: what a model thread runs on.
//
// The explorer restarts its threads at each of millions of executions and switches at each atomic operation, so both
// must cost nanoseconds: no system call, no signal mask. A fiber that is in the middle of something is simply left
// lying and started anew; therefore nothing on its stack may need a destructor.
#pragma once

#include <cstddef>
#include <memory>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace freeway::model {

class Fiber {
 public:
  static constexpr std::size_t kStackBytes = 128 * 1024;
  using Entry = void (*)(int argument);

  Fiber();
  // The next resume() starts `entry(argument)`, which must never return: it ends by a last leave().
  void restart(Entry entry, int argument);
  // Runs the fiber until it calls leave(). Called outside of all fibers.
  void resume();
  // Back to the caller of resume(). Called inside the fiber.
  void leave();

 private:
  static void trampoline();

  std::unique_ptr<char[]> stack_;
  Entry entry_ = nullptr;
  int argument_ = 0;
#if defined(__x86_64__)
  void* inside_ = nullptr;   // stack pointer of the fiber while it is left
  void* outside_ = nullptr;  // of the resumer while the fiber runs
#else
  ucontext_t inside_, outside_;
#endif
};

}  // namespace freeway::model
