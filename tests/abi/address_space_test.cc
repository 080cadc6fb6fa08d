// SPDX-License-Identifier: MIT
//
// address_space_test.cc: address space grows with use. Limits on it that are set while the program runs hold as under
// any malloc, and the program goes on below them (as its first act: first_limit.cc); what tools show is what is in use;
// mappings of others where the heap would grow are gone around; mappings that cannot be ended cost no block. Each
// scenario is a process.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <string>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "fill_up.h"
#include "scenario.h"

namespace freeway::test {
namespace {

void limit_to(rlim_t bytes, __rlimit_resource resource = RLIMIT_AS) {
  rlimit limit;
  getrlimit(resource, &limit);
  limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
  require(setrlimit(resource, &limit) == 0, "setrlimit");
}
void lift_limit() { limit_to(RLIM_INFINITY); }

// What is no allocation of ours gets its address space.
void require_room_for_others() {
  bool ran = false;
  std::thread([&] { ran = hide(malloc(100)) != nullptr; }).join();
  require(ran, "a thread");
  void* library = dlopen("libBrokenLocale.so.1", RTLD_NOW);
  require(library != nullptr, "dlopen");
  dlclose(library);
  void* area = mmap(nullptr, 64 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(area != MAP_FAILED, "mmap");
  munmap(area, 64 * kMiB);
}

// Blocks up to the limit, not beyond it; then less, and all is well.
void live_below(size_t limit) {
  Link* chain = nullptr;
  require_room_for_others();
  for (int i = 0; i < 1000; ++i) {
    auto* link = static_cast<Link*>(hide(malloc(i % 2 == 0 ? 100'000 : 3000)));
    require(link != nullptr, "a block well below the limit");
    *link = {chain, 3000};
    memset(link + 1, 0x5a, 200);
    chain = link;
  }
  errno = 0;
  require(hide(malloc(size_t{4} << 30)) == nullptr && errno == ENOMEM, "four times the limit was granted");
  Link* more = nullptr;
  const size_t got = fill_up(more, 100'000) * 100'000;
  require(got <= limit, "more than the limit was granted");
  require(got >= limit / 4, "less than a quarter of the limit could be had");
  free_all(more);
  free_all(chain);
}

FREEWAY_SCENARIO(LimitWhileItRuns) {
  require_everything_works();
  for (int round = 0; round < 3; ++round) {
    // What has once been accessible stays so: a later limit must have room for that.
    const size_t limit = (round == 0 ? 0 : address_space()) + size_t(argument) * kMiB;
    limit_to(limit);
    live_below(limit);
    lift_limit();
    Link* chain = nullptr;
    for (size_t taken = 0; taken < limit + 200 * kMiB; taken += kMiB) {
      auto* link = static_cast<Link*>(hide(malloc(kMiB)));
      require(link != nullptr, "malloc after the limit was raised");
      *link = {chain, kMiB};
      memset(link + 1, 0x5a, 200);
      chain = link;
    }
    free_all(chain);
    require_everything_works();
    malloc_trim(0);
  }
  require_sound_heap();
}

TEST(AddressSpace, ALimitThatIsSetWhileTheProgramRunsHoldsAndLeavesRoomForThreadsAndLibraries) {
  const Outcome outcome = run_scenario("LimitWhileItRuns", 1024);
  EXPECT_TRUE(outcome.succeeded()) << outcome.out << outcome.err;
}

// What is mapped and could be written to; of the heap that is all there is.
size_t accessible_bytes() {
  size_t sum = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512], rights[8];
  for (size_t from, to; maps != nullptr && fgets(line, sizeof line, maps) != nullptr;)
    if (sscanf(line, "%zx-%zx %7s", &from, &to, rights) == 3 && rights[1] == 'w') sum += to - from;
  if (maps != nullptr) fclose(maps);
  return sum;
}

FREEWAY_SCENARIO(ShowsWhatItUses) {
  require(proc_value("status", "VmPeak:") * kKiB < 300 * kMiB, "a small process shows more than 300 MiB");
  Link* chain = nullptr;
  for (int i = 0; i < 20'000; ++i) {
    auto* link = static_cast<Link*>(hide(malloc(i % 3 == 0 ? 100'000 : 5000)));
    require(link != nullptr, "malloc");
    *link = {chain, 5000};
    memset(link + 1, 0x5a, 200);
    chain = link;
  }
  const size_t peak = proc_value("status", "VmPeak:") * kKiB, accessible = accessible_bytes();
  dprintf(1, "VmPeak %zu MiB, accessible %zu MiB\n", peak / kMiB, accessible / kMiB);
  require(accessible > 600 * kMiB && peak <= accessible + accessible / 2,
          "VmPeak is more than 1.5 of what is accessible");
  free_all(chain);
}
TEST(AddressSpace, WhatToolsShowIsWhatIsAccessible) {
  const Outcome outcome = run_scenario("ShowsWhatItUses");
  EXPECT_TRUE(outcome.succeeded()) << outcome.out << outcome.err;
}

FREEWAY_SCENARIO(LocksAllOfItsMemory) {
  free(hide(malloc(10 * kMiB)));
  rlimit locked = {400 * kMiB, RLIM_INFINITY};
  rlimit allowed;
  getrlimit(RLIMIT_MEMLOCK, &allowed);
  if (geteuid() != 0) locked.rlim_max = allowed.rlim_max;
  if (setrlimit(RLIMIT_MEMLOCK, &locked) != 0) _exit(77);
  if (geteuid() == 0) require(setresuid(65534, 65534, 65534) == 0, "setresuid");  // who may lock anything has no limit
  require(mlockall(MCL_CURRENT) == 0, "mlockall");
  void* block = hide(malloc(100'000));
  require(block != nullptr, "malloc");
  free(block);
}
TEST(AddressSpace, MlockallOfWhatIsThereWorksUnderAFiniteLimit) {
  const Outcome outcome = run_scenario("LocksAllOfItsMemory");
  if (outcome.exit_status == 77) GTEST_SKIP() << "not so much may be locked here";
  EXPECT_TRUE(outcome.succeeded()) << outcome.out << outcome.err;
}

// --- Mappings of others. ---------------------------------------------------------------------------------------------

struct Foreign {
  char* at;
  size_t bytes;
};

// Maps something there, if nothing is there yet, and writes to it.
void occupy(std::vector<Foreign>& all, uintptr_t at, size_t bytes) {
  void* area = mmap(reinterpret_cast<void*>(at), bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  if (area == MAP_FAILED) return;
  require(reinterpret_cast<uintptr_t>(area) == at, "no kernel that maps at addresses");
  for (size_t i = 0; i < bytes; i += 4096) static_cast<char*>(area)[i] = 77;
  all.push_back({static_cast<char*>(area), bytes});
}

// Behind every anonymous mapping that can be written to: where arenas, metadata and small mappings would grow.
void occupy_what_is_behind_mappings(std::vector<Foreign>& all) {
  std::vector<uintptr_t> ends;
  FILE* maps = fopen("/proc/self/maps", "r");
  char line[512], rights[8], device[16];
  for (size_t from, to, offset, inode; maps != nullptr && fgets(line, sizeof line, maps) != nullptr;)
    if (sscanf(line, "%zx-%zx %7s %zx %15s %zu", &from, &to, rights, &offset, device, &inode) == 6 && inode == 0 &&
        rights[1] == 'w' && strstr(line, "[") == nullptr)
      ends.push_back(to);
  if (maps != nullptr) fclose(maps);
  for (const uintptr_t end : ends) occupy(all, end + 256 * kKiB, 4096);
}

FREEWAY_SCENARIO(GoesAroundMappingsOfOthers) {
  std::vector<Foreign> foreign;
  foreign.reserve(1000);
  for (int round = 0; round < 3; ++round) {
    char* const here = static_cast<char*>(hide(malloc(100'000)));
    const uintptr_t base = (reinterpret_cast<uintptr_t>(here) + kMiB) & ~(kMiB - 1);
    for (const size_t offset : {size_t{1}, size_t{5}, size_t{9}, size_t{60}, size_t{61}, size_t{200}, size_t{500}})
      occupy(foreign, base + offset * kMiB + 64 * kKiB * size_t(round), 4096);
    occupy(foreign, base + 20 * kMiB, 30 * kMiB);
    occupy(foreign, base + 250 * kMiB, 180 * kMiB);
    if (round > 0) occupy_what_is_behind_mappings(foreign);
    std::vector<std::pair<char*, size_t>> blocks;
    for (int i = 0; i < 12'000; ++i) {
      const size_t size = i % 500 == 0 ? 20 * kMiB : i % 10 == 0 ? 200'000 : i % 3 == 0 ? 20'000 : 300;
      auto* block = static_cast<char*>(hide(malloc(size)));
      require(block != nullptr, "malloc");
      for (const Foreign& each : foreign)
        require(block + size <= each.at || each.at + each.bytes <= block, "a block in another's mapping");
      fill(block, size < 3000 ? size : 3000, static_cast<unsigned>(i));
      block[size - 1] = 1;
      blocks.emplace_back(block, size);
    }
    require_sound_heap();
    for (int i = 0; i < 12'000; ++i) {
      const auto [block, size] = blocks[size_t(i)];
      block[size - 1] = pattern_byte(size - 1, static_cast<unsigned>(i));
      require(holds(block, size < 3000 ? size : 3000, static_cast<unsigned>(i)), "a block was overwritten");
      free(block);
    }
    free(here);
    malloc_trim(0);
    require_sound_heap();
  }
  require(foreign.size() >= 8, "hardly any place was free: these are not the addresses of the heap");
  for (const Foreign& each : foreign)
    for (size_t i = 0; i < each.bytes; i += 4096) require(each.at[i] == 77, "another's mapping was written to");
  require_everything_works();
}
TEST(AddressSpace, MappingsOfOthersWhereTheHeapWouldGrowAreGoneAround) {
  const Outcome outcome = run_scenario("GoesAroundMappingsOfOthers");
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

// --- munmap is refused. ----------------------------------------------------------------------------------------------

// From now on munmap fails with ENOMEM, as at the mapping limit.
void refuse_munmap() {
  sock_filter program[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 0, 1),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
                           BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter = {sizeof program / sizeof *program, program};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) _exit(77);
}

FREEWAY_SCENARIO(MappingsThatCannotBeEnded) {
  if (argument == 0) refuse_munmap();
  for (int i = 0; i < 100; ++i) {
    auto* block = static_cast<char*>(hide(malloc(300 * kMiB + size_t(i) * 100'000)));
    require(block != nullptr, "a block of 300 MiB");
    block[0] = block[200 * kMiB] = 1;
    free(block);
    if (i == 5 && argument == 1) refuse_munmap();
    void* aligned = hide(aligned_alloc(64 * kMiB, 300 * kMiB));
    require(aligned != nullptr && is_aligned(aligned, 64 * kMiB), "an aligned block of 300 MiB");
    free(aligned);
  }
  require(anonymous_rss() < 200 * kMiB, "memory was not given back");
  for (const size_t size : {size_t{16}, size_t{3000}, size_t{100'000}}) free(hide(malloc(size)));
  require_sound_heap();
}
TEST(AddressSpace, BlocksWithAMappingOfTheirOwnCanBeHadWhileNoMappingCanBeEnded) {
  for (const long since : {0, 1}) {
    const Outcome outcome = run_scenario("MappingsThatCannotBeEnded", since);
    if (outcome.exit_status == 77) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out
                                     << outcome.err;
  }
}

}  // namespace
}  // namespace freeway::test
