// SPDX-License-Identifier: MIT
// signal_action.h: the kernel's calls about signals, and the facts in a fault's context, without the C library's
// functions, which others may interpose. errno is kept.
#pragma once

#include <signal.h>

#include "base/integers.h"

namespace freeway {

// The kernel's struct sigaction: a signal's disposition (64-bit signal sets).
struct SignalAction {
  u64 handler = 0;  // 0: the default; 1: ignored
  u64 flags = 0;
  u64 restorer = 0;
  u64 mask = 0;

  // Equal but for the restorer.
  static constexpr u64 kRestorer = 0x04000000;  // SA_RESTORER, of flags
  bool operator==(const SignalAction& other) const {
    return handler == other.handler && mask == other.mask && ((flags ^ other.flags) & ~kRestorer) == 0;
  }
};
// False: refused. `change` and `old` may be null.
bool signal_action(int number, const SignalAction* change, SignalAction* old);
// Sends this thread the signal once more, with `info` if that is not null. It comes when it is no longer blocked.
// False: refused.
bool send_again(int number, const siginfo_t* info);

// Whether the kernel gave these to a handler: two parts of one frame on the stack. A program that found our handler may
// call it with the signal's number alone.
bool are_from_kernel(const siginfo_t* info, const void* ucontext);

// While it lives, a write into a pipe or socket without a reader ends in an error and nothing else, if drop() is called
// after it: SIGPIPE is blocked, and drop() takes the one that the write sent this thread. One that was pending before
// stays pending.
class HeldPipeSignal {
 public:
  HeldPipeSignal();
  ~HeldPipeSignal();
  HeldPipeSignal(const HeldPipeSignal&) = delete;
  HeldPipeSignal& operator=(const HeldPipeSignal&) = delete;
  void drop();

 private:
  u64 before_ = 0;  // the signals that were blocked
  bool held_ = false, was_waiting_ = false;
};

struct FaultContext {
  uptr pc = 0;        // of the instruction
  char access = '?';  // 'r', 'w'; '?': the machine does not say
};
FaultContext fault_context(const void* ucontext);

}  // namespace freeway
