// SPDX-License-Identifier: MIT
// fault_signal.h: SIGSEGV and SIGBUS while blocks are guarded: explained, then passed on.
//
// Our handler is set once, at start, in front of what is there: with its flags and its mask, so it runs on its stack,
// blocks what it wants blocked, and is reset if it says so. It explains what is to be explained, and calls the handler
// that was there with all that it got itself. Where that is the default, it puts the default back and sends the signal
// again: the process ends as it would have, with that instruction in its core file.
//
// A handler that the program sets later takes the place of ours, and its faults are not explained; unless it calls the
// one before it, which is ours.
//
// Words     started: 0 -> 1 (exchange), for good: who is first sets both handlers
//           before, one a signal: the handler that was there; stored before ours is set
// Who       watch_faults: any thread; the handler: any thread, any child
// Lost if killed: in watch_faults: a signal's faults are not explained, or, right after another thread set a handler,
//           that one is not set yet
// Checked   tests/guard
#pragma once

namespace freeway::guard {

// Begins, unless the program ignores these signals (exec passes that on, but not a handler).
void watch_faults();

}  // namespace freeway::guard
