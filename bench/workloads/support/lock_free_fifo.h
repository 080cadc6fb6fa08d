// SPDX-License-Identifier: MIT
//
// LockFreeFifo: a first-in first-out queue of pointers, its nodes allocated and freed through the allocator under test.
// The queue of Michael and Scott (PODC 1996), with hazard pointers (Michael, IEEE TPDS 2004) in place of their counted
// pointers and free list: so a node can be given back to malloc.
//
// Words     head_: the dummy, before the oldest value     tail_: the last node or the one before it
// Moves     enqueue: last->next null -> node, then tail_ -> node     dequeue: head_ -> head_->next, which is the new
// dummy Invariant a node is freed only when it has left the list and no thread's hazard names it
// Who       any thread, each under its own number (0 … threads - 1)
// Orders    sequentially consistent throughout: a hazard must be seen before the list is looked at again
// ABA       none: a node that a CAS compares with is named by the caller's hazard, so it cannot be allocated again
#ifndef FREEWAY_BENCH_SUPPORT_LOCK_FREE_FIFO_H
#define FREEWAY_BENCH_SUPPORT_LOCK_FREE_FIFO_H

#include <algorithm>
#include <atomic>
#include <new>

#include "support/measure.h"

namespace bench {

template <class Blocks> class LockFreeFifo {
 public:
  explicit LockFreeFifo(std::size_t threads)
      : threads_(threads), limit_(2 * kHazards * threads + 16), hazards_(threads), retired_(threads * limit_) {
    for (auto& of_thread : hazards_) new (&of_thread) OfThread;
    Node* dummy = make(nullptr);
    head_.store(dummy);
    tail_.store(dummy);
  }
  ~LockFreeFifo() {
    while (dequeue(0) != nullptr) {}
    Blocks::free(head_.load());
    for (std::size_t t = 0; t < threads_; ++t)
      for (std::size_t i = 0; i < hazards_[t].retired; ++i) Blocks::free(retired_[t * limit_ + i]);
  }

  void enqueue(std::size_t self, void* value) {
    Node* node = make(value);
    std::atomic<Node*>* hazard = hazards_[self].nodes;
    for (;;) {
      Node* last = tail_.load();
      hazard[0].store(last);
      if (tail_.load() != last) continue;
      Node* next = last->next.load();
      if (next != nullptr) {
        tail_.compare_exchange_strong(last, next);
        continue;
      }
      if (last->next.compare_exchange_strong(next, node)) {
        tail_.compare_exchange_strong(last, node);
        break;
      }
    }
    hazard[0].store(nullptr);
  }

  // Null if the queue is empty.
  void* dequeue(std::size_t self) {
    std::atomic<Node*>* hazard = hazards_[self].nodes;
    Node* dummy;
    void* value = nullptr;
    for (;;) {
      dummy = head_.load();
      hazard[0].store(dummy);
      if (head_.load() != dummy) continue;
      Node* last = tail_.load();
      Node* next = dummy->next.load();
      hazard[1].store(next);
      if (head_.load() != dummy) continue;
      if (next == nullptr) break;
      if (dummy == last) {
        tail_.compare_exchange_strong(last, next);
        continue;
      }
      value = next->value;
      if (head_.compare_exchange_strong(dummy, next)) break;
      value = nullptr;
    }
    hazard[0].store(nullptr);
    hazard[1].store(nullptr);
    if (value != nullptr) retire(self, dummy);
    return value;
  }

 private:
  // 16 bytes, as in Michael 2004.
  struct Node {
    std::atomic<Node*> next;
    void* value;
  };
  static_assert(sizeof(Node) == 16);
  static constexpr std::size_t kHazards = 2;
  struct alignas(128) OfThread {
    std::atomic<Node*> nodes[kHazards] = {};
    std::size_t retired = 0;
  };

  static Node* make(void* value) {
    auto* node = static_cast<Node*>(Blocks::allocate(sizeof(Node)));
    new (node) Node{nullptr, value};
    return node;
  }

  // Keeps `node` until no hazard names it. A scan frees at least half of a full list: there are no more hazards than
  // that.
  void retire(std::size_t self, Node* node) {
    OfThread& own = hazards_[self];
    Node** list = &retired_[self * limit_];
    list[own.retired++] = node;
    if (own.retired < limit_) return;
    std::size_t kept = 0;
    for (std::size_t i = 0; i < own.retired; ++i)
      if (named(list[i])) list[kept++] = list[i];
      else Blocks::free(list[i]);
    own.retired = kept;
  }

  bool named(Node* node) {
    return std::any_of(hazards_.begin(), hazards_.end(), [node](const OfThread& of_thread) {
      return of_thread.nodes[0].load() == node || of_thread.nodes[1].load() == node;
    });
  }

  const std::size_t threads_;
  const std::size_t limit_;
  MappedArray<OfThread> hazards_;
  MappedArray<Node*> retired_;
  alignas(128) std::atomic<Node*> head_;
  alignas(128) std::atomic<Node*> tail_;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_LOCK_FREE_FIFO_H
