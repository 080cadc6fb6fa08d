// SPDX-License-Identifier: MIT
// confinement.h: a thread gives up all it could do, but for a few system calls.
//
// Why       setuid() of the C library reaches the threads that it knows, and a program that confines itself thinks of the
//           threads that it made. One that Freeway made keeps the rights it was born with: so they are taken from it before
//           it does anything, for good. What writes into its memory later gains a thread that can give back memory
// Price     a program's own filter for all threads at once (SECCOMP_FILTER_FLAG_TSYNC) is refused beside it
#pragma once

namespace freeway {

// The only paths that a confined thread may name, by these very addresses.
extern const char kThreadsFolder[], kProgramLink[], kProcessFile[];

// Confines the calling thread. False: the kernel, or a filter, refused; nothing has changed but that it gains no rights by
// exec.
bool confine();

}  // namespace freeway
