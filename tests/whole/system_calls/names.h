// SPDX-License-Identifier: MIT
//
// names.h: the names of the system calls that the library and its engines make, and what is known about each.
#ifndef FREEWAY_TESTS_SYSTEM_CALLS_NAMES_H
#define FREEWAY_TESTS_SYSTEM_CALLS_NAMES_H

#include <sys/syscall.h>

#include <cstddef>

namespace freeway_test {

struct SystemCall {
  size_t number;
  const char* name;
  bool may_be_absent;  // on old kernels, on kernels built without it, in sandboxes
};

inline constexpr SystemCall kSystemCalls[] = {
    {SYS_mmap, "mmap", false},
    {SYS_munmap, "munmap", false},
    {SYS_mprotect, "mprotect", false},
    {SYS_mremap, "mremap", true},
    {SYS_madvise, "madvise", true},
    {SYS_mincore, "mincore", true},
    {SYS_membarrier, "membarrier", true},
    {SYS_rseq, "rseq", true},
    {SYS_sched_getaffinity, "sched_getaffinity", true},
    {SYS_prlimit64, "prlimit64", true},
    {SYS_personality, "personality", true},
    {SYS_getrandom, "getrandom", true},
    {SYS_clock_gettime, "clock_gettime", true},
    {SYS_getcpu, "getcpu", true},
    {SYS_gettid, "gettid", true},
    {SYS_get_mempolicy, "get_mempolicy", true},
    {SYS_mbind, "mbind", true},
    {SYS_sched_yield, "sched_yield", true},
    {SYS_write, "write", false},
    {SYS_openat, "openat", false},
    {SYS_read, "read", false},
    {SYS_close, "close", false},
    {SYS_fstat, "fstat", false},
    {SYS_newfstatat, "newfstatat", false},
    {SYS_fcntl, "fcntl", false},
    {SYS_pread64, "pread64", false},
    {SYS_pwrite64, "pwrite64", false},
    {SYS_ftruncate, "ftruncate", false},
    {SYS_fallocate, "fallocate", true},
    {SYS_ioctl, "ioctl", false},
    {SYS_futex, "futex", false},
    {SYS_vfork, "vfork", false},
    {SYS_fork, "fork", false},
    {SYS_clone, "clone", false},
    {SYS_clone3, "clone3", false},
    {SYS_rt_sigprocmask, "rt_sigprocmask", false},
    {SYS_rt_sigaction, "rt_sigaction", false},
    {SYS_getpid, "getpid", false},
    {SYS_tgkill, "tgkill", false},
};

inline const SystemCall* find_system_call(size_t number) {
  for (const SystemCall& call : kSystemCalls)
    if (call.number == number) return &call;
  return nullptr;
}
inline const char* name_of(size_t number) {
  const SystemCall* call = find_system_call(number);
  return call != nullptr ? call->name : "a call without a name in names.h";
}
inline bool may_be_absent(size_t number) {
  const SystemCall* call = find_system_call(number);
  return call != nullptr && call->may_be_absent;
}
inline bool is_write(size_t number) { return number == SYS_write; }

}  // namespace freeway_test
#endif
