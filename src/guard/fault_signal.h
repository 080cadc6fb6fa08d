// SPDX-License-Identifier: MIT
// fault_signal.h: SIGSEGV and SIGBUS while blocks are guarded: explained, then the program's.
//
// The kernel calls on_fault in the place of the program's handler, with the program's flags and mask: on its alternate
// stack, with what it wants blocked, once only if it says so. on_fault explains what is to be explained and calls the
// program's handler with all that it got itself. Where the program has none, it puts the default back and returns: the
// instruction faults again, and the process ends as it would have, with that instruction in its core file.
//
// Words     kept: the program's handler of each of the two signals | 1 << 63: it takes the signal's number alone. 0: none
// Moves     watch_faults: what is there at start; the program's own calls (abi/signals): exchange, then the kernel is told. Two
//           threads that set the same signal's handler at the same time may leave the one's handler with the other's flags
// Who       anybody. In a child (another process number than at start) the program's calls go to the kernel as they are:
//           a child of vfork has its parent's memory and must leave `kept` alone. Its faults are explained until it sets
//           a handler
// Lost if killed: between word and kernel: the change is half done, as if killed before the call or after it
// Checked   tests/guard
#pragma once

#include <signal.h>

#include "base/compiler.h"

namespace freeway::guard {

// Begins, unless the program ignores these signals (exec passes that on, but not a handler).
void watch_faults();

// Whether the program's calls about this signal go through exchange_action.
bool is_watched(int number);
using SetAction = int(int number, const struct sigaction* change, struct sigaction* old);
// The program's sigaction of a watched signal; `set` is the C library's.
int exchange_action(int number, const struct sigaction* change, struct sigaction* old, SetAction* set);

}  // namespace freeway::guard
