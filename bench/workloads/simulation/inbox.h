// SPDX-License-Identifier: MIT
//
// Inbox: what other threads have sent to one thread.
//
// Word      the message that was pushed last, or null; each message links to the one before it
// Moves     push: m -> new, new.next = m (CAS)      take_all: m -> null (exchange)
// Invariant a message is in at most one inbox, and never in an inbox and in a thread's hands
// Who       push: any thread      take_all: the owner
// Orders    [R1] push publishes the message's contents; [A1] take_all sees them
// ABA       none: nothing is taken out singly
// Promise   messages of one sender come out in the order in which they were sent, so an anti-message never comes
//           before its event
#ifndef FREEWAY_BENCH_SIMULATION_INBOX_H
#define FREEWAY_BENCH_SIMULATION_INBOX_H

#include <atomic>

#include "simulation/event.h"

namespace simulation {

class alignas(128) Inbox {
 public:
  void push(Message* message) {
    Message* last = last_.load(std::memory_order_relaxed);
    do message->next = last;
    while (!last_.compare_exchange_weak(last, message, std::memory_order_release, std::memory_order_relaxed));  // [R1]
  }

  // All messages, the oldest first, linked by `next`; null if there are none.
  Message* take_all() {
    if (last_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    Message* newest = last_.exchange(nullptr, std::memory_order_acquire);  // [A1] pairs with [R1]
    Message* oldest = nullptr;
    while (newest != nullptr) {
      Message* older = newest->next;
      newest->next = oldest;
      oldest = newest;
      newest = older;
    }
    return oldest;
  }

 private:
  std::atomic<Message*> last_ = nullptr;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_INBOX_H
