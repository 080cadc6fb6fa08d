// SPDX-License-Identifier: MIT
// fault_signal.h: SIGSEGV and SIGBUS while blocks are guarded: explained, then the program's.
//
// The kernel calls an entry of ours in the place of the program's handler, with the program's flags and mask: on its
// alternate stack, with what it wants blocked, once only if it says so. The entry explains what is to be explained and
// calls the handler that it stands for (handler_table.h) with all that it got itself. One entry stands for no handler:
// it puts the default back and returns: the instruction faults again, and the process ends as it would have, with that
// instruction in its core file.
//
// Who is told of an entry in the place of a handler has one that does what the handler does, and does so for ever: it
// may be called, kept, and set again by whatever function. So nothing depends on who else sets handlers, or how: no
// handler is called that would not have been without us, and a chain of handlers is as long as it would have been.
//
// Words     the kernel's action of each signal is all there is; which handler an entry stands for never changes.
//           watching: 0 -> 1, for good: from then on the program's handlers get entries
// Moves     watch_faults: what is there at start gets an entry in front. What others set meanwhile gets one, too, and
//           stays (change_by_exchange); whoever comes second in watch_faults finds nothing to do. The program's own
//           calls (abi/signals): one call of the kernel, with an entry in the place of the handler. Where there is no
//           entry left the handler is set as it is, and its faults are not explained
// Who       anybody: threads, signal handlers, children of any kind
// Lost if killed: in watch_faults: a signal's faults are not explained, or, right after another thread set a handler, that
//           one is not set yet
// Checked   tests/guard, tests/unit/guard_handlers_test.cc
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
