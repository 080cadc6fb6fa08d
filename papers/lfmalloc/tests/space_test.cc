// SPDX-License-Identifier: MIT
//
// What LFMalloc needs in space. The paper: one superblock on line for each size class and CPU, so the heap does not
// grow with the number of threads (4.98 to 5.9 MB in threadtest with 1 to 256 threads); and (not said there, but so by
// its pseudo-code) a superblock that is on line on an idle CPU keeps what was freed to it from elsewhere.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/whole/signal/support/heap_account.h"

namespace {

using namespace freeway_test;

freeway_stats_t stats() {
  freeway_stats_t s;
  heap_account.stats(&s, sizeof s);
  return s;
}

// The paper's threadtest: rounds in which the threads together allocate so many blocks, and free them. What the
// superblocks were at the moment when everything was allocated, at most.
size_t superblocks_of_threadtest(size_t threads) {
  constexpr size_t kBlocks = 65536, kRounds = 5, kBytes = 56;
  static pthread_barrier_t barrier;
  static void* blocks[kBlocks];  // of all threads: none has memory of its own
  static size_t most;
  most = 0;
  ::pthread_barrier_init(&barrier, nullptr, static_cast<unsigned>(threads));
  std::vector<std::thread> all;
  for (size_t id = 0; id < threads; ++id)
    all.emplace_back([=] {
      const size_t first = kBlocks / threads * id, end = first + kBlocks / threads;
      for (size_t round = 0; round < kRounds; ++round) {
        for (size_t i = first; i < end; ++i) blocks[i] = ::malloc(kBytes);
        if (::pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
          const size_t now = stats().superblocks;
          most = now > most ? now : most;
        }
        ::pthread_barrier_wait(&barrier);
        for (size_t i = first; i < end; ++i) ::free(blocks[i]);
        ::pthread_barrier_wait(&barrier);
      }
    });
  for (std::thread& each : all) each.join();
  ::pthread_barrier_destroy(&barrier);
  return most;
}

TEST(Space, TheHeapDoesNotGrowWithThreads) {
  ASSERT_TRUE(freeway_is_malloc());
  const size_t one = superblocks_of_threadtest(1);
  // 65536 blocks of 64 bytes fill 65 superblocks. Each local heap has one more on line, and what a thread's start and
  // end allocate is of a few classes.
  const size_t heaps = rseq_mode() ? usable_cpus().size() : 2 * usable_cpus().size();
  for (const size_t threads : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
    const size_t now = superblocks_of_threadtest(threads);
    std::printf("  %3zu threads: %zu superblocks, %zu KiB\n", threads, now, now * 64);
    EXPECT_LE(now, one + 4 * heaps + 8) << threads << " threads";
    EXPECT_GE(now, 64U);
  }
}

TEST(Space, EntirelyFreeSuperblocksAreGivenBackBeyondALimit) {
  std::vector<void*> blocks(20000);
  for (void*& block : blocks) block = ::malloc(1000);
  const size_t full = stats().superblocks;
  for (void* block : blocks) ::free(block);
  const size_t after = stats().superblocks;
  std::printf("  %zu superblocks in use, %zu after all was freed\n", full, after);
  EXPECT_GE(full, 20000U / 64);
  EXPECT_LE(after, full - 20000 / 64 + 16 + 8) << "FREEWAY_EMPTIES is 16; some more are on line";
}

// Superblocks that became empty serve another class (section 3.2.2 (7)): nothing new is taken from the system.
TEST(Space, EmptySuperblocksAreReformatted) {
  std::vector<void*> blocks(12 * 64);
  for (void*& block : blocks) block = ::malloc(1000);
  for (void* block : blocks) ::free(block);
  const size_t before = stats().superblocks;
  for (void*& block : blocks) block = ::malloc(600);  // as many bytes or less, of another class
  EXPECT_LE(stats().superblocks, before + 2);
  for (void* block : blocks) ::free(block);
}

// A CPU that goes idle keeps the superblocks that it has on line, with all that other CPUs free into them. No trim on
// another CPU reaches them; one there does.
TEST(Space, AnIdleCpuKeepsWhatWasFreedToItsSuperblocks) {
  const std::vector<int> cpus = usable_cpus();
  if (!rseq_mode() || cpus.size() < 2) GTEST_SKIP() << "needs restartable sections and two CPUs";
  constexpr size_t kBytes = 5000, kBlocks = 400;
  const auto frame_of = [](void* block) { return reinterpret_cast<uintptr_t>(block) / kFrameBytes; };
  stay_on(cpus[0]);
  std::vector<void*> blocks(kBlocks);
  for (void*& block : blocks) block = ::malloc(kBytes);
  const uintptr_t online = frame_of(blocks.back());
  const auto in_it = [&] {
    return std::count_if(blocks.begin(), blocks.end(), [&](void* block) { return frame_of(block) == online; });
  };
  const auto in_use = in_it();
  EXPECT_GT(in_use, 0);
  stay_on(cpus[1]);
  for (void* block : blocks) ::free(block);
  // All of them are free, but those of the superblock that is on line over there are not to be had here.
  for (void*& block : blocks) block = ::malloc(kBytes);
  EXPECT_EQ(in_it(), 0);
  for (void* block : blocks) ::free(block);
  ::malloc_trim(0);
  for (void*& block : blocks) block = ::malloc(kBytes);
  EXPECT_EQ(in_it(), 0);
  for (void* block : blocks) ::free(block);
  // Back there, it goes off line once its local list is used up, and is in the global heap with its remote list: used
  // again.
  stay_on(cpus[0]);
  for (void*& block : blocks) block = ::malloc(kBytes);
  EXPECT_GE(in_it(), in_use);
  for (void* block : blocks) ::free(block);
  stay_on(cpus[1]);
  EXPECT_EQ(::malloc_trim(0), 1) << "what was on line here";
  EXPECT_EQ(::malloc_trim(0), 0);
  const size_t before = stats().superblocks;
  stay_on(cpus[0]);
  EXPECT_EQ(::malloc_trim(0), 1) << "what is on line there";
  EXPECT_LT(stats().superblocks, before);
  for (const int cpu : cpus) {
    stay_on(cpu);
    ::malloc_trim(0);
  }
  for (const int cpu : cpus) {
    stay_on(cpu);
    EXPECT_EQ(::malloc_trim(0), 0) << "nothing is left anywhere";
  }
  stay_on(cpus);
}

}  // namespace
