// SPDX-License-Identifier: MIT
//
// Limits of the kernel's that programs run into, each reached for real: the number of mappings, locked memory,
// RLIMIT_AS and RLIMIT_DATA, more than there is memory, a control group; from the first call on, or in the midst of
// things. A program goes through the tour meanwhile, where it gets what it asks for or is told that it cannot have it;
// then the limit goes, everything works again, and nothing is lost.
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <atomic>
#include <string>

#include "tests/support/proof.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/system_calls/soundness.h"
#include "tests/whole/system_calls/tour.h"

namespace {
using namespace freeway_test;
using freeway::test::proof;

constexpr size_t kMiB = size_t{1} << 20;
constinit Tour tour;

void limit(int resource, rlim_t bytes) {
  rlimit now;
  require(::getrlimit(static_cast<__rlimit_resource_t>(resource), &now) == 0, "getrlimit");
  now.rlim_cur = std::min(bytes, now.rlim_max);
  require(::setrlimit(static_cast<__rlimit_resource_t>(resource), &now) == 0, "setrlimit");
}

// Goes through the tour within the limit that holds now, then, once `lift` has ended it, without.
template <class Lift> void live_within(const char* subject, Lift&& lift, size_t tours = 1) {
  tour.memory_is_back(false);
  for (size_t i = 0; i < tours; i++) tour.run(/*in_child=*/false);
  lift();
  tour.memory_is_back(true);
  tour.run(/*in_child=*/false);
  require_nothing_lost();
  proof("system calls", subject, "programs", 1);
  proof("system calls", subject, "answers that there is no memory", tour.failures());
}

size_t own_bytes(const char* name) {
  char text[4096];
  require(read_start("/proc/self/status", text, sizeof text) != 0, "/proc/self/status");
  const char* line = std::strstr(text, name);
  return line == nullptr ? 0 : std::strtoull(line + std::strlen(name), nullptr, 10) << 10;
}

// --- The number of mappings (vm.max_map_count).
// -----------------------------------------------------------------------

// Takes all mappings but a few, by protecting every other page of an area.
class AllMappings {
 public:
  void take() {
    char text[32];
    const size_t most =
        read_start("/proc/sys/vm/max_map_count", text, sizeof text) != 0 ? std::strtoull(text, nullptr, 10) : 65530;
    if (most > 400'000) skip("too many mappings are allowed here");
    bytes_ = (2 * most + 2) * kPage;
    void* area = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    require(area != MAP_FAILED, "mmap");
    area_ = static_cast<char*>(area);
    while (::mprotect(area_ + (2 * taken_ + 1) * kPage, kPage, PROT_READ) == 0) taken_++;
    require(taken_ > 100, "the limit is too near", taken_);
  }
  // Two mappings become free.
  void spare_one() {
    taken_--;
    require(::mprotect(area_ + (2 * taken_ + 1) * kPage, kPage, PROT_NONE) == 0, "mprotect");
  }
  void give() {
    ::munmap(area_, bytes_);
    area_ = nullptr;
  }

 private:
  static constexpr size_t kPage = 4096;
  char* area_ = nullptr;
  size_t bytes_ = 0, taken_ = 0;
};
constinit AllMappings all_mappings;

void mappings_run_out(const Options&) {
  live_within("mapping limit", [] {});
  const Leftovers before = require_nothing_lost();
  for (const int spare : {0, 1, 3}) {
    all_mappings = {};
    all_mappings.take();
    for (int i = 0; i < spare; i++) all_mappings.spare_one();
    live_within("mapping limit", [] { all_mappings.give(); });
  }
  const Leftovers after = require_nothing_lost();
  require(after.live_blocks == before.live_blocks, "blocks are live in the end", after.live_blocks, before.live_blocks);
  require(after.address_space <= before.address_space + 450 * kMiB, "address space was lost", after.address_space,
          before.address_space);
}

// Blocks whose mappings have grown together: the one in the middle cannot be unmapped without one mapping more.
void a_mapping_in_the_middle(const Options&) {
  constexpr size_t kBlocks = 9, kBytes = 260 * kMiB, kTouched = 8 * kMiB;
  live_within("mapping limit", [] {});
  const Leftovers before = require_nothing_lost();
  char* blocks[kBlocks];
  for (char*& block : blocks) {
    block = static_cast<char*>(::malloc(kBytes));
    require(block != nullptr, "malloc");
    std::memset(block, 1, kTouched);
  }
  all_mappings.take();
  const size_t resident = resident_bytes();
  for (size_t i = 1; i < kBlocks; i += 2) ::free(blocks[i]);
  require(resident_bytes() + kBlocks / 2 * kTouched <= resident + kMiB, "memory was not given back", resident,
          resident_bytes());
  tour.memory_is_back(false);
  tour.run(false);
  all_mappings.give();
  for (size_t i = 0; i < kBlocks; i += 2) {
    require(blocks[i][kTouched - 1] == 1, "a block beside it was damaged");
    ::free(blocks[i]);
  }
  live_within("mapping limit", [] {});
  const Leftovers after = require_nothing_lost();
  // What a move that the kernel refuses late was to replace may be lost (src/os/vm.h).
  require(after.address_space <= before.address_space + 450 * kMiB, "address space was lost", after.address_space,
          before.address_space);
}

void mappings_run_out_before_the_first_call(const Options&) {
  live_within("mapping limit, from the start", [] { all_mappings.give(); });
}

// --- Locked memory (mlockall, RLIMIT_MEMLOCK).
// ------------------------------------------------------------------------

// Everything that is mapped from now on is locked, up to so many bytes.
void lock_future(size_t bytes, int flags) {
  limit(RLIMIT_MEMLOCK, bytes);
  // Whoever may lock anything (CAP_IPC_LOCK) has no limit.
  if (::geteuid() == 0) require(::setresuid(65534, 65534, 65534) == 0, "setresuid");
  if (::mlockall(MCL_FUTURE | flags) != 0) skip("mlockall is not allowed here");
}

void live_locked(const char* subject) {
  live_within(subject, [] { require(::munlockall() == 0, "munlockall"); });
}
void locked_memory_runs_out(const Options&) {
  live_within("locked memory", [] {});
  lock_future(16 * kMiB, 0);
  live_locked("locked memory");
}
void locked_memory_runs_out_before_the_first_call(const Options&) { live_locked("locked memory, from the start"); }
void locked_on_fault_before_the_first_call(const Options&) { live_locked("locked memory, from the start"); }

// What is freed leaves memory, also when all that the process has is locked there (from Linux 5.18 on).
void locked_memory_is_given_back(const Options&) {
  constexpr size_t kSmall = 64 * kMiB, kSize = 1000, kLarge = 64 * kMiB;
  static void* blocks[kSmall / kSize];
  if (!freeway::test::on_flagship()) skip("papers whose allocators keep memory by thread or by class promise less");
  utsname name;
  require(::uname(&name) == 0, "uname");
  const int major = std::atoi(name.release), minor = std::atoi(std::strchr(name.release, '.') + 1);
  if (major < 5 || (major == 5 && minor < 18)) skip("Linux gives locked memory back since 5.18");
  if (::mlockall(MCL_CURRENT | MCL_FUTURE) != 0) skip("mlockall is not allowed here");
  ::malloc_trim(0);
  const size_t before = resident_bytes();
  for (void*& block : blocks) {
    block = ::malloc(kSize);
    require(block != nullptr, "malloc in locked memory");
    std::memset(block, 1, kSize);
  }
  void* large = ::malloc(kLarge);
  require(large != nullptr, "malloc in locked memory");
  std::memset(large, 1, kLarge);
  const size_t full = resident_bytes();
  require(full >= before + (kSmall + kLarge) * 9 / 10, "the blocks are in memory", before, full);
  for (void* block : blocks) ::free(block);
  ::free(large);
  ::malloc_trim(0);
  const size_t after = resident_bytes();
  // What was made accessible ahead of need is in memory, too: a quarter of what there is.
  require(after <= before + (kSmall + kLarge) / 2, "locked memory was not given back", before, after);
  auto* again = static_cast<char*>(::calloc(1, kLarge));
  for (size_t i = 0; i < kLarge; i += 4096) require(again[i] == 0, "calloc in memory that was given back");
  ::free(again);
  live_within("locked memory, given back", [] { require(::munlockall() == 0, "munlockall"); });
}

// --- RLIMIT_AS, RLIMIT_DATA.
// ------------------------------------------------------------------------------------------

void address_space_runs_out(const Options&) {
  for (const size_t spare : {size_t{0}, kMiB, 5 * kMiB, 40 * kMiB, 300 * kMiB}) {
    limit(RLIMIT_AS, own_bytes("VmSize:") + spare);
    live_within("RLIMIT_AS", [] { limit(RLIMIT_AS, RLIM_INFINITY); });
  }
}
void address_space_runs_out_before_the_first_call(const Options&) {
  live_within("RLIMIT_AS, from the start", [] { limit(RLIMIT_AS, RLIM_INFINITY); });
}
void data_runs_out(const Options&) {
  for (const size_t spare : {size_t{0}, kMiB, 5 * kMiB, 40 * kMiB, 300 * kMiB}) {
    limit(RLIMIT_DATA, own_bytes("VmData:") + spare);
    live_within("RLIMIT_DATA", [] { limit(RLIMIT_DATA, RLIM_INFINITY); });
  }
}
void data_runs_out_before_the_first_call(const Options&) {
  live_within("RLIMIT_DATA, from the start", [] { limit(RLIMIT_DATA, RLIM_INFINITY); });
}

// --- More than there is memory.
// ---------------------------------------------------------------------------------------

std::atomic<bool> stop{false};

// Maps and unmaps memory as fast as it can: whatever place becomes free is likely to be its own soon.
void* map_and_check(void* rounds) {
  uint64_t n = 0;
  for (; !stop.load(std::memory_order_relaxed); n++) {
    const size_t bytes = size_t{4096} << n % 12;
    auto* area = static_cast<char*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (area == MAP_FAILED) continue;
    area[0] = area[bytes - 1] = static_cast<char>(n);
    for (int i = 0; i < 20; i++)
      require(*static_cast<volatile char*>(area) == static_cast<char>(n) &&
                  *static_cast<volatile char*>(area + bytes - 1) == static_cast<char>(n),
              "somebody else's mapping was changed");
    ::munmap(area, bytes);
  }
  *static_cast<uint64_t*>(rounds) = n;
  return nullptr;
}

// Kernels refuse a single mapping that is larger than all memory there is, and find that out in the midst of a move:
// see os/vm.h, move.
void a_block_grows_beyond_all_memory(const Options& options) {
  struct sysinfo info;
  require(::sysinfo(&info) == 0, "sysinfo");
  const size_t all = (info.totalram + info.totalswap) * info.mem_unit;
  void* volatile probe = ::malloc(2 * all);
  ::free(probe);
  if (probe != nullptr) skip("the kernel promises more memory than there is");
  pthread_t thread;
  uint64_t rounds = 0;
  require(::pthread_create(&thread, nullptr, map_and_check, &rounds) == 0, "pthread_create");
  auto* block = static_cast<char*>(::malloc(300 * kMiB));
  require(block != nullptr, "malloc");
  std::memset(block, 7, 4096);
  uint64_t refusals = 0;
  for (Deadline deadline(options.seconds); !deadline.passed(); refusals++) {
    errno = 0;
    void* volatile moved = ::realloc(block, 2 * all + (refusals % 64) * kMiB);
    require(moved == nullptr && errno == ENOMEM, "realloc to twice all memory");
    require(block[0] == 7 && block[4095] == 7, "a refused realloc changed its block");
  }
  stop = true;
  ::pthread_join(thread, nullptr);
  ::free(block);
  live_within("more than all memory", [] {});
  proof("system calls", "more than all memory", "calls refused", refusals);
  Line().count(refusals, "refusals").count(rounds, "mappings beside them").write_to(1);
}

// --- A control group.
// -------------------------------------------------------------------------------------------------

bool write_file(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return written;
}

// Phases of 20 MiB live in ever other sizes, within 64 MiB: who keeps more than that of what was freed is killed.
void phases_in_a_control_group(const Options&) {
  if (!freeway::test::on_flagship()) skip("papers whose allocators keep memory by thread or by class promise less");
  constexpr size_t kLive = 20 * kMiB;
  const std::string name = "/freeway-test-" + std::to_string(::getpid());
  std::string group;
  for (const char* root : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"}) {
    group = root + name;
    if (::mkdir(group.c_str(), 0755) != 0) continue;
    if (write_file(group + "/memory.limit_in_bytes", "67108864") || write_file(group + "/memory.max", "67108864"))
      break;
    ::rmdir(group.c_str());
    group.clear();
  }
  struct stat exists;
  if (group.empty() || ::stat(group.c_str(), &exists) != 0) skip("no memory control group can be made here");
  const pid_t child = ::fork();
  if (child == 0) {
    require(write_file(group + "/cgroup.procs", std::to_string(::getpid())), "cgroup.procs");
    static void* blocks[kLive / 16];
    for (int round = 0; round < 40; round++)
      for (const size_t size :
           {size_t{40}, size_t{3000}, size_t{700}, size_t{100'000}, size_t{20'000}, size_t{3'000'000}}) {
        const size_t count = kLive / size;
        for (size_t i = 0; i < count; i++) {
          blocks[i] = ::malloc(size);
          require(blocks[i] != nullptr, "malloc in a control group");
          std::memset(blocks[i], round, size);
        }
        for (size_t i = 0; i < count; i++) ::free(blocks[i]);
      }
    ::_exit(0);
  }
  const int status = wait_for(child);
  ::rmdir(group.c_str());
  require(status == 0, "a program that needed a third of its control group's memory was killed",
          static_cast<uint64_t>(status));
  proof("system calls", "control group", "programs", 1);
}

// --- Small real programs, as under `ulimit -v`.
// -----------------------------------------------------------------------

struct Ended {
  int status;
  std::string said;
};

// Runs the program with so much address space and, if `preload` is not null, with that library as its malloc.
Ended run_limited(const char* const* argv, size_t bytes, const char* preload) {
  const int output = ::memfd_create("output", MFD_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(output, 1);
    ::dup2(output, 2);
    if (preload != nullptr) ::setenv("LD_PRELOAD", preload, 1);
    const rlimit space = {bytes, bytes};
    ::setrlimit(RLIMIT_AS, &space);
    ::execv(argv[0], const_cast<char* const*>(argv));
    ::_exit(126);
  }
  Ended ended{wait_for(child), {}};
  char text[4096];
  const ssize_t n = ::pread(output, text, sizeof text, 0);
  ended.said.assign(text, n > 0 ? static_cast<size_t>(n) : 0);
  ::close(output);
  return ended;
}

// From some limit on the program does its work, always, and that is at most `extra` MiB more than it needs with the C
// library's malloc. (How it fails below is its own affair: dash recurses until its stack is full when it cannot say
// that there is no memory because there is none.)
void runs_from_some_limit_on(const char* const* argv, const char* expected, size_t extra) {
  const char* const library = std::getenv("FREEWAY_LIB");
  require(library != nullptr, "FREEWAY_LIB is not set");
  if (::access(argv[0], X_OK) != 0) return;
  size_t least = 0, least_without = 0, tried = 0;
  for (size_t mib = 2; mib <= 400; mib += mib < 100 ? 1 : 25, tried++) {
    const Ended with = run_limited(argv, mib * kMiB, library);
    const bool works = WIFEXITED(with.status) && WEXITSTATUS(with.status) == 0 && with.said == expected;
    least = !works ? 0 : least == 0 ? mib : least;  // near it, where things happen to lie decides
    if (least_without == 0) {
      const Ended without = run_limited(argv, mib * kMiB, nullptr);
      if (WIFEXITED(without.status) && without.said == expected) least_without = mib;
    }
    if (least != 0 && mib > least + 30 && mib < 350) mib = 350;  // that will do
  }
  Line()
      .text(argv[0])
      .text(": runs from")
      .count(least, "MiB on, without Freeway from")
      .count(least_without, "MiB")
      .write_to(1);
  require(least != 0 && least <= least_without + extra, "a program needs too much address space", least, least_without);
  proof("system calls", "ulimit -v", "programs", tried);
}

void small_programs_in_little_address_space(const Options&) {
  constexpr const char* kShell[] = {"/bin/sh", "-c", "x=0; while [ $x -lt 300 ]; do x=$((x+1)); done; echo $x",
                                    nullptr};
  runs_from_some_limit_on(kShell, "300\n", 20);
  constexpr const char* kPython[] = {"/usr/bin/python3", "-S", "-c",
                                     "x = [bytes(1000) for _ in range(3000)]\n"
                                     "try: y = bytes(1 << 40)\n"
                                     "except MemoryError: print(len(x))",
                                     nullptr};
  runs_from_some_limit_on(kPython, "3000\n", 30);
}

// Limits that hold before the first call: set before any constructor runs.
void first_of_all(int argc, char** argv, char**) {
  const auto is = [&](const char* name) {
    for (int i = 1; i < argc; i++)
      if (std::strncmp(argv[i], "--case=", 7) == 0 && std::strcmp(argv[i] + 7, name) == 0) return true;
    return false;
  };
  if (is("mappings_run_out_before_the_first_call")) all_mappings.take();
  if (is("locked_memory_runs_out_before_the_first_call")) lock_future(24 * kMiB, 0);
  if (is("locked_on_fault_before_the_first_call")) lock_future(24 * kMiB, 4 /* MCL_ONFAULT */);
  if (is("address_space_runs_out_before_the_first_call")) limit(RLIMIT_AS, own_bytes("VmSize:") + 12 * kMiB);
  if (is("data_runs_out_before_the_first_call")) limit(RLIMIT_DATA, own_bytes("VmData:") + 4 * kMiB);
}
[[gnu::section(".preinit_array"), gnu::used]] void (*const preinit)(int, char**, char**) = first_of_all;

}  // namespace

int main(int argc, char** argv) {
  ::setenv("FREEWAY_ON_ERROR", "report", 1);
  tour.choose_cpus();
#define FREEWAY_CASE(name) {#name, name}
  return run_cases(
      argc, argv,
      {FREEWAY_CASE(mappings_run_out), FREEWAY_CASE(a_mapping_in_the_middle),
       FREEWAY_CASE(mappings_run_out_before_the_first_call), FREEWAY_CASE(locked_memory_runs_out),
       FREEWAY_CASE(locked_memory_runs_out_before_the_first_call), FREEWAY_CASE(locked_on_fault_before_the_first_call),
       FREEWAY_CASE(locked_memory_is_given_back), FREEWAY_CASE(address_space_runs_out),
       FREEWAY_CASE(address_space_runs_out_before_the_first_call), FREEWAY_CASE(data_runs_out),
       FREEWAY_CASE(data_runs_out_before_the_first_call), FREEWAY_CASE(a_block_grows_beyond_all_memory),
       FREEWAY_CASE(phases_in_a_control_group), FREEWAY_CASE(small_programs_in_little_address_space)});
}
