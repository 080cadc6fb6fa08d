// SPDX-License-Identifier: MIT
//
// The work-stealing scheduler: each task is run exactly once, whoever takes it, and loops and phases cover what they
// say.
#include "streamflow/work_stealing.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>
#include <vector>

#include "streamflow/knary_tree.h"

namespace {

using bench::Malloc;
using bench::Task;
using bench::Worker;
using Deque = bench::WorkDeque<Task>;

TEST(WorkDeque, OwnerTakesTheYoungestAndThievesTheOldest) {
  std::array<Deque::Slot, 4> slots{};
  Deque deque(slots.data(), slots.size());
  Task tasks[4] = {};
  EXPECT_EQ(deque.pop(), nullptr);
  EXPECT_EQ(deque.steal(), nullptr);
  for (Task& task : tasks) EXPECT_TRUE(deque.push(&task));
  EXPECT_EQ(deque.pop(), &tasks[3]);
  EXPECT_EQ(deque.steal(), &tasks[0]);
  EXPECT_EQ(deque.steal(), &tasks[1]);
  EXPECT_EQ(deque.pop(), &tasks[2]);
  EXPECT_EQ(deque.pop(), nullptr);
  EXPECT_EQ(deque.steal(), nullptr);
}

TEST(WorkDeque, RefusesWhatDoesNotFitAndGoesRound) {
  std::array<Deque::Slot, 4> slots{};
  Deque deque(slots.data(), slots.size());
  Task tasks[5] = {};
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(deque.push(&tasks[i]));
    ASSERT_FALSE(deque.push(&tasks[4]));
    ASSERT_EQ(deque.steal(), &tasks[0]);
    ASSERT_TRUE(deque.push(&tasks[4]));
    ASSERT_FALSE(deque.push(&tasks[0]));
    for (int i = 4; i > 0; --i) ASSERT_EQ(deque.pop(), &tasks[i]);
    ASSERT_EQ(deque.pop(), nullptr);
  }
}

// The owner pushes and pops in bursts that often leave one task, for which it and the thieves then compete, and that
// often fill the small deque.
TEST(WorkDeque, EachTaskIsTakenExactlyOnce) {
  constexpr std::size_t kTasks = 300'000, kThieves = 3;
  struct Numbered : Task {
    std::atomic<int> taken{0};
  };
  std::vector<Numbered> tasks(kTasks);
  std::array<Deque::Slot, 16> slots{};
  Deque deque(slots.data(), slots.size());
  std::atomic<bool> over{false};
  std::atomic<std::size_t> stolen{0};
  const auto take = [](Task* task) { static_cast<Numbered*>(task)->taken.fetch_add(1); };

  std::vector<std::thread> thieves;
  for (std::size_t t = 0; t < kThieves; ++t)
    thieves.emplace_back([&] {
      while (!over.load()) {
        if (Task* task = deque.steal()) {
          take(task);
          stolen.fetch_add(1);
        } else {
          sched_yield();
        }
      }
    });
  bench::Random random(11);
  for (std::size_t next = 0; next < kTasks;) {
    for (std::uint64_t burst = random.between(1, 20); burst > 0 && next < kTasks; --burst, ++next)
      if (!deque.push(&tasks[next])) take(&tasks[next]);
    if (random.below(64) == 0) sched_yield();
    for (std::uint64_t pops = random.between(0, 20); pops > 0; --pops)
      if (Task* task = deque.pop()) take(task);
  }
  while (Task* task = deque.pop()) take(task);
  over.store(true);
  for (auto& thief : thieves) thief.join();

  for (std::size_t i = 0; i < kTasks; ++i) ASSERT_EQ(tasks[i].taken.load(), 1) << "task " << i;
  EXPECT_GT(stolen.load(), 0u);
}

TEST(Scheduler, LoopsCoverEachNumberOnce) {
  for (const std::size_t threads : {1, 2, 5}) {
    bench::Scheduler<Malloc> scheduler(threads);
    for (const std::size_t count : {0, 1, 7, 1000, 5000}) {
      std::vector<std::atomic<int>> seen(count);
      bench::parallel_for(scheduler, count, 3, [&](Worker& worker, std::size_t begin, std::size_t end) {
        EXPECT_LT(worker.index(), threads);
        EXPECT_LE(end - begin, 3u);
        for (std::size_t i = begin; i < end; ++i) seen[i].fetch_add(1);
      });
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(seen[i].load(), 1) << i << " of " << count;
    }
  }
}

