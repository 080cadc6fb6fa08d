// SPDX-License-Identifier: MIT
// helper_thread.h: speaking to the thread that FREEWAY_BACKGROUND=1 gives a process (src/background/helper.h), from
// outside: it needs no more than permission to send the process signals, and works while all other threads are stopped.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace freeway_command {

// The helper of the process; 0 if it has none, or there is no such process.
pid_t helper_of(pid_t process);

// Has it give back all but about `keep` bytes of what is free; an errno, or 0. Returns before it is done.
int order_trim(pid_t process, pid_t helper, std::size_t keep);
// Whether it was told something that it has not looked at yet.
bool has_order(pid_t process, pid_t helper);
// Whether it has done all that it was told.
bool is_done(pid_t process, pid_t helper);

}  // namespace freeway_command
