// SPDX-License-Identifier: MIT
//
// The library itself, one instruction after the other (the processor's trap flag): malloc and free of either kind, by
// their owner or another thread, execute no locked instruction. Says how many they execute. x86-64 only.
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <ucontext.h>

#include <atomic>
#include <thread>
#include <vector>

#include "routes.h"

#if defined(__x86_64__)
namespace freeway::hmalloc {
namespace {

volatile long steps, locked;

// The lock prefix among the others, or xchg with memory, which is locked without it.
bool is_locked(const unsigned char* ip) {
  for (; *ip == 0x66 || *ip == 0x64 || *ip == 0x65 || *ip == 0x2e || *ip == 0x3e || *ip == 0xf0; ++ip)
    if (*ip == 0xf0) return true;
  if ((*ip & 0xf0) == 0x40) ++ip;  // REX
  return (*ip == 0x86 || *ip == 0x87) && ip[1] < 0xc0;
}

void on_trap(int, siginfo_t*, void* context) {
  const auto* u = static_cast<const ucontext_t*>(context);
  steps = steps + 1;
  if (is_locked(reinterpret_cast<const unsigned char*>(u->uc_mcontext.gregs[REG_RIP]))) locked = locked + 1;
}

// Runs f under the trap flag; how many locked instructions it executed.
template <class F> long count_locked(const char* what, F&& f) {
  route("freeway_malloc_local");  // step by step, the flagship's restartable sections would start again for ever
  struct sigaction action{};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGTRAP, &action, nullptr);
  steps = 0;
  locked = 0;
  asm volatile("lea -128(%%rsp), %%rsp; pushfq; orq $0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::: "memory", "cc");
  f();
  asm volatile("lea -128(%%rsp), %%rsp; pushfq; andq $~0x100, (%%rsp); popfq; lea 128(%%rsp), %%rsp" ::
                   : "memory", "cc");
  std::printf("  %-40s %4ld instructions, %ld locked\n", what, steps, locked);
  return locked;
}

TEST(LockedInstructions, TheCounterCounts) {
  std::atomic<int> word{0};
  EXPECT_EQ(count_locked("fetch_add and exchange",
                         [&] {
                           word.fetch_add(1);
                           word.exchange(2);
                         }),
            2);
  EXPECT_GT(steps, 3);
}

TEST(LockedInstructions, NoneInMallocAndFree) {
  void* block = nullptr;
  free(malloc(40));
  EXPECT_EQ(count_locked("malloc, cached block", [&] { block = malloc(40); }), 0);
  EXPECT_EQ(count_locked("free, to the cache list", [&] { free(block); }), 0);
  std::vector<void*> blocks;
  while (blocks.size() < 300) blocks.push_back(malloc(40));
  EXPECT_EQ(count_locked("malloc, vacant block", [&] { block = malloc(40); }), 0);
  for (void* each : blocks) free(each);
  EXPECT_EQ(count_locked("free, list full: the flag", [&] { free(block); }), 0);
}

TEST(LockedInstructions, NoneInFreeByAnotherThread) {
  std::vector<void*> blocks;
  while (blocks.size() < 300) blocks.push_back(malloc(40));
  std::thread([&] {
    free(malloc(40));  // begins the thread's heap
    EXPECT_EQ(count_locked("remote free, to the cache list", [&] { free(blocks[0]); }), 0);
    for (int i = 1; i < 200; ++i) free(blocks[static_cast<size_t>(i)]);
    EXPECT_EQ(count_locked("remote free, list full: the flag", [&] { free(blocks[200]); }), 0);
  }).join();
}

TEST(LockedInstructions, NoneInTheProbeAndTheWalk) {
  void* blocks[300];
  for (void*& block : blocks) block = malloc(32000);
  for (void* block : blocks) free(block);  // 100 of them go to the list
  for (int i = 0; i < 100; ++i) blocks[i] = malloc(32000);
  void* block = nullptr;
  EXPECT_EQ(count_locked("malloc, the Index-th block, or the walk", [&] { block = malloc(32000); }), 0);
  free(block);
  for (int i = 0; i < 100; ++i) free(blocks[i]);
}

TEST(LockedInstructions, NoneInLocalMallocAndFree) {
  void* block = malloc_local(40);
  void* other = nullptr;
  EXPECT_EQ(count_locked("malloc_local", [&] { other = malloc_local(40); }), 0);
  EXPECT_EQ(count_locked("free of a local block", [&] { free(other); }), 0);
  EXPECT_EQ(count_locked("free of the last one: coalescence", [&] { free(block); }), 0);
}

}  // namespace
}  // namespace freeway::hmalloc
#endif
