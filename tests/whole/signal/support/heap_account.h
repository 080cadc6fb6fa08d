// SPDX-License-Identifier: MIT
//
// What the allocator says about itself, and what the kernel says about the process. Freeway's functions are looked up
// at run time, so that the same program also runs, without these checks, under another malloc: to show that a test
// catches what it is meant to catch.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_HEAP_ACCOUNT_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_HEAP_ACCOUNT_H

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <sys/rseq.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "freeway/freeway.h"
#include "freeway/heap.h"
#include "tests/whole/signal/support/call_watch.h"
#include "tests/whole/signal/support/failure.h"

namespace freeway_test {

constexpr size_t kFrameBytes = 64 << 10;
constexpr size_t kLargestSuperblock = 1 << 20;
constexpr size_t kLargestSpan = 4 << 20;  // what a call that gives memory back to the kernel may have in hand

using AuditFunction = size_t (*)(freeway_audit_t*, size_t);
using StatsFunction = void (*)(freeway_stats_t*, size_t);
using LimitFunction = int (*)(size_t, size_t);
using ShouldMoveFunction = int (*)(const void*);
using ReserveFunction = size_t (*)(size_t, size_t);

// Looked up once, before threads, handlers and forks: dlsym takes the loader's lock.
struct HeapAccount {
  AuditFunction audit = reinterpret_cast<AuditFunction>(::dlsym(RTLD_DEFAULT, "freeway_audit"));
  StatsFunction stats = reinterpret_cast<StatsFunction>(::dlsym(RTLD_DEFAULT, "freeway_stats"));
  LimitFunction set_limit = reinterpret_cast<LimitFunction>(::dlsym(RTLD_DEFAULT, "freeway_set_limit"));
  ReserveFunction reserve = reinterpret_cast<ReserveFunction>(::dlsym(RTLD_DEFAULT, "freeway_reserve"));
  int (*profile_start)(size_t) = reinterpret_cast<int (*)(size_t)>(::dlsym(RTLD_DEFAULT, "freeway_profile_start"));
  void (*profile_stop)() = reinterpret_cast<void (*)()>(::dlsym(RTLD_DEFAULT, "freeway_profile_stop"));
  template <class F> static F* find(const char* name) { return reinterpret_cast<F*>(::dlsym(RTLD_DEFAULT, name)); }
  decltype(&::freeway_heap_new) heap_new = find<decltype(::freeway_heap_new)>("freeway_heap_new");
  decltype(&::freeway_heap_malloc) heap_malloc = find<decltype(::freeway_heap_malloc)>("freeway_heap_malloc");
  decltype(&::freeway_heap_calloc) heap_calloc = find<decltype(::freeway_heap_calloc)>("freeway_heap_calloc");
  decltype(&::freeway_heap_aligned_alloc) heap_aligned_alloc =
      find<decltype(::freeway_heap_aligned_alloc)>("freeway_heap_aligned_alloc");
  decltype(&::freeway_heap_trim) heap_trim = find<decltype(::freeway_heap_trim)>("freeway_heap_trim");
  decltype(&::freeway_heap_destroy) heap_destroy = find<decltype(::freeway_heap_destroy)>("freeway_heap_destroy");
  ShouldMoveFunction should_move = reinterpret_cast<ShouldMoveFunction>(::dlsym(RTLD_DEFAULT, "freeway_should_move"));
};
inline const HeapAccount heap_account;

inline bool freeway_is_malloc() { return heap_account.audit != nullptr; }

#if defined(__x86_64__)
// Absent before glibc 2.35.
#pragma weak __rseq_size
#pragma weak __rseq_offset

// The id of the CPU as the kernel keeps it up to date for this thread; negative while the thread is not registered.
// (A call of its own: the compiler must not keep a part of it in a register across vfork.)
[[gnu::noinline]] inline int rseq_cpu_id() {
  if (&__rseq_size == nullptr || __rseq_size == 0) return -1;
  int cpu;
  std::memcpy(&cpu,
              static_cast<const char*>(__builtin_thread_pointer()) + __rseq_offset + offsetof(struct rseq, cpu_id),
              sizeof cpu);
  return cpu;
}
#else
inline int rseq_cpu_id() { return -1; }
#endif

// Whether libc was told to register no rseq, so that Freeway registers its own.
inline bool rseq_is_own() {
  const char* tunables = ::getenv("GLIBC_TUNABLES");
  return tunables != nullptr && std::strstr(tunables, "glibc.pthread.rseq=0") != nullptr;
}

// Whether the fast path of this process goes through rseq sections.
inline bool rseq_mode() {
  const char* option = ::getenv("FREEWAY_RSEQ");
  return freeway_is_malloc() && (option == nullptr || std::strcmp(option, "0") != 0) &&
         (rseq_cpu_id() >= 0 || rseq_is_own());
}

// How many errors an audit may find: where threads that vanished leave what they were changing as it was (Streamflow's
// page blocks, GUARANTEES.md), one for each.
inline size_t audit_errors_tolerated = 0;

// Fails the test on a broken invariant. Only while no other thread of this process is inside the allocator, except
// threads that never come back.
inline freeway_audit_t require_clean_audit(const char* where) {
  freeway_audit_t audit = {};
  if (heap_account.audit != nullptr) {
    enter_allocator();
    const size_t errors = heap_account.audit(&audit, sizeof audit);
    leave_allocator();
    require(errors <= audit_errors_tolerated && audit.errors == errors, where, errors, audit.errors);
  }
  return audit;
}

// Superblocks that no slab holds although nobody is inside the allocator: lost with the calls that never returned.
inline size_t superblocks_lost(const freeway_audit_t& audit) {
  return audit.superblocks_held - audit.superblocks_held_by_slabs;
}

inline void trim_heap() { ::malloc_trim(0); }

// Reads the start of a file without the C library's buffers, so that a forked child of threads may do it too.
inline size_t read_start(const char* path, char* buffer, size_t room) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t used = 0;
  while (used + 1 < room) {
    const ssize_t n = ::read(fd, buffer + used, room - 1 - used);
    if (n <= 0) break;
    used += static_cast<size_t>(n);
  }
  ::close(fd);
  buffer[used] = '\0';
  return used;
}

// Bytes of this process in memory.
inline size_t resident_bytes() {
  char text[256];
  if (read_start("/proc/self/statm", text, sizeof text) == 0) return 0;
  char* end;
  std::strtoull(text, &end, 10);
  return std::strtoull(end, nullptr, 10) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

// The line `name:` of /proc/self/smaps_rollup, in bytes.
inline size_t smaps_rollup_bytes(const char* name) {
  char text[2048];
  if (read_start("/proc/self/smaps_rollup", text, sizeof text) == 0) return 0;
  const char* line = std::strstr(text, name);
  return line == nullptr ? 0 : std::strtoull(line + std::strlen(name) + 1, nullptr, 10) << 10;
}

}  // namespace freeway_test
#endif
