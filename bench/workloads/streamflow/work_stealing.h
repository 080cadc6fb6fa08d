// SPDX-License-Identifier: MIT
//
// work_stealing.h: a small scheduler in the manner of Cilk and Hood, on which knary, barnes and mpcdm run, as the first
// two do in the Streamflow paper (section 4).
//
// A task is a block that the program allocates and frees, with the function that runs it in its first word. A worker
// runs its own youngest task; one that has none steals another's oldest. Thus blocks are mostly freed where they were
// allocated, and a steal is what makes a remote free: the figure that the paper's Table 1 prints.
//
// Idle workers yield, and after many failures sleep a little: programs run with more threads than there are processors.
#ifndef FREEWAY_BENCH_STREAMFLOW_WORK_STEALING_H
#define FREEWAY_BENCH_STREAMFLOW_WORK_STEALING_H

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "streamflow/work_deque.h"
#include "support/profile.h"

namespace bench {

class Worker;

// The first words of every task.
struct Task {
  void (*run)(Worker& worker, Task* task);
};

// What all workers of a scheduler look at.
struct Crew {
  std::vector<Worker*> workers;
  std::atomic<bool> finished{false};  // of the running phase
};

class Worker {
 public:
  Worker(Crew& crew, std::size_t index, WorkDeque<Task>::Slot* slots, std::size_t capacity)
      : crew_(crew), index_(index), random_(index + 1), deque_(slots, capacity) {}

  std::size_t index() const { return index_; }

  // Leaves `task` to whoever comes to it first; runs it at once if the deque is full.
  void spawn(Task* task) {
    if (!deque_.push(task)) task->run(*this, task);
  }

  // Says that nothing is left to do in this phase. Whoever runs the last task calls it.
  void finish() { crew_.finished.store(true, std::memory_order_release); }  // [R1] pairs with [A1]

  // Runs tasks, own and stolen ones, until the phase is finished.
  void work() {
    unsigned failures = 0;
    while (!crew_.finished.load(std::memory_order_acquire)) {  // [A1] pairs with [R1]
      Task* task = deque_.pop();
      if (task == nullptr) task = steal();
      if (task != nullptr) {
        failures = 0;
        task->run(*this, task);
      } else {
        rest(++failures);
      }
    }
  }

 private:
  Task* steal() {
    const std::size_t others = crew_.workers.size() - 1;
    if (others == 0) return nullptr;
    const std::size_t step = 1 + random_.below(others);
    return crew_.workers[(index_ + step) % crew_.workers.size()]->deque_.steal();
  }

