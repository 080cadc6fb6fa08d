// SPDX-License-Identifier: MIT
// injected_call.h: a call of one of the library's signal-safe functions in a running process, as a debugger makes it.
//
// Why that is sound. The function may be called in a signal handler at any instruction, and waits for no thread
// (GUARANTEES.md); a call between two instructions of a thread is no more than that, and one thread is enough. What
// else the thread has must be as before:
//
//   registers    all are read before and written back, the vector ones too
//   its stack    is not touched: it may be a coroutine's, or used up. The call has one of its own, mapped for it
//   its signals  wait, but for those of faults, so that no handler of the program's runs on that stack
//   a section    that is restartable (rseq): the kernel forgets it when the thread runs elsewhere, so the thread goes
//                on at the section's abort address, where the kernel would have sent it
//   a system call that the stop has interrupted: nothing that looks like one is left while the thread does something
//                else (orig_rax), and the last stop is one behind which the kernel takes up system calls again. Those
//                that it ends with EINTR instead are made once more, unless a signal is there for the program to see:
//                a signal that comes later is one that came just before the call
//   seccomp      a filter may kill for what the process has not needed yet: where there is one, only calls that malloc
//                itself makes are let through, and the others are answered as refused, which the library may always
//                expect
//
// All of that is by stops of system calls: no signal is made, whose handling the program may have changed. While the
// call lasts this process must not be killed (SIGKILL): the thread would go on in the middle of it. Other signals wait.
//
// A thread that does not stop within 3 s, or does not go on, is let go, and another one is tried, for 10 s in all. Once
// the function has begun nothing can be given up: if the process is frozen then, this waits until it is thawed.
//
// Checked   tests/command/inject_test.py
#pragma once

#include <cstdint>
#include <string>

#include "heap/memory.h"

namespace freeway_command {

// Calls the function of that name, which libfreeway.so exports, in a thread of the process; its result. Throws Failure
// where there is no thread in which that can be done, and says why; `instead`: what to do where there can be none.
std::uint64_t call_in(const Memory& memory, const std::string& function, std::uint64_t argument,
                      const std::string& instead);

}  // namespace freeway_command
