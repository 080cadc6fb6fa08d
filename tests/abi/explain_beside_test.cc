// SPDX-License-Identifier: MIT
//
// explain_beside_test.cc: freeway_explain and freeway_explain_to where others are in the middle of something: in
// handlers that interrupted malloc, in children of a fork, beside threads that never come back, and without memory.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <string>
#include <vector>

#include "abi_test.h"
#include "freeway/freeway.h"
#include "scenario.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr int kKept = 40;
char* kept[kKept];  // live, of all kinds
int lines = -1;     // where lines are written

void keep_blocks() {
  for (int i = 0; i < kKept; ++i) {
    const size_t size = i % 4 == 3 ? 40 * kKiB << i % 5 : size_t{16} << i % 12;
    require((kept[i] = static_cast<char*>(hide(malloc(size)))) != nullptr, "a block");
  }
  require((lines = open("/dev/null", O_WRONLY | O_CLOEXEC)) >= 0, "/dev/null");
}

// Exact, whatever others do: nobody touches these. Calls nothing but freeway_explain and what it may itself.
bool explains_kept() {
  for (int i = 0; i < kKept; ++i) {
    freeway_explanation_t found;
    const size_t offset = static_cast<size_t>(i) % 16;
    const bool small = i % 4 != 3;
    if (freeway_explain(kept[i] + offset, &found, sizeof found) !=
            (small ? FREEWAY_SMALL_BLOCK : FREEWAY_LARGE_BLOCK) ||
        found.state != FREEWAY_LIVE || found.begin != kept[i] || found.offset != static_cast<ptrdiff_t>(offset))
      return false;
  }
  freeway_explain_to(lines, kept[1]);
  return freeway_explain(&lines, nullptr, 0) == FREEWAY_NOT_OURS;
}

thread_local volatile int inside = 0;  // of malloc or free
std::atomic<unsigned> interrupted{0}, wrong{0}, parked{0};
std::atomic<void*> shown{nullptr};  // of a block that comes and goes
std::atomic<bool> over{false};
enum Deed { kExplain, kPark };
Deed deed;

void handler(int) {
  const int saved_errno = errno;
  if (inside == 0) return;
  ++interrupted;
  if (deed == kPark) {
    ++parked;
    for (;;) pause();
  }
  if (!explains_kept()) ++wrong;
  freeway_explanation_t found;
  freeway_explain(shown.load(), &found, sizeof found);
  if (found.begin != nullptr && static_cast<size_t>(found.offset) >= found.size) ++wrong;
  errno = saved_errno;
}

void* allocate(void* seed) {
  Random random(reinterpret_cast<uintptr_t>(seed));
  void* table[100] = {};
  while (!over) {
    void*& slot = table[random.below(100)];
    const size_t size = random.chance(3) ? 33 * kKiB + random.below(300 * kKiB) : 1 + random.below(2000);
    inside = 1;
    free(slot);
    slot = malloc(size);
    inside = 0;
    shown = slot;
    if (random.chance(1))
      for (void*& each : table) {
        inside = 1;
        free(each);
        inside = 0;
        each = nullptr;
      }
  }
  for (void* each : table) free(each);
  return nullptr;
}

struct Allocators {
  pthread_t threads[4];
  explicit Allocators(unsigned long seed) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    for (unsigned long i = 0; i < 4; ++i)
      require(pthread_create(&threads[i], nullptr, allocate, reinterpret_cast<void*>(seed + i)) == 0, "a thread");
  }
  void end() {
    over = true;
    for (pthread_t thread : threads) pthread_join(thread, nullptr);
  }
};

void nap() { usleep(50); }

FREEWAY_SCENARIO(ExplainsInHandlers) {
  deed = kExplain;
  keep_blocks();
  Allocators allocators(static_cast<unsigned long>(argument));
  for (unsigned i = 0; interrupted < 3000; ++i, nap()) pthread_kill(allocators.threads[i % 4], SIGUSR1);
  allocators.end();
  require(wrong == 0, "true answers");
}
TEST(ExplainBeside, AHandlerThatInterruptedMallocOrFreeIsToldTheTruth) {
  const Outcome outcome = run_scenario("ExplainsInHandlers", static_cast<long>(test_seed() >> 1));
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
}

FREEWAY_SCENARIO(ExplainsInChildren) {
  keep_blocks();
  Allocators allocators(static_cast<unsigned long>(argument));
  for (int i = 0; i < 200; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      alarm(20);
      void* block = malloc(100);
      const bool good = explains_kept() && freeway_explain(block, nullptr, 0) == FREEWAY_SMALL_BLOCK;
      _exit(good ? 0 : 1);
    }
    int status = 0;
    require(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "a child that is told the truth");
  }
  allocators.end();
}
TEST(ExplainBeside, AChildOfAForkBesideAllocatingThreadsIsToldTheTruth) {
  const Outcome outcome = run_scenario("ExplainsInChildren", static_cast<long>(test_seed() >> 1));
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
}

FREEWAY_SCENARIO(ExplainsBesideTheStopped) {
  deed = kPark;
  keep_blocks();
  Allocators allocators(static_cast<unsigned long>(argument));
  for (unsigned i = 0; parked < 4; ++i, nap()) pthread_kill(allocators.threads[i % 4], SIGUSR1);
  alarm(60);
  for (int i = 0; i < 1000; ++i) require(explains_kept(), "the truth");
  freeway_explain(shown.load(), nullptr, 0);
  char* block = static_cast<char*>(hide(malloc(1000)));
  freeway_explanation_t found;
  freeway_explain(block, &found, sizeof found);
  require(found.state == FREEWAY_LIVE && found.begin == block, "a live block");
  free(block);
  freeway_explain(block, &found, sizeof found);
  require(found.state == FREEWAY_FREE && found.begin == block, "a freed one");
  _exit(0);
}
TEST(ExplainBeside, ThreadsThatStopInsideMallocOrFreeForEverAreNotWaitedFor) {
  for (const long more : {0L, 1L, 2L}) {
    const Outcome outcome = run_scenario("ExplainsBesideTheStopped", static_cast<long>(test_seed() >> 1) + 10 * more);
    EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
  }
}

FREEWAY_SCENARIO(ExplainsWithoutMemory) {
  keep_blocks();
  rlimit limit;
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = proc_value("status", "VmData:") * kKiB;
  require(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
  int blocks = 0;
  for (size_t size = kMiB; size >= 16; size /= 2)
    while (hide(malloc(size)) != nullptr) ++blocks;
  require(hide(malloc(16)) == nullptr && blocks > 0, "no memory");
  require(explains_kept(), "the truth");
}
TEST(ExplainBeside, NoMemoryIsNeeded) {
  const Outcome outcome = run_scenario("ExplainsWithoutMemory");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
}

}  // namespace
}  // namespace freeway::test
