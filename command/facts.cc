// SPDX-License-Identifier: MIT
#include "facts.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "arch/rseq_layout.h"
#include "process.h"

extern char** environ;

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

namespace freeway_command {
namespace {

constexpr std::size_t kKiB = 1024;

Fact kernel() {
  utsname name{};
  uname(&name);
  return {"kernel", std::string(name.sysname) + " " + name.release + ", " + name.machine, {}};
}

// Asked by name: musl, for which this command is built as well, has no such function, and says nowhere what it is.
Fact c_library() {
  const auto version = reinterpret_cast<const char* (*)()>(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  return {"C library", version == nullptr ? "not glibc" : std::string("glibc ") + version(), {}};
}

Fact cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof(mask), &mask);
  const long present = sysconf(_SC_NPROCESSORS_CONF);
  return {"CPUs", std::to_string(CPU_COUNT(&mask)) + " of " + std::to_string(present) + " usable by this process", {}};
}

// glibc publishes where it keeps each thread's struct rseq; before 2.35 it registers none.
bool rseq_registered() {
  const auto* size = static_cast<const unsigned*>(dlsym(RTLD_DEFAULT, "__rseq_size"));
  const auto* offset = static_cast<const std::ptrdiff_t*>(dlsym(RTLD_DEFAULT, "__rseq_offset"));
  if (size == nullptr || offset == nullptr || *size == 0) return false;
  const char* area = static_cast<const char*>(__builtin_thread_pointer()) + *offset;
  return *reinterpret_cast<const volatile int*>(area + RSEQ_CPU_ID) >= 0;
}

Fact rseq() {
  if (rseq_registered()) return {"rseq", "registered by the C library", {}};
  return {"rseq", "not registered by the C library",
          "needs glibc 2.35, and GLIBC_TUNABLES without glibc.pthread.rseq=0; Freeway registers its own, if it is "
          "Linux 4.18 " "or newer and no filter is against it"};
}

Fact mm_cid() {
  if (getauxval(AT_RSEQ_FEATURE_SIZE) >= RSEQ_MM_CID + sizeof(std::uint32_t)) return {"mm_cid", "yes", {}};
  return {"mm_cid", "no (Linux 6.3 has it)",
          "caches are indexed by CPU number: a process that wanders over many CPUs keeps a cache on each"};
}

Fact membarrier() {
  const long offered = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
  constexpr long kNeeded = MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ | MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ;
  if (offered >= 0 && (offered & kNeeded) == kNeeded &&
      syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ, 0, 0) == 0)
    return {"membarrier", "yes, also for rseq", {}};
  return {"membarrier", "not for rseq (Linux 5.10 has it)",
          "malloc_trim, and a malloc that is refused memory, empty only the cache of the CPU they run on"};
}

Fact page_size() {
  return {"page size", std::to_string(static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) / kKiB) + " KiB", {}};
}

Fact overcommit() {
  const std::string mode = first_line("/proc/sys/vm/overcommit_memory");
  if (mode == "2")
    return {"overcommit", "2 (strict)", "memory is charged when it is made usable: malloc may be refused early"};
  return {"overcommit", mode == "0" ? "0 (heuristic)" : mode == "1" ? "1 (always)" : "unknown", {}};
}

Fact huge_pages() {
  const std::string modes = first_line("/sys/kernel/mm/transparent_hugepage/enabled");
  const std::size_t open = modes.find('['), close = modes.find(']');
  if (open == std::string::npos || close == std::string::npos) return {"huge pages", "none", {}};
  const std::string mode = modes.substr(open + 1, close - open - 1);
  if (mode == "always") return {"huge pages", mode, "small heaps do with small pages all the same"};
  if (mode == "madvise")
    return {"huge pages", mode, "new memory behind a heap's first 256 MiB gets them if they come fast"};
  return {"huge pages", mode, {}};
}

Fact mappings() {
  const std::string most = first_line("/proc/sys/vm/max_map_count");
  const bool low = std::atol(most.c_str()) < 65530;
  return {"mappings", "at most " + (most.empty() ? "an unknown number" : most),
          low ? "few: blocks of 256 MiB and more have a mapping each" : ""};
}

Fact address_space() {
  rlimit limit{};
  getrlimit(RLIMIT_AS, &limit);
  if (limit.rlim_cur == RLIM_INFINITY) return {"address space", "unlimited", {}};
  return {"address space", "RLIMIT_AS is " + std::to_string(limit.rlim_cur / kKiB) + " KiB",
          "memory is refused beyond it, as under any malloc"};
}

Fact fork_epoch() {
  const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* page = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool offered = page != MAP_FAILED && madvise(page, bytes, MADV_WIPEONFORK) == 0;
  if (page != MAP_FAILED) munmap(page, bytes);
  if (offered) return {"wipe on fork", "yes", {}};
  return {"wipe on fork", "no (Linux 4.14 has it)",
          "a forked child cannot take over the spare slabs of threads that it does not have"};
}

// The library's dlopen decides it, for each process.
Fact deep_binding() {
  const char* kept = std::getenv("FREEWAY_DEEPBIND");
  if (kept == nullptr || std::string(kept) != "1") return {"RTLD_DEEPBIND", "cleared in dlopen", {}};
  return {"RTLD_DEEPBIND", "kept (FREEWAY_DEEPBIND=1)",
          "libraries loaded with it free Freeway's blocks with the C library: php and Apache with modules crash"};
}

}  // namespace

std::vector<Fact> gather_facts() {
  std::vector<Fact> facts = {kernel(),        c_library(),  cpus(),        rseq(),       mm_cid(),
                             membarrier(),    page_size(),  overcommit(),  huge_pages(), mappings(),
                             address_space(), fork_epoch(), deep_binding()};
  for (char** entry = environ; *entry != nullptr; ++entry)
    if (std::string(*entry).starts_with("FREEWAY_")) facts.push_back({"environment", *entry, {}});
  return facts;
}

void print(const Fact& fact) {
  constexpr int kNameWidth = 14;
  std::printf("%-*s %s\n", kNameWidth, fact.name.c_str(), fact.value.c_str());
  if (!fact.consequence.empty()) std::printf("%-*s -> %s\n", kNameWidth, "", fact.consequence.c_str());
}

}  // namespace freeway_command
