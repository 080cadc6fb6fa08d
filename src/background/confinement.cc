// SPDX-License-Identifier: MIT
// confinement.cc: the filter is a program for the kernel's classic packet filter: it walks through the allowed system
// calls.
#include "background/confinement.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

#include "os/kernel_release.h"
#include "os/process.h"
#include "os/syscall.h"

namespace freeway {

constexpr char kThreadsFolder[] = "/proc/self/task";
constexpr char kProgramLink[] = "/proc/self/exe";
constexpr char kProcessFile[] = "/proc/self/stat";

namespace {

constexpr u32 kArchitecture = kThisProcessor == Processor::kX86_64 ? AUDIT_ARCH_X86_64 : AUDIT_ARCH_AARCH64;

// Calls to give memory back, to wait, to end, and for a failed check to write its line and abort.
constexpr u16 kAllowed[] = {
    SYS_madvise,       SYS_membarrier, SYS_mincore,    SYS_munmap,         SYS_rt_sigtimedwait, SYS_restart_syscall,
    SYS_clock_gettime, SYS_futex,      SYS_getpid,     SYS_gettid,         SYS_getcpu,          SYS_write,
    SYS_read,          SYS_exit,       SYS_exit_group, SYS_rt_sigprocmask, SYS_rt_sigaction,    SYS_rt_sigreturn,
};

constexpr u32 kRefused = SECCOMP_RET_ERRNO | EPERM;

// The filter's instructions, one after the other.
class Filter {
 public:
  void load(std::size_t offset) { add({BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<u32>(offset)}); }
  // Skips `skipped` instructions unless the loaded word is `value`.
  void unless(u32 value, u8 skipped) { add({BPF_JMP | BPF_JEQ | BPF_K, 0, skipped, value}); }
  // Refuses everything unless the loaded word is `value`.
  void only(u32 value) {
    add({BPF_JMP | BPF_JEQ | BPF_K, 1, 0, value});
    answer(kRefused);
  }
  void answer(u32 what) { add({BPF_RET | BPF_K, 0, 0, what}); }
  void load_number() { load(offsetof(seccomp_data, nr)); }
  // Allows system call `number` if its argument `n` is `value`.
  void allow_with(u32 number, unsigned n, u64 value) {
    const std::size_t at = offsetof(seccomp_data, args) + n * sizeof(u64);  // the low half first: little-endian
    unless(number, 6);
    load(at);
    unless(static_cast<u32>(value), 3);
    load(at + 4);
    unless(static_cast<u32>(value >> 32), 1);
    answer(SECCOMP_RET_ALLOW);
    load_number();
  }
  bool install() {
    const sock_fprog program = {static_cast<u16>(count_), code_};
    return raw_syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, reinterpret_cast<u64>(&program)) == 0;
  }

 private:
  void add(sock_filter instruction) { code_[count_++] = instruction; }
  sock_filter code_[80];
  unsigned count_ = 0;
};

}  // namespace

bool confine() {
  if (raw_syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  Filter filter;
  filter.load(offsetof(seccomp_data, arch));
  filter.only(kArchitecture);
  filter.load_number();
  for (const u16 number : kAllowed) {
    filter.unless(number, 1);
    filter.answer(SECCOMP_RET_ALLOW);
  }
  filter.allow_with(SYS_tgkill, 0, process::id());
  filter.allow_with(SYS_newfstatat, 1, reinterpret_cast<u64>(kThreadsFolder));
  filter.allow_with(SYS_readlinkat, 1, reinterpret_cast<u64>(kProgramLink));
  filter.allow_with(SYS_openat, 1, reinterpret_cast<u64>(kProcessFile));
  filter.answer(kRefused);
  return filter.install();
}

}  // namespace freeway
