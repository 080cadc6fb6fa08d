// SPDX-License-Identifier: MIT
//
// handover.h: one producer hands numbered things to one consumer, at most `capacity` ahead. What is handed over lies in
// the callers' arrays (place turn % capacity); this is only the counting. Who has to wait yields some times and then
// sleeps: there may be many more threads than CPUs, and it is not their waiting that is to be measured. A hand-over
// costs each side an exchange or two, so make it of many small blocks.
//
// Words     filled_: twice the turns handed over, + 1 once there will be no more     emptied_: turns taken
// Who       reserve, publish, finish: the producer      take: the consumer
// Orders    sequentially consistent: who sleeps says so and looks again, who counts on looks whether somebody sleeps
#ifndef FREEWAY_BENCH_SUPPORT_HANDOVER_H
#define FREEWAY_BENCH_SUPPORT_HANDOVER_H

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace bench {

// A number that one thread counts up and one other waits for.
class AwaitedCount {
 public:
  int now() const { return count_.load(std::memory_order_acquire); }

  void advance_to(int count) {
    count_.store(count);
    if (asleep_.load()) syscall(SYS_futex, &count_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }

  // Returns when the count is no longer `seen`.
  void await_change(int seen) {
    for (int i = 0; i < kYields; ++i) {
      if (now() != seen) return;
      sched_yield();
    }
    asleep_.store(true);
    while (count_.load() == seen) syscall(SYS_futex, &count_, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
    asleep_.store(false);
  }

 private:
  static constexpr int kYields = 20;
  alignas(128) std::atomic<int> count_{0};
  std::atomic<bool> asleep_{false};
};

class Handover {
 public:
  explicit Handover(int capacity) : capacity_(capacity) {}

  // Waits until the place of the producer's next turn is free, and returns it.
  int reserve() {
    for (int taken = emptied_.now(); made_ - taken >= capacity_; taken = emptied_.now()) emptied_.await_change(taken);
    return made_ % capacity_;
  }
  // Hands over what lies there.
  void publish() { filled_.advance_to(2 * ++made_); }

  // The producer says that there is no more to come.
  void finish() { filled_.advance_to(2 * made_ + 1); }

  // Waits for the consumer's next turn and calls empty(place); false if there is none any more.
  template <class Empty> bool take(Empty empty) {
    for (int seen = filled_.now(); seen / 2 <= taken_; seen = filled_.now()) {
      if (seen % 2 != 0) return false;
      filled_.await_change(seen);
    }
    empty(taken_ % capacity_);
    emptied_.advance_to(++taken_);
    return true;
  }

 private:
  const int capacity_;
  AwaitedCount filled_, emptied_;
  alignas(128) int made_ = 0;   // the producer's
  alignas(128) int taken_ = 0;  // the consumer's
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_HANDOVER_H
