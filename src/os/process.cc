// SPDX-License-Identifier: MIT
#include "os/process.h"

#include "arch/rseq_place.h"

#include <errno.h>  // also program_invocation_short_name
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/auxv.h>
#include <sys/utsname.h>
#include <time.h>

#include "arch/rseq_layout.h"
#include "arch/tsan.h"
#include "os/kernel_release.h"
#include "os/machine.h"
#include "os/syscall.h"
#include "os/text_file.h"
#include "sync/lives.h"

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

// Absent before glibc 2.35, which registered no rseq.
extern "C" {
extern const unsigned int __rseq_size __attribute__((weak));
extern const std::ptrdiff_t __rseq_offset __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));  // since glibc 2.32
}

namespace freeway::process {

namespace {
constexpr unsigned kMostNodes = 1024;  // the most that Linux can have
}

Rseq rseq() {
  Rseq result;
  result.has_mm_cid = getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID + sizeof(u32);
  if (&__rseq_size == nullptr || __rseq_size == 0) return result;
  result.offset = __rseq_offset;
  result.registered = is_registered(static_cast<u64>(result.offset));
  // __rseq_size is 20 or 28 where glibc registered 32 bytes and the kernel fills in more; a number beyond 32 is the
  // length that glibc registered with, and that the kernel expects again.
  result.bytes = __rseq_size > kRseqBytes ? __rseq_size : kRseqBytes;
  return result;
}

bool is_registered(u64 offset) { return rseq_is_registered(offset); }

bool kernel_restarts_sections() {
  if constexpr (kThisProcessor == Processor::kX86_64) return true;
  utsname name{};
  raw_syscall(SYS_uname, reinterpret_cast<u64>(&name));
  return restarts_sections(kThisProcessor, name.release);
}

unsigned cpu_mask(u64 (&mask)[kMaskWords]) {
  const long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof(mask), reinterpret_cast<u64>(mask));
  return bytes <= 0 ? 0 : static_cast<unsigned>(bytes) / 8;
}

Cpus cpus() {
  // The kernel answers with the bytes of its CPU mask, whose bits are all the numbers it can have.
  u64 mask[RSEQ_IDS / 64];
  const long bytes = raw_syscall(SYS_sched_getaffinity, 0, sizeof(mask), reinterpret_cast<u64>(mask));
  if (bytes == -EINVAL) return {2 * RSEQ_IDS, RSEQ_IDS};  // the kernel's mask is longer
  if (bytes <= 0) return {RSEQ_IDS, 1};                   // the kernel does not answer (a filter)
  unsigned usable = 0;
  for (long i = 0; i < bytes / 8; ++i) usable += popcount(mask[i]);
  return {static_cast<unsigned>(bytes) * 8, usable == 0 ? 1 : usable};
}

namespace {

// For containers whose filter refuses the system call: a list of numbers like "0-3,5", which ends with the highest.
unsigned nodes_from_file() {
  char text[128];
  const std::size_t bytes = TextFile("/sys/devices/system/node/online").read(text, sizeof(text));
  unsigned number = 0;
  bool several = false;
  for (std::size_t i = 0; i < bytes; ++i) {
    const bool digit = '0' <= text[i] && text[i] <= '9';
    if (digit) number = number * 10 + static_cast<unsigned>(text[i] - '0');
    if (digit || text[i] == '\n') continue;
    number = 0;
    several = true;
  }
  return several ? number + 1 : 1;
}

}  // namespace

unsigned nodes() {
  constexpr u64 kAllowedNodes = 4;  // MPOL_F_MEMS_ALLOWED
  u64 mask[kMostNodes / 64] = {};
  const long failed = raw_syscall(SYS_get_mempolicy, 0, reinterpret_cast<u64>(mask), kMostNodes, 0, kAllowedNodes);
  if (failed != 0) return nodes_from_file();
  unsigned count = 0, end = 0;
  for (unsigned i = 0; i < kMostNodes / 64; ++i) {
    count += popcount(mask[i]);
    if (mask[i] != 0) end = i * 64 + 64 - static_cast<unsigned>(__builtin_clzll(mask[i]));
  }
  return count > 1 ? end : 1;
}

unsigned node(u64 rseq) {
  if (rseq != 0 && is_registered(rseq)) {
    const auto thread = reinterpret_cast<uptr>(__builtin_thread_pointer());
    return *reinterpret_cast<const volatile u32*>(thread + rseq + RSEQ_NODE_ID);
  }
  u32 number = 0;
  raw_syscall(SYS_getcpu, 0, reinterpret_cast<u64>(&number), 0);
  return number;
}

bool can_interrupt_sections() {
  return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0;
}

bool interrupt_sections() {
  const auto interrupt = [] { return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0; };
  return interrupt() || (can_interrupt_sections() && interrupt());  // registering may have been refused at the start
}

bool can_make_barriers() { return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0; }

bool make_barrier() {
  const auto barrier = [] { return raw_syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0; };
  return barrier() ||
         (can_make_barriers() && barrier());  // a process restored from a checkpoint is no longer registered
}

// The futex call that moves sleepers compares a word first; here it moves and wakes none. It is the one read that every
// kernel and every filter allow and that does not end in a signal where the memory is gone.
bool may_read(uptr address, u32 value) {
  const long answer = raw_syscall(SYS_futex, address, FUTEX_CMP_REQUEUE_PRIVATE, 0, 0, address, value);
  tsan::after_kernel_read(address);
  return answer != -EAGAIN && answer != -EFAULT;
}

const char* single_threaded_flag() {
  static constexpr char kNever = 0;
  return &__libc_single_threaded == nullptr ? &kNever : &__libc_single_threaded;
}

u64 time_ns(int clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}
u64 coarse_time_ns() { return time_ns(CLOCK_MONOTONIC_COARSE); }
u64 begin_time_ns() {
  timespec now{};
  raw_syscall(SYS_clock_gettime, CLOCK_MONOTONIC_COARSE, reinterpret_cast<u64>(&now));
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}
u64 wall_time_ns() { return time_ns(CLOCK_REALTIME); }

u64 id() { return static_cast<u64>(raw_syscall(SYS_getpid)); }

const char* program_name() {
  const char* name = program_invocation_short_name;
  return name == nullptr || *name == 0 ? "?" : name;
}

bool is_privileged() { return getauxval(AT_SECURE) != 0; }

namespace {

struct Kernel : Machine {
  static uptr wiped_page() {
    const std::size_t bytes = vm::page_size();
    const uptr page = vm::map(bytes, 64 * kKiB);
    if (page == 0) return 0;
    const vm::Answer answer = vm::wipe_on_fork(page, bytes);
    if (answer == vm::Answer::kDone) return page;
    vm::release(page, bytes);
    return answer == vm::Answer::kNotOffered ? Lives<Kernel>::kNoSupport : 0;
  }
  static void drop_page(uptr page) { vm::release(page, vm::page_size()); }
  // The child of a fork has one thread, whose id is the process's.
  static bool is_first_thread() { return raw_syscall(SYS_gettid) == raw_syscall(SYS_getpid); }
};

constinit Lives<Kernel> lives;
constinit thread_local bool bare = false;

}  // namespace

void become_bare() { bare = true; }
bool is_bare() { return bare; }

Claimant claimant() {
  return lives.claimant(reinterpret_cast<u64>(__builtin_thread_pointer()) / Claimant::kThreadUnit);
}

}  // namespace freeway::process
