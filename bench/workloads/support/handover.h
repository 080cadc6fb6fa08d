// SPDX-License-Identifier: MIT
//
// handover.h: one producer hands numbered things to one consumer, at most `capacity` ahead. What is handed over lies in
// the callers' arrays (place turn % capacity); this is only the counting. Both wait by yielding: there may be fewer
// CPUs than threads.
//
// Words     filled_: turns handed over     emptied_: turns taken     end_: how many there will be, once that is known
// Who       put, finish: the producer      take, taken: the consumer
// Orders    [R1] put publishes the turn's contents; [A1] take sees them
//           [R2] taken says that the place is free; [A2] put writes it again after that
//           [R3] finish comes after the last put; [A3] take then sees that put
#ifndef FREEWAY_BENCH_SUPPORT_HANDOVER_H
#define FREEWAY_BENCH_SUPPORT_HANDOVER_H

#include <sched.h>

#include <atomic>
#include <climits>

namespace bench {

class Handover {
 public:
  explicit Handover(long capacity) : capacity_(capacity) {}

  // Waits until the place of the producer's next turn is free, calls fill(place) and hands it over.
  template <class Fill>
  void put(Fill fill) {
    const long turn = filled_.load(std::memory_order_relaxed);
    while (turn - emptied_.load(std::memory_order_acquire) >= capacity_) sched_yield();  // [A2]
    fill(turn % capacity_);
    filled_.store(turn + 1, std::memory_order_release);  // [R1]
  }

  // The producer says that there is no more to come.
  void finish() { end_.store(filled_.load(std::memory_order_relaxed), std::memory_order_release); }  // [R3]

  // Waits for the consumer's next turn and calls empty(place); false if there is none any more.
  template <class Empty>
  bool take(Empty empty) {
    const long turn = emptied_.load(std::memory_order_relaxed);
    while (filled_.load(std::memory_order_acquire) <= turn) {  // [A1]
      if (end_.load(std::memory_order_acquire) <= turn) return false;  // [A3]
      sched_yield();
    }
    empty(turn % capacity_);
    emptied_.store(turn + 1, std::memory_order_release);  // [R2]
    return true;
  }

 private:
  const long capacity_;
  alignas(128) std::atomic<long> filled_{0};
  alignas(128) std::atomic<long> emptied_{0};
  alignas(128) std::atomic<long> end_{LONG_MAX};
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_HANDOVER_H