TEST(Scheduler, OnEachRunsOnceOnEachWorkerAndReturnsAfterTheLast) {
  for (const std::size_t threads : {1, 2, 5}) {
    bench::Scheduler<Malloc> scheduler(threads);
    std::vector<int> runs(threads);
    for (int phase = 1; phase <= 200; ++phase) {
      scheduler.on_each([&](Worker& worker) { ++runs[worker.index()]; });
      for (const int count : runs) ASSERT_EQ(count, phase);
    }
  }
}

TEST(Scheduler, MoreTasksThanADequeHoldsAreAllRun) {
  struct Fan : Task {
    std::atomic<int>* left;
  };
  constexpr int kLeaves = 20'000;
  std::atomic<int> left{kLeaves};
  std::vector<Fan> leaves(kLeaves);
  const auto leaf = [](Worker& worker, Task* task) {
    if (static_cast<Fan*>(task)->left->fetch_sub(1) == 1) worker.finish();
  };
  for (Fan& fan : leaves) fan = {{leaf}, &left};
  struct Root : Task {
    std::vector<Fan>* leaves;
  } root{{[](Worker& worker, Task* task) {
           for (Fan& fan : *static_cast<Root*>(task)->leaves) worker.spawn(&fan);
         }},
         &leaves};
  bench::Scheduler<Malloc> scheduler(3);
  scheduler.run(&root);
  EXPECT_EQ(left.load(), 0);
}

TEST(Knary, PresetIsTable1) {
  EXPECT_EQ(knary::kStreamflow.depth, 11u);
  EXPECT_EQ(knary::kStreamflow.branching, 5u);
  EXPECT_EQ(knary::kStreamflow.serial, 0u);
  EXPECT_EQ(knary::kStreamflow.work, 0u);
  EXPECT_EQ(knary::nodes(knary::kStreamflow), 61'035'156u);  // "61M"
}

TEST(Knary, TreeHasAllItsNodesWhetherSerialOrNot) {
  for (const std::size_t threads : {1, 2, 5}) {
    bench::Scheduler<Malloc> scheduler(threads);
    for (const unsigned branching : {1, 2, 5}) {
      std::uint64_t checksum = 0;
      for (unsigned serial = 0; serial <= branching; ++serial) {
        const knary::Shape shape{5, branching, serial, 3};
        const knary::Result result = knary::Tree<Malloc>(shape).grow(scheduler);
        EXPECT_EQ(result.nodes, knary::nodes(shape));
        if (serial == 0) checksum = result.checksum;
        EXPECT_EQ(result.checksum, checksum) << branching << ", serial " << serial;
      }
    }
    const knary::Result alone = knary::Tree<Malloc>({0, 5, 0, 0}).grow(scheduler);
    EXPECT_EQ(alone.nodes, 1u);
  }
}

// malloc that counts how many blocks there were at once.
struct Watched {
  static inline std::atomic<int> now{0}, most{0};
  static void* allocate(std::size_t size) {
    const int count = now.fetch_add(1) + 1;
    for (int seen = most.load(); seen < count && !most.compare_exchange_weak(seen, count);) {}
    return bench::must_malloc(size);
  }
  static void free(void* block) {
    now.fetch_sub(1);
    std::free(block);
  }
};

// A serial child and all below it are complete before the next one exists: never more than one node on each level.
TEST(Knary, SerialChildrenExistOneAfterAnother) {
  bench::Scheduler<Watched> scheduler(4);
  const int without = Watched::now.load();
  for (const auto& [serial, least, most] : {std::tuple{3u, 6, 6}, {2u, 6, 6}, {0u, 8, 1000}}) {
    Watched::most.store(without);
    knary::Tree<Watched>({5, 3, serial, 0}).grow(scheduler);
    EXPECT_EQ(Watched::now.load(), without);
    EXPECT_GE(Watched::most.load() - without, least) << "serial " << serial;
    EXPECT_LE(Watched::most.load() - without, most) << "serial " << serial;
  }
}

}  // namespace
