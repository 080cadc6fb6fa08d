// SPDX-License-Identifier: MIT
#include "background/bare_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "background/confinement.h"
#include "os/kernel_release.h"
#include "os/process.h"
#include "os/rseq_area.h"
#include "os/syscall.h"
#include "os/vm.h"

extern "C" FREEWAY_HIDDEN long freeway_bare_clone(freeway::u64 flags, freeway::uptr stack,
                                                  freeway::Atomic<freeway::u32>* word, freeway::uptr thread_pointer,
                                                  int (*f)());

namespace freeway::bare_thread {

namespace {

constexpr std::size_t kGuardBytes = 64 * kKiB;
constexpr std::size_t kStackBytes = 64 * kKiB;
constexpr std::size_t kLiveBytes = kWordBytes + kGuardBytes;  // the thread's part begins here
constexpr std::size_t kPhase = 4096;                          // more than any thread-local variable's alignment
// Room for the C library's data beside the thread pointer (glibc 2.36: 2304 bytes), and for thread-local variables
// beside those that extent() looks at.
constexpr std::size_t kMargin = 16 * kKiB;
constexpr u64 kSignalBytes = 8;  // of the kernel's sigset_t
constexpr std::size_t kMostCpus = 8192;

uptr own_thread_pointer() { return reinterpret_cast<uptr>(__builtin_thread_pointer()); }

// The furthest that the thread-local variables that Freeway touches lie below and above the thread pointer. Its own lie
// side by side.
struct Extent {
  std::size_t below = kMargin, above = kMargin;
  void cover(i64 offset) {
    if (offset < 0 && static_cast<u64>(-offset) + kMargin > below) below = static_cast<u64>(-offset) + kMargin;
    if (offset > 0 && static_cast<u64>(offset) + kMargin > above) above = static_cast<u64>(offset) + kMargin;
  }
};

Extent extent() {
  Extent all;
  all.cover(static_cast<i64>(reinterpret_cast<uptr>(&errno) - own_thread_pointer()));
  all.cover(process::rseq_decoy_offset());
  all.cover(process::own_rseq().offset);
  all.cover(process::rseq().offset);
  return all;
}

std::size_t block_bytes() {
  const Extent local = extent();
  return align_up(kLiveBytes + kStackBytes + local.below + local.above + 2 * kPhase, 64 * kKiB);
}

uptr thread_pointer_in(uptr block) {
  const uptr lowest = block + kLiveBytes + kStackBytes + extent().below;
  return align_up(lowest, kPhase) + own_thread_pointer() % kPhase;
}

// Fills the fields beside the thread pointer that the C library's and the compiler's code reads.
void fill_head(uptr thread_pointer) {
  if constexpr (kThisProcessor != Processor::kX86_64) return;
  constexpr std::size_t kSelf[] = {0, 16}, kShared[] = {0x28, 0x30};  // the stack's canary, the key of mangled pointers
  for (const std::size_t at : kSelf) *reinterpret_cast<uptr*>(thread_pointer + at) = thread_pointer;
  for (const std::size_t at : kShared)
    *reinterpret_cast<u64*>(thread_pointer + at) = *reinterpret_cast<const volatile u64*>(own_thread_pointer() + at);
}

}  // namespace

uptr make_block() {
  const std::size_t bytes = block_bytes();
  const uptr block = vm::map(bytes, 64 * kKiB);
  if (block == 0) return 0;
  vm::prefer_small(block, bytes);
  const vm::Answer wiped = vm::wipe_on_fork(block, bytes);
  if (wiped == vm::Answer::kDone && vm::forbid(block + kWordBytes, kGuardBytes)) return block;
  vm::release(block, bytes);
  return wiped == vm::Answer::kNotOffered ? kNoSupport : 0;
}

void drop_block(uptr block) {
  if (block != 0 && block != kNoSupport) vm::release(block, block_bytes());
}

bool make(uptr block, Atomic<u32>& word, int (*f)()) {
  const uptr live = block + kLiveBytes;
  if (!vm::purge(live, block_bytes() - kLiveBytes)) return false;  // an earlier thread may have used it
  const uptr thread_pointer = thread_pointer_in(block);
  fill_head(thread_pointer);
  process::deny_rseq(thread_pointer);
  constexpr u64 kFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
                         CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  return freeway_bare_clone(kFlags, live + kStackBytes, &word, thread_pointer, f) > 0;
}

SignalsBlocked::SignalsBlocked() {
  const u64 all = ~u64{0};
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<u64>(&all), reinterpret_cast<u64>(&before_),
              kSignalBytes);
}
SignalsBlocked::~SignalsBlocked() {
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<u64>(&before_), 0, kSignalBytes);
}

void introduce(const char* name) {
  process::become_bare();
  const sched_param plain = {};
  u64 cpus[kMostCpus / 64];
  const long bytes = raw_syscall(SYS_sched_getaffinity, process::id(), sizeof(cpus), reinterpret_cast<u64>(cpus));
  if (bytes > 0) raw_syscall(SYS_sched_setaffinity, 0, static_cast<u64>(bytes), reinterpret_cast<u64>(cpus));
  raw_syscall(SYS_prctl, PR_SET_NAME, reinterpret_cast<u64>(name));
  raw_syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, reinterpret_cast<u64>(&plain));
}

// The folder of threads has a link for each, and two. The process's first thread stays listed when it has ended, but
// then has no program.
int status_if_last() {
  struct stat threads = {};
  char text[1024];
  const auto here = static_cast<u64>(AT_FDCWD);
  const long known =
      raw_syscall(SYS_newfstatat, here, reinterpret_cast<u64>(kThreadsFolder), reinterpret_cast<u64>(&threads), 0);
  if (known != 0 || threads.st_nlink != 4) return -1;
  const long program =
      raw_syscall(SYS_readlinkat, here, reinterpret_cast<u64>(kProgramLink), reinterpret_cast<u64>(text), 1);
  if (program != -ENOENT) return -1;
  // The file is opened only now: in a program that still runs, its descriptor might take a number that the program
  // needs.
  const long file = raw_syscall(SYS_openat, here, reinterpret_cast<u64>(kProcessFile), O_RDONLY | O_CLOEXEC, 0);
  const long bytes =
      file < 0 ? 0 : raw_syscall(SYS_read, static_cast<u64>(file), reinterpret_cast<u64>(text), sizeof(text));
  u64 status = 0, factor = 1;
  for (long i = bytes - 1; i >= 0 && text[i] != ' '; --i) {  // the last number in the file, as waitpid gives it
    if (text[i] < '0' || text[i] > '9') continue;
    status += static_cast<u64>(text[i] - '0') * factor;
    factor *= 10;
  }
  return static_cast<int>(status >> 8 & 0xff);
}

Request wait(u64 ns) {
  const u64 signals = u64{1} << (kSignal - 1);
  const timespec time = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  siginfo_t info = {};
  const long got = raw_syscall(SYS_rt_sigtimedwait, reinterpret_cast<u64>(&signals), reinterpret_cast<u64>(&info),
                               reinterpret_cast<u64>(&time), kSignalBytes);
  if (got != kSignal) return {.failed = got != -EAGAIN && got != -EINTR};
  const bool is_order = info.si_code == SI_QUEUE;
  return {false, is_order, is_order ? reinterpret_cast<u64>(info.si_value.sival_ptr) : 0};
}

bool wake(u64 process, u32 thread) { return raw_syscall(SYS_tgkill, process, thread, kSignal) == 0; }

}  // namespace freeway::bare_thread
