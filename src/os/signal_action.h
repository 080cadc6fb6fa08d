// SPDX-License-Identifier: MIT
// signal_action.h: the kernel's sigaction, and what a fault's context tells, without the C library's functions (which the
// library itself stands in front of).
#pragma once

#include <signal.h>

#include "base/integers.h"

namespace freeway {

// What the kernel does with a signal: its struct sigaction (64-bit signal sets).
struct SignalAction {
  u64 handler = 0;  // 0: the default; 1: ignored
  u64 flags = 0;
  u64 restorer = 0;
  u64 mask = 0;
};
// False: refused. `change` and `old` may be null.
bool signal_action(int number, const SignalAction* change, SignalAction* old);
// Sends this thread the signal that `info` tells of once more. It comes when it is not blocked any more. False: refused.
bool send_again(int number, const siginfo_t& info);

struct FaultContext {
  uptr pc = 0;        // of the instruction
  char access = '?';  // 'r', 'w'; '?': the machine does not say
};
FaultContext fault_context(const void* ucontext);

}  // namespace freeway
