// SPDX-License-Identifier: MIT
// thread_exit.h: calls a function when a thread ends, for engines whose paper has heaps of threads, and for C libraries
// that unmap a thread's memory before the thread is gone (rseq_area.h).
//
// By a key of thread-specific data, as the papers do it: its destructor runs when a thread returns, is cancelled or
// calls pthread_exit; not when it vanishes (raw exit, kill), and not in the thread that ends the process.
//
// Word      key: 0 -> key + 1 (CAS); the loser of a race deletes its key
// Lost if killed: a key (a process has 1024)
#pragma once

#include "base/integers.h"

namespace freeway::thread_exit {

// Has `at_exit(argument)` called when the calling thread ends: once for each call of watch. A process has one at_exit:
// the first that was given. False: no key or no memory for it (libc may allocate for keys after the 32nd). Calls of
// malloc and free may still follow at_exit, from other destructors; these may call watch again, up to
// PTHREAD_DESTRUCTOR_ITERATIONS (4) rounds.
bool watch(void (*at_exit)(void*), void* argument);

}  // namespace freeway::thread_exit
