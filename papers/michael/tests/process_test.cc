// SPDX-License-Identifier: MIT
//
// The engine as the process's malloc, with each of its options (the environment of the test says which): threads that
// free each other's blocks, audited; and the paper's claim of tolerance to priority inversion, where this process may
// ask for real-time priorities.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "freeway/freeway.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

struct Header {
  uint64_t bytes, seed;
};

// A block that says what it is made of, to whoever frees it.
void* make(Random& random) {
  const std::size_t bytes = sizeof(Header) + random.below(random.chance(95) ? 200 : 9000);
  void* block = random.chance(10) ? aligned_alloc(64, (bytes + 63) / 64 * 64) : malloc(bytes);
  if (block == nullptr) return nullptr;
  const Header header = {bytes, random.next()};
  memset(block, static_cast<int>(header.seed & 0xff), bytes);
  memcpy(block, &header, sizeof(header));
  return block;
}
bool unmake(void* block) {
  Header header;
  memcpy(&header, block, sizeof(header));
  const auto* p = static_cast<const unsigned char*>(block);
  bool good = header.bytes < 20000;
  for (std::size_t i = sizeof(header); good && i < header.bytes; ++i) good = p[i] == (header.seed & 0xff);
  free(block);
  return good;
}

TEST(MichaelProcess, BlocksGoBetweenThreadsAndTheAuditFindsNothing) {
  constexpr int kThreads = 6, kRounds = 20000, kBoxes = 64;
  static std::atomic<void*> boxes[kBoxes];
  std::atomic<int> bad{0};
  const uint64_t seed = test_seed();
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(seed + static_cast<uint64_t>(t));
      for (int i = 0; i < kRounds; ++i) {
        void* mine = make(random);
        if (mine == nullptr) ++bad;
        if (void* theirs = boxes[random.below(kBoxes)].exchange(mine)) bad += !unmake(theirs);
      }
    });
  for (auto& thread : threads) thread.join();
  for (auto& box : boxes)
    if (void* block = box.exchange(nullptr)) bad += !unmake(block);
  EXPECT_EQ(bad.load(), 0);
  freeway_trim(0);
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof(audit)), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

bool become_real_time(int priority) {
  sched_param parameters = {};
  parameters.sched_priority = priority;
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

// Two priorities on one CPU: the high one wakes up in the middle of the low one's calls, again and again, and must get
// through although the low one cannot run meanwhile.
TEST(MichaelProcess, AHighPriorityNeverWaitsForALowOne) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  std::atomic<bool> refused{false}, done{false};
  std::atomic<uint64_t> low_calls{0};
  std::thread low([&] {
    if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0 || !become_real_time(1)) refused = true;
    Random random(1);
    while (!done && !refused) {
      unmake(make(random));
      ++low_calls;
      if (low_calls % 4096 == 0) sched_yield();
    }
  });
  std::thread high([&] {
    if (pthread_setaffinity_np(pthread_self(), sizeof(one), &one) != 0 || !become_real_time(2)) refused = true;
    Random random(2);
    const timespec moment = {0, 200000};
    while (low_calls == 0 && !refused) nanosleep(&moment, nullptr);  // it may start late on a busy machine
    const uint64_t calls_before = low_calls;
    int round = 0;
    // And it must have run in between.
    for (; (round < 300 || low_calls == calls_before) && !refused; ++round) {
      for (int i = 0; i < 20; ++i) unmake(make(random));
      nanosleep(&moment, nullptr);
    }
    done = true;
  });
  high.join();
  low.join();
  if (refused) GTEST_SKIP() << "no real-time priorities for this process";
}

}  // namespace
}  // namespace freeway::test