  static void rest(unsigned failures) {
    if (failures < 64) {
      sched_yield();
      return;
    }
    const timespec moment{0, 50'000};
    nanosleep(&moment, nullptr);
  }

  Crew& crew_;
  const std::size_t index_;
  Random random_;
  WorkDeque<Task> deque_;
};

// The workers: worker 0 is the thread that made the scheduler, the others wait between phases. Each has two large
// blocks from the allocator, a record and its deque (Table 1's 16 large objects of knary on 8 threads).
template <class Blocks> class Scheduler {
 public:
  explicit Scheduler(std::size_t threads) : records_(threads) {
    for (std::size_t i = 0; i < threads; ++i) crew_.workers.push_back(make_worker(i));
    for (std::size_t i = 1; i < threads; ++i) threads_.emplace_back([this, i] { attend(*crew_.workers[i]); });
  }

  ~Scheduler() {
    phase_ = nullptr;
    start_phase();
    for (auto& thread : threads_) thread.join();
    for (std::size_t i = 0; i < records_.size(); ++i) {
      crew_.workers[i]->~Worker();
      Blocks::free(records_[i].slots);
      Blocks::free(records_[i].page);
    }
  }
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  std::size_t size() const { return crew_.workers.size(); }

  // Runs `root` and all that it spawns, until somebody calls Worker::finish.
  void run(Task* root) {
    crew_.finished.store(false, std::memory_order_relaxed);  // published by start_phase
    crew_.workers[0]->spawn(root);
    everywhere([](void*, Worker& worker) { worker.work(); }, nullptr);
  }

  // Runs body(worker) once on each worker.
  template <class Body> void on_each(Body body) {
    everywhere([](void* context, Worker& worker) { (*static_cast<Body*>(context))(worker); }, &body);
  }

 private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kCapacity = 4096;  // tasks; more are run at once

  struct Record {
    void* page;  // holds the Worker, alone: its neighbours in memory would slow it down, or it them
    void* slots;
  };
  using Phase = void (*)(void* context, Worker& worker);

  Worker* make_worker(std::size_t index) {
    using Slot = WorkDeque<Task>::Slot;
    Record& record = records_[index];
    record.page = Blocks::allocate(kPage);
    record.slots = Blocks::allocate(kCapacity * sizeof(Slot));
    auto* slots = static_cast<Slot*>(record.slots);
    std::uninitialized_value_construct_n(slots, kCapacity);
    void* place = record.page;
    std::size_t room = kPage;
    static_assert(sizeof(Worker) + alignof(Worker) <= kPage);
    return new (std::align(alignof(Worker), sizeof(Worker), place, room)) Worker(crew_, index, slots, kCapacity);
  }

  void everywhere(Phase phase, void* context) {
    phase_ = phase;
    context_ = context;
    start_phase();
    phase(context, *crew_.workers[0]);
    for (std::size_t left; (left = inside_.load(std::memory_order_acquire)) != 0;)  // [A2] pairs with [R2]
      inside_.wait(left, std::memory_order_acquire);                                // [A2]
  }

  void start_phase() {
    inside_.store(threads_.size(), std::memory_order_relaxed);
    phases_.fetch_add(1, std::memory_order_release);  // [R3] pairs with [A3]
    phases_.notify_all();
  }

  // What a thread does: each phase as it comes, until there is one without a function.
  void attend(Worker& worker) {
    for (unsigned seen = 0;; ++seen) {
      phases_.wait(seen, std::memory_order_acquire);  // [A3] pairs with [R3]
      if (phase_ == nullptr) return;
      phase_(context_, worker);
      if (inside_.fetch_sub(1, std::memory_order_release) == 1) inside_.notify_one();  // [R2] pairs with [A2]
    }
  }

  Crew crew_;
  std::vector<Record> records_;
  std::vector<std::thread> threads_;
  Phase phase_ = nullptr;  // this and its context are written between phases only
  void* context_ = nullptr;
  std::atomic<unsigned> phases_{0};
  std::atomic<std::size_t> inside_{0};
};

// body(worker, begin, end) for ranges of at most `grain` that together are 0 … count - 1. A range is halved until it
// is small enough; each half is a task, allocated by who halves and freed by who runs it.
template <class Blocks, class Body> class RangeLoop {
 public:
  RangeLoop(Scheduler<Blocks>& scheduler, std::size_t count, std::size_t grain, Body body)
      : body_(body), grain_(grain), left_(count) {
    if (count != 0) scheduler.run(make(0, count));
  }

 private:
  struct Range : Task {
    RangeLoop* loop;
    std::uint32_t begin, end;
  };

  Range* make(std::size_t begin, std::size_t end) {
    return new (Blocks::allocate(sizeof(Range)))
        Range{{run}, this, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(end)};
  }

  static void run(Worker& worker, Task* task) {
    const Range range = *static_cast<Range*>(task);
    Blocks::free(task);
    RangeLoop& loop = *range.loop;
    const std::size_t length = range.end - range.begin;
    if (length > loop.grain_) {
      const std::size_t middle = range.begin + length / 2;
      worker.spawn(loop.make(middle, range.end));
      worker.spawn(loop.make(range.begin, middle));
      return;
    }
    loop.body_(worker, range.begin, range.end);
    if (loop.left_.fetch_sub(length, std::memory_order_acq_rel) == length) worker.finish();
  }

  Body body_;
  const std::size_t grain_;
  std::atomic<std::size_t> left_;
};

template <class Blocks, class Body>
void parallel_for(Scheduler<Blocks>& scheduler, std::size_t count, std::size_t grain, Body body) {
  RangeLoop<Blocks, Body> loop(scheduler, count, grain, body);
}

}  // namespace bench

#endif  // FREEWAY_BENCH_STREAMFLOW_WORK_STEALING_H
