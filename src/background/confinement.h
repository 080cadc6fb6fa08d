// SPDX-License-Identifier: MIT
// confinement.h: a thread gives up all its rights, but for a few system calls.
//
// Why       setuid() of the C library reaches the threads that it knows, and a program that confines itself confines
//           the threads that it made. A thread that Freeway made would keep the rights it began with. So it gives them
//           up, for good, before it does anything. An attacker who writes into its memory gains a thread that can give
//           memory back
// Price     the kernel then refuses a program's filter for all threads at once (SECCOMP_FILTER_FLAG_TSYNC)
#pragma once

namespace freeway {

// The only paths that a confined thread may name, by exactly these addresses.
extern const char kThreadsFolder[], kProgramLink[], kProcessFile[];

// Confines the calling thread. False: the kernel, or a filter, refused; nothing has changed but that exec gives it no
// new rights.
bool confine();

}  // namespace freeway
