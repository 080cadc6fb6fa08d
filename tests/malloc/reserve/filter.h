// SPDX-License-Identifier: MIT
//
// filter.h: from forbid_system_calls on, the kernel kills the process at any system call of the calling thread but
// those by which a test waits, counts, speaks and ends.
#ifndef FREEWAY_TESTS_RESERVE_FILTER_H
#define FREEWAY_TESTS_RESERVE_FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace freeway::test {

inline constexpr unsigned kAllowed[] = {SYS_getrusage,       SYS_sched_yield, SYS_clock_gettime, SYS_write,
                                        SYS_clock_nanosleep, SYS_exit_group,  SYS_rt_sigreturn};

// False where the kernel has no filters, or refuses one.
inline bool forbid_system_calls() {
  constexpr unsigned kCount = sizeof(kAllowed) / sizeof(kAllowed[0]);
  sock_filter filter[kCount + 3] = {};
  unsigned at = 0;
  filter[at++] = BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr));
  for (unsigned i = 0; i < kCount; ++i)
    filter[at++] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kAllowed[i], static_cast<unsigned char>(kCount - i), 0);
  filter[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  filter[at++] = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  const sock_fprog program = {static_cast<unsigned short>(at), filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_RESERVE_FILTER_H
