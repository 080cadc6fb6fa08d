// SPDX-License-Identifier: MIT
// explorer_progress_test.cc: what waits is told from what only has to try again, and steps are each thread's own.
//
// "Progress" of a model: with any one thread stopped for ever at any operation, every other one finishes within
// Options::max_steps operations of its own. A test of that is worth something only if it fails on a lock.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {
namespace {

using u32 = std::uint32_t;

bool says_so(const Result& result) { return result.what.find("operations of its own") != std::string::npos; }

struct Spinlock {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> lock, data;
  void thread(int) {
    for (u32 free = 0; !lock.cas_acquire(free, 1);) free = 0;
    data.store_relaxed(data.load_relaxed() + 1);
    lock.store_release(0);
  }
  void finish() {}
};

struct TestAndSet {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> lock;
  void thread(int) {
    while (lock.exchange_acquire(1) != 0) {}
    lock.store_release(0);
  }
  void finish() {}
};

// Each waits until it is its turn.
struct Tickets {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> next, now;
  void thread(int) {
    const u32 mine = next.fetch_add_relaxed(1);
    while (now.load_acquire() != mine) {}
    now.store_release(mine + 1);
  }
  void finish() {}
};

// Nobody waits for a lock, but all for the one who initialises.
struct OnceWithAStateInBetween {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> state;
  void thread(int) {
    u32 seen = 0;
    if (state.cas_acquire(seen, 1)) state.store_release(2);
    while (state.load_acquire() != 2) {}
  }
  void finish() {}
};

// Two that undo each other's step: obstruction-free only.
struct TwoFlags {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> flag[2];
  void thread(int id) {
    for (;;) {
      flag[id].exchange_acq_rel(1);
      if (flag[1 - id].fetch_add_acq_rel(0) == 0) break;
      flag[id].exchange_acq_rel(0);
    }
    flag[id].exchange_acq_rel(0);
  }
  void finish() {}
};

template <class Program>
void expect_waits(std::initializer_list<MemoryModel> models = {MemoryModel::kWeak, MemoryModel::kSequential}) {
  for (MemoryModel memory : models) {
    const Options options{.memory = memory, .max_steps = 60};
    Result running = explore<Program>(options);
    EXPECT_TRUE(running.failed && says_so(running)) << running.report();
    // Also if it is searched only with a thread stopped: the first search must not be what finds it.
    bool found = false;
    for (int thread = 0; thread < Program::kThreads; ++thread)
      for (int after = 1; after < 3; ++after) {
        Options stopped = options;
        stopped.stall_thread = thread;
        stopped.stall_after = after;
        const Result result = explore<Program>(stopped);
        found = found || (result.failed && says_so(result));
      }
    EXPECT_TRUE(found);
  }
}

TEST(Progress, ASpinlockHasNone) { expect_waits<Spinlock>(); }
// (Sixty exchanges between two values are more than weak memory's timestamps have room for.)
TEST(Progress, ATestAndSetLockHasNone) { expect_waits<TestAndSet>({MemoryModel::kSequential}); }
TEST(Progress, ATicketLockHasNone) { expect_waits<Tickets>(); }
TEST(Progress, OnceWithAStateInBetweenHasNone) { expect_waits<OnceWithAStateInBetween>(); }

TEST(Progress, TwoThatUndoEachOthersStepHaveNone) {
  Result result = explore<TwoFlags>({.max_steps = 60});
  EXPECT_TRUE(result.failed && says_so(result)) << result.report();
}

// Lock-free, not wait-free: who fails has seen another succeed, and the others have only so much to do.
struct Counter {
  static constexpr int kThreads = 3;
  ModelEnv::Atomic<u32> count;
  void thread(int) {
    u32 seen = count.load_relaxed();
    while (!count.cas_relaxed(seen, seen + 1)) {}
  }
  void finish() {
    const u32 stopped = model_stalled() >= 0;
    model_check(count.load_relaxed() + stopped >= 3, "who was not stopped has counted");
  }
};

TEST(Progress, ACountingLoopHas) {
  Result result = explore_stalls<Counter>();
  EXPECT_TRUE(result.ok() && result.exhausted) << result.report();
  // A load, and a failure for each of the others.
  EXPECT_EQ(result.max_operations, (std::vector<int>{4, 4, 4}));
  EXPECT_TRUE(explore_stalls<Counter>({.max_steps = 4}).ok());
  result = explore_stalls<Counter>({.max_steps = 3});
  EXPECT_TRUE(result.failed && says_so(result)) << result.report();
}

// The bound is each thread's own: many short threads do not add up.
struct Long {
  static constexpr int kThreads = 3;
  ModelEnv::Atomic<u32> words[3];
  void thread(int id) {
    for (int i = 0; i < 50; ++i) words[id].fetch_add_relaxed(1);
  }
  void finish() {}
};

TEST(Progress, StepsAreEachThreadsOwn) {
  Result result = explore<Long>({.max_steps = 50});
  EXPECT_TRUE(result.ok() && result.exhausted) << result.report();
  EXPECT_EQ(result.max_depth, 150);
  result = explore<Long>({.max_steps = 49});
  EXPECT_TRUE(result.failed && says_so(result));
  // Random walks, and with a thread stopped: the same bound.
  EXPECT_TRUE(explore<Long>({.random_walks = 10, .max_steps = 50}).ok());
  EXPECT_TRUE(explore<Long>({.random_walks = 10, .max_steps = 49}).failed);
  EXPECT_TRUE(explore<Long>({.stall_thread = 0, .stall_after = 49, .max_steps = 50}).ok());
  EXPECT_TRUE(explore<Long>({.stall_thread = 0, .stall_after = 3, .max_steps = 49}).failed) << "the other two";
}

}  // namespace
}  // namespace freeway::model
