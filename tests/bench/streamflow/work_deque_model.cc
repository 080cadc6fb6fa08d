// SPDX-License-Identifier: MIT
//
// work_deque_model.cc: the deque under the model checker: in all interleavings of small programs, each task that was
// pushed is taken once or is still there. The model has no seq_cst of its own, so it is sequentially consistent
// throughout; that the four accesses which the algorithm orders are enough is argued in work_deque.h.
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "streamflow/work_deque.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// std::atomic's interface over the model's words.
template <class T> class Word {
 public:
  Word() = default;
  explicit constexpr Word(T value) : word_(value) {}
  T load(std::memory_order) const { return word_.load_acquire(); }
  void store(T value, std::memory_order) { word_.store_release(value); }
  bool compare_exchange_strong(T& expected, T desired, std::memory_order, std::memory_order) {
    return word_.cas_acq_rel(expected, desired);
  }

 private:
  ModelEnv::Atomic<T> word_;
};

struct Task {
  int taken = 0;
};
constexpr int kTasks = 5, kCapacity = 2;

// Thread 0 is the owner and follows its script: '+' pushes the next task, '-' pops. The others steal once for each 's'.
struct DequeProgram {
  static constexpr int kThreads = 3;

  const char* script[kThreads];
  Task tasks[kTasks];
  int pushed = 0;
  bench::WorkDeque<Task, Word>::Slot slots[kCapacity];
  bench::WorkDeque<Task, Word> deque{slots, kCapacity};

  DequeProgram(const char* owner, const char* first, const char* second) : script{owner, first, second} {
    model_name(slots, "slots");
    model_name(deque, "deque");
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == '+') {
        if (deque.push(&tasks[pushed])) ++pushed;
      } else {
        take(id == 0 ? deque.pop() : deque.steal());
      }
    }
  }
  void take(Task* task) {
    if (task == nullptr) return;
    model_check(task >= tasks && task < tasks + kTasks, "a task that exists");
    ++task->taken;
  }

  void finish() {
    while (Task* task = deque.pop()) take(task);
    for (int i = 0; i < kTasks; ++i) {
      model_observe(static_cast<std::uint64_t>(tasks[i].taken));
      model_check(tasks[i].taken <= 1, "no task is taken twice");
      model_check(tasks[i].taken == (i < pushed ? 1 : 0), "each task that was pushed is taken");
    }
  }
};

Scenario scenario(const char* owner, const char* first, const char* second = "") {
  Scenario made{std::string(owner) + " | " + first + " | " + second, program_type<DequeProgram>(owner, first, second)};
  made.options.memory = MemoryModel::kSequential;
  return made;
}

TEST(WorkDequeModel, OneThief) {
  expect_hold({scenario("+-", "s"), scenario("++--", "ss"), scenario("+-+-", "ss"), scenario("++-+--", "sss"),
               scenario("+++--", "ss")});
}

TEST(WorkDequeModel, TwoThieves) {
  expect_hold({scenario("+-", "s", "s"), scenario("++--", "s", "s"), scenario("++-+-", "s", "s"),
               scenario("+++--", "s", "s"), scenario("++--", "ss", "s")});
}

// The buffer holds two: the third and fourth push need slots that a thief may be about to read.
TEST(WorkDequeModel, SlotsAreUsedAgain) {
  expect_hold({scenario("++++-", "ss"), scenario("+++-+-", "ss"), scenario("+++-", "s", "s")});
}

}  // namespace
}  // namespace freeway::model
