// SPDX-License-Identifier: MIT
// fault_signal.h: explains SIGSEGV and SIGBUS while blocks are guarded, and passes them on.
//
// Our handler is set once, at start, in front of the existing one: with its flags and its mask, so it runs on the same
// stack, blocks the same signals, and is reset if the flags say so. It explains the fault if it can, and calls the
// earlier handler with the same arguments. If that is the default, it puts the default back and sends the signal again:
// the process ends as it would have, with the faulting instruction in its core file.
//
// A handler that the program sets later replaces ours, and its faults are not explained; unless it calls the earlier
// one, which is ours.
//
// Words     started: 0 -> 1 (exchange), for good: the first thread sets both handlers
//           before, one a signal: the handler that was there; stored before ours is set
// Who       watch_faults: any thread; the handler: any thread, any child
// Lost if killed: in watch_faults: a signal's faults are not explained, or, right after another thread set a handler,
//           that one is not set yet
// Checked   tests/harden/guard
#pragma once

namespace freeway::guard {

// Begins to watch, unless the program ignores these signals (exec passes that on, but not a handler).
void watch_faults();

}  // namespace freeway::guard
