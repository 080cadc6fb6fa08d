// SPDX-License-Identifier: MIT
//
// no_system_call_test.cc: threads that would be killed at a system call allocate and free a million times within what
// was reserved. They were made, and had called malloc, before. Nothing tells them to stay on a CPU.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/abi/scenario.h"
#include "tests/malloc/reserve/filter.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr unsigned kThreads = 4;
constexpr unsigned kBefore = 20'000;  // calls of each thread before the filter
constexpr size_t kSlots = 2000;       // of a thread

struct Block {
  void* address;
  size_t size;
};
Block blocks[kThreads][kSlots];
std::atomic<unsigned> ready, done;
std::atomic<bool> go;
std::atomic<long> faults;

long page_faults() {
  rusage usage;
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

void touch(const Block& block) {
  auto* bytes = static_cast<volatile char*>(block.address);
  bytes[0] = 1;
  bytes[block.size - 1] = 1;
  for (size_t at = 4096; at < block.size; at += 4096) bytes[at] = 1;
}

// A thread's `calls`, each of a slot: free what is there, or allocate size_of(slot, random).
template <class SizeOf> void work(unsigned self, int calls, Random& random, const SizeOf& size_of) {
  for (int i = 0; i < calls; ++i) {
    const size_t slot = random.below(kSlots);
    Block& block = blocks[self][slot];
    if (block.address != nullptr) {
      free(block.address);
      block.address = nullptr;
    } else {
      block.size = size_of(slot, random);
      block.address = malloc(block.size);
      if (block.address == nullptr) _exit(4);
      touch(block);
    }
  }
}

// Brings all code into memory: faults there are not the heap's.
void load_code() {
  const auto lock = [](dl_phdr_info* info, size_t, void*) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
      mlock(reinterpret_cast<void*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
    }
    return 0;
  };
  dl_iterate_phdr(lock, nullptr);
}

// All threads work, before and behind the filter; ends the process. `may_fault`: whether new pages are no failure.
template <class SizeOf> [[noreturn]] void run(const SizeOf& size_of, bool may_fault) {
  const uint64_t seed = test_seed();
  load_code();
  for (unsigned t = 0; t < kThreads; ++t)
    std::thread([t, seed, &size_of] {
      Random random(seed + t);
      for (Block& block : blocks[t]) block = {nullptr, 1};  // its page is there
      work(t, kBefore, random, size_of);
      ++ready;
      while (!go) sched_yield();
      if (!forbid_system_calls()) _exit(5);
      const long before = page_faults();
      work(t, 1'000'000, random, size_of);
      faults += page_faults() - before;
      ++done;
      // The C library gives the stack of a thread that ends back.
      for (const timespec day = {86400, 0};;) clock_nanosleep(CLOCK_MONOTONIC, 0, &day, nullptr);
    }).detach();
  while (ready != kThreads) sched_yield();
  go = true;
  while (done != kThreads) usleep(1000);
  dprintf(1, "%ld page faults\n", faults.load());
  constexpr long kMoved = 8;  // the kernel may move a page
  _exit(faults > kMoved && !may_fault ? 6 : 0);
}

// The sizes of which blocks are reserved; slot i has blocks of the i-th, modulo their number.
constexpr size_t kSizes[] = {24, 200, 1000, 3000, 30000, 100000};
constexpr size_t kEach = kSlots / 6 + 1;

FREEWAY_SCENARIO(WithinWhatWasReserved) {
  for (const size_t size : kSizes)
    if (const size_t got = freeway_reserve(size, kThreads * kEach); got < kThreads * kEach) {
      dprintf(2, "%zu of %zu\n", got, size);
      _exit(3);
    }
  run([](size_t slot, Random&) { return kSizes[slot % 6]; }, /*may_fault=*/false);
}

FREEWAY_SCENARIO(WithinWhatIsResidentFromTheStart) {
  // Of all sizes, 10 MiB a thread on average; the longest few pages. Superblocks come and go.
  run([](size_t, Random& random) { return random.below(100) == 0 ? 1 + random.below(60000) : 1 + random.below(9000); },
      /*may_fault=*/true);
}

// Behind the filter more memory is needed than before.
FREEWAY_SCENARIO(NothingIsReady) {
  static std::atomic<unsigned> calls;
  const auto size_of = [](size_t, Random& random) {
    return (++calls <= kThreads * kBefore ? 0 : 100'000) + 1 + random.below(60'000);
  };
  run(size_of, /*may_fault=*/true);
}

void expect_no_call(const char* scenario, std::initializer_list<const char*> options) {
  const Outcome outcome = run_scenario(scenario, 0, options);
  if (outcome.exit_status == 5) GTEST_SKIP() << "this kernel offers no filters";
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

TEST(NoSystemCall, WithinWhatWasReserved) { expect_no_call("WithinWhatWasReserved", {"FREEWAY_PURGE=never"}); }
TEST(NoSystemCall, WithinWhatIsResidentFromTheStart) {
  expect_no_call("WithinWhatIsResidentFromTheStart", {"FREEWAY_PREFAULT=160m", "FREEWAY_PURGE=never"});
}
// The filter sees what there would be to see.
TEST(NoSystemCall, WithoutAReserveTheFilterKills) {
  const Outcome outcome = run_scenario("NothingIsReady");
  if (outcome.exit_status == 5) GTEST_SKIP() << "this kernel offers no filters";
  EXPECT_EQ(outcome.signal, SIGSYS) << outcome.exit_status << outcome.out << outcome.err;
}

}  // namespace
}  // namespace freeway::test
