// SPDX-License-Identifier: MIT
//
// WorkDeque: the tasks of one worker, which others may steal; after Chase and Lev, "Dynamic circular work-stealing
// deque" (SPAA 2005), with a buffer that does not grow: a push into a full deque fails, and the worker runs the task
// itself.
//
// Word      bottom: where the owner pushes next; top: what is stolen next; tasks are at top … bottom - 1, modulo
// capacity Moves     push: bottom + 1     pop: bottom - 1, and for the last task top + 1 (CAS)     steal: top + 1 (CAS)
// Invariant each pushed task is returned by exactly one pop or steal; top never falls
// Who       push, pop: the owner; steal: any thread
// Orders    [R1] push publishes the task; [A1] steal sees it.
//           [S1] pop lowers bottom before it reads top, [S2] steal reads top before bottom: in the one order of these
//           four accesses either pop sees the thief's top or the thief sees the lowered bottom, so that both can only
//           meet at the last task, where the CAS on top decides. (Accesses and not fences are sequentially consistent,
//           so that ThreadSanitizer understands them.)
//           [A2] push sees a slot's thief gone ([R2]) before it writes the slot again
// ABA       none: top is 64 bits and only rises; a thief that read an overwritten slot loses its CAS
// Progress  push and pop wait-free; steal lock-free: it fails only if somebody else took a task
// Checked   tests/bench/streamflow/work_deque_model.cc: all interleavings of small programs (sequentially consistent);
//           work_stealing_test.cc: a stress test
#ifndef FREEWAY_BENCH_STREAMFLOW_WORK_DEQUE_H
#define FREEWAY_BENCH_STREAMFLOW_WORK_DEQUE_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace bench {

// `Atomic` is std::atomic but in the model test.
template <class Task, template <class> class Atomic = std::atomic> class WorkDeque {
 public:
  using Slot = Atomic<Task*>;

  // `slots` has `capacity` entries, a power of two.
  WorkDeque(Slot* slots, std::size_t capacity) : slots_(slots), mask_(static_cast<std::int64_t>(capacity) - 1) {}

  // False if the deque is full.
  bool push(Task* task) {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed);
    if (bottom - top_.load(std::memory_order_acquire) > mask_) return false;  // [A2] pairs with [R2]
    slot(bottom).store(task, std::memory_order_relaxed);
    bottom_.store(bottom + 1, std::memory_order_release);  // [R1] pairs with [A1]
    return true;
  }

  // The youngest task; null if there is none.
  Task* pop() {
    const std::int64_t bottom = bottom_.load(std::memory_order_relaxed) - 1;
    bottom_.store(bottom, std::memory_order_seq_cst);         // [S1] pairs with [S2]
    std::int64_t top = top_.load(std::memory_order_seq_cst);  // [S1]
    Task* task = nullptr;
    if (top <= bottom) {
      task = slot(bottom).load(std::memory_order_relaxed);
      if (top < bottom) return task;
      if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed))
        task = nullptr;
    }
    // Empty now. Released again: a thief that reads this value must see what push published under it.
    bottom_.store(bottom + 1, std::memory_order_release);  // [R1] pairs with [A1]
    return task;
  }

  // The oldest task; null if there is none or another thread was faster.
  Task* steal() {
    std::int64_t top = top_.load(std::memory_order_seq_cst);              // [S2] pairs with [S1]
    const std::int64_t bottom = bottom_.load(std::memory_order_seq_cst);  // [S2], [A1] pairs with [R1]
    if (top >= bottom) return nullptr;
    Task* task = slot(top).load(std::memory_order_relaxed);
    // [R2] pairs with [A2]
    if (!top_.compare_exchange_strong(top, top + 1, std::memory_order_seq_cst, std::memory_order_relaxed))
      return nullptr;
    return task;
  }

 private:
  Slot& slot(std::int64_t index) { return slots_[index & mask_]; }

  Slot* const slots_;
  const std::int64_t mask_;
  alignas(64) Atomic<std::int64_t> bottom_{0};
  alignas(64) Atomic<std::int64_t> top_{0};
};

}  // namespace bench

#endif  // FREEWAY_BENCH_STREAMFLOW_WORK_DEQUE_H
