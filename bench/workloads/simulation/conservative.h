// SPDX-License-Identifier: MIT
//
// conservative.h: no event is executed before it is certain that nothing earlier can come, so nothing is undone.
//
// Synchronous windows after YAWNS (Nicol 1993): if the earliest event anywhere is at time t, no process can receive
// anything from another one before t + lookahead, so every thread may execute all its events before that time without
// asking again. Then they meet, and agree on the next window. With one thread this is the sequential simulation, but
// for the windows; SequentialExecutor, which the tests compare with, has not even those.
#ifndef FREEWAY_BENCH_SIMULATION_CONSERVATIVE_H
#define FREEWAY_BENCH_SIMULATION_CONSERVATIVE_H

#include <algorithm>

#include "simulation/reduction_barrier.h"
#include "simulation/world.h"

namespace simulation {

// One thread that has all processes: takes the earliest event until none is left before the end.
template <class Model, class Order = TotalOrder> class SequentialExecutor : public Executor<Model, Order> {
 public:
  explicit SequentialExecutor(World<Model>& world) : Executor<Model, Order>(world, 0) {}

  void run() {
    auto insert = [this](auto* event) { this->queue_.insert(event); };
    this->start_processes(insert);
    while (this->earliest() < this->world_.settings.end) {
      auto* event = this->queue_.take_earliest();
      this->execute_event(*event, insert);
      this->process_of(*event).commit(*event);
      this->drop(event);
    }
    this->finish();
  }
};

template <class Model, class Order = TotalOrder>
class alignas(128) ConservativeExecutor : public Executor<Model, Order> {
 public:
  using typename Executor<Model, Order>::Payload;

  ConservativeExecutor(World<Model>& world, std::uint32_t self) : Executor<Model, Order>(world, self) {}

  // One thread's whole run; all threads of `world` must be in it at once.
  void run(ReductionBarrier& barrier) {
    this->start_processes([this](auto* event) { deliver(event); });
    const Time end = this->world_.settings.end;
    while (true) {
      // What this thread has sent since the last meeting may lie unread, so its time counts as well.
      const Time now = barrier.meet(this->self_, {std::min(this->earliest(), earliest_sent_), 0}).earliest;
      if (now >= end) break;
      receive();
      earliest_sent_ = kNever;
      execute_before(std::min(end, now > kNever - this->lookahead_ ? kNever : now + this->lookahead_));
      ++windows_;
    }
    receive();
    this->finish();
  }

  std::uint64_t windows() const { return windows_; }

 private:
  void execute_before(Time bound) {
    while (this->earliest() < bound) {
      auto* event = this->queue_.take_earliest();
      this->execute_event(*event, [this](auto* sent) { deliver(sent); });
      this->process_of(*event).commit(*event);
      this->drop(event);
    }
  }

  void deliver(Event<Payload>* event) {
    const std::uint32_t owner = this->owner_of(event->key.destination);
    if (owner == this->self_) {
      this->queue_.insert(event);
    } else {
      earliest_sent_ = std::min(earliest_sent_, event->key.time);
      this->world_.inboxes[owner].push(event);
    }
  }

  // A thread that is ahead may already have put events of the next window here: they are only early.
  void receive() {
    for (Message* message = this->world_.inboxes[this->self_].take_all(); message != nullptr;) {
      Message* next = message->next;
      this->queue_.insert(static_cast<Event<Payload>*>(message));
      message = next;
    }
  }

  Time earliest_sent_ = kNever;  // to another thread, since the last meeting
  std::uint64_t windows_ = 0;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_CONSERVATIVE_H
