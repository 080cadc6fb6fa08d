// SPDX-License-Identifier: MIT
//
// EventQueue: the events that a thread has yet to execute, earliest first.
//
// A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986) whose links are in the events: it needs no memory of its
// own, so that all of an executor's mallocs are its events and saved states, and takes any event out, which
// anti-messages need. What comes out is the least by `Order` of what is inside, whatever the order of insertion.
//
//   insert  O(1)      earliest  O(1)      take_earliest, remove  O(log n), amortised
#ifndef FREEWAY_BENCH_SIMULATION_EVENT_QUEUE_H
#define FREEWAY_BENCH_SIMULATION_EVENT_QUEUE_H

#include <cstddef>

#include "simulation/event.h"

namespace simulation {

// Invariant: `child` is the first of an event's children, `sibling` the next of its parent's children, `previous` the
// one before, or the parent for a first child; the root has neither sibling nor previous.
template <class Event, class Order = TotalOrder> class EventQueue {
 public:
  void insert(Event* event) {
    event->child = event->sibling = event->previous = nullptr;
    root_ = root_ == nullptr ? event : meld(root_, event);
    ++size_;
  }

  // The earliest event, or null; it stays.
  Event* earliest() const { return root_; }

  Event* take_earliest() {
    Event* first = root_;
    if (first == nullptr) return nullptr;
    root_ = meld_all(first->child);
    --size_;
    return first;
  }

  // `event` must be inside.
  void remove(Event* event) {
    if (event == root_) {
      take_earliest();
      return;
    }
    cut(event);
    if (Event* rest = meld_all(event->child)) root_ = meld(root_, rest);
    --size_;
  }

  std::size_t size() const { return size_; }

 private:
  // Two roots become one: the later one the first child of the earlier.
  static Event* meld(Event* a, Event* b) {
    if (Order::before(b->key, a->key)) {
      Event* earlier = b;
      b = a;
      a = earlier;
    }
    b->previous = a;
    b->sibling = a->child;
    if (a->child != nullptr) a->child->previous = b;
    a->child = b;
    return a;
  }

  static void cut(Event* event) {
    if (event->previous->child == event) event->previous->child = event->sibling;
    else event->previous->sibling = event->sibling;
    if (event->sibling != nullptr) event->sibling->previous = event->previous;
  }

  // One heap of a list of siblings: pairs from the left, then all pairs from the right.
  static Event* meld_all(Event* first) {
    Event* pairs = nullptr;  // the pairs so far, linked by `sibling`, the last in front
    while (first != nullptr) {
      Event* second = first->sibling;
      Event* rest = second == nullptr ? nullptr : second->sibling;
      first->sibling = first->previous = nullptr;
      Event* pair = first;
      if (second != nullptr) {
        second->sibling = second->previous = nullptr;
        pair = meld(first, second);
      }
      pair->sibling = pairs;
      pairs = pair;
      first = rest;
    }
    Event* root = pairs;
    if (root == nullptr) return nullptr;
    Event* next = root->sibling;
    root->sibling = nullptr;
    while (next != nullptr) {
      Event* after = next->sibling;
      next->sibling = nullptr;
      root = meld(root, next);
      next = after;
    }
    return root;
  }

  Event* root_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_EVENT_QUEUE_H
