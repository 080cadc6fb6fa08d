// SPDX-License-Identifier: MIT
//
// memory_use.h: what the kernel says this process weighs, read without malloc (the answer would change what is asked).
#ifndef FREEWAY_BENCH_SUPPORT_MEMORY_USE_H
#define FREEWAY_BENCH_SUPPORT_MEMORY_USE_H

#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace bench {

// The line of `file` that begins with `field`, a number of KiB; exits if it is not there.
inline long kib_of(const char* file, const char* field) {
  static char text[4096];
  const int fd = open(file, O_RDONLY | O_CLOEXEC);
  ssize_t length = 0;
  if (fd >= 0) {
    length = read(fd, text, sizeof text - 1);
    close(fd);
  }
  if (length <= 0) {
    std::fprintf(stderr, "cannot read %s\n", file);
    std::exit(1);
  }
  text[length] = '\0';
  // At the start of a line: "Rss:" must not be found inside another name.
  for (const char* line = text; line != nullptr; line = std::strchr(line, '\n')) {
    if (*line == '\n') ++line;
    if (std::strncmp(line, field, std::strlen(field)) == 0) return std::atol(line + std::strlen(field));
  }
  std::fprintf(stderr, "no %s in %s\n", field, file);
  std::exit(1);
}

// A line of smaps_rollup ("Anonymous:", "Private_Dirty:", "Rss:").
inline long rollup_kib(const char* field) { return kib_of("/proc/self/smaps_rollup", field); }

// The most that was resident since the program began. (Not getrusage's ru_maxrss: a program inherits that from whoever
// started it, and a harness is larger than most of what it starts.)
inline long peak_kib() { return kib_of("/proc/self/status", "VmHWM:"); }

// The most address space; reservations count, and cost nothing. Two of the papers print it.
inline long virtual_peak_kib() { return kib_of("/proc/self/status", "VmPeak:"); }

// What becomes resident from its construction on, at most: the heap, if whatever else the program needs is mapped and
// touched before (threads' stacks are in it, a few KiB each).
class HeapGrowth {
 public:
  HeapGrowth() : before_(peak_kib()) {}
  double kib() const { return static_cast<double>(peak_kib() - before_); }

 private:
  const long before_;
};

// malloc_trim(0), and whatever else the allocator in use offers for the same purpose: peers whose malloc_trim is
// glibc's (so does nothing for them) get their own call, or the comparison would be unfair.
inline void trim_all() {
  malloc_trim(0);
  using Call = void (*)();
  using Collect = void (*)(bool);
  using Control = int (*)(const char*, void*, std::size_t*, void*, std::size_t);
  if (auto collect = reinterpret_cast<Collect>(dlsym(RTLD_DEFAULT, "mi_collect"))) collect(true);
  if (auto release = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, "MallocExtension_ReleaseFreeMemory"))) release();
  if (auto control = reinterpret_cast<Control>(dlsym(RTLD_DEFAULT, "mallctl"))) {
    control("thread.tcache.flush", nullptr, nullptr, nullptr, 0);
    control("arena.4096.purge", nullptr, nullptr, nullptr, 0);  // 4096: MALLCTL_ARENAS_ALL
  }
}

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_MEMORY_USE_H
