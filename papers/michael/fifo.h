// SPDX-License-Identifier: MIT
// fifo.h: a size class's partial list in the order of arrival (Michael 2004, §3.2.6; the queue of Michael & Scott
// 1996).
//
// Words     head, tail: index:26 of a node | tag:38. A node's link: index of the node behind it, 0 at the end | tag.
//           A node's value: the descriptor listed. The node at the head lists nothing (the dummy)
// Moves     put: the last link (0, t) -> (n, t+1); then anybody moves tail on       get: head (i, t) -> (i's link, t+1)
// Nodes     a descriptor brings its own node along and leaves with the dummy that its own one replaces, so no node is
//           ever allocated. The paper allocates them, and has ideal LL/SC where this has tags: see
//           papers/michael/README.md
// Invariant each node is owned by one descriptor, or is the dummy; a node in a queue is in it once
// Orders    [R1] a node's value and link, and the descriptor, are published by the link to it; [A1] getters see them
//           [R2] who moves tail hands on what the link told him; [A2] who then finds that tail sees that node's link
//           [R3] moving head hands on where tail was seen; [A3] the next getter sees no older one
//           [R4] whoever meets a node's link in its next life sees that head and tail have left it ([A1], and he
//           retries)
// ABA       tags everywhere; a link read is good if head (tail) is still what it was afterwards
// Progress  lock-free: whoever finds tail behind moves it       Lost if killed: the descriptor in hand
// Checked   papers/michael/tests/partial_list_model.cc, papers/michael/tests/partial_list_test.cc
#pragma once

#include "papers/michael/descriptor.h"
#include "sync/tagged_stack.h"

namespace freeway::michael {

// `nodes(index)` yields the descriptor of that index, in whose memory the node of that index lies.
template <class Env> class Fifo {
 public:
  // Once, before anyone else sees the list: `dummy` is a node that no descriptor owns.
  void init(u32 dummy) {
    head_.store_relaxed(dummy);
    tail_.store_relaxed(dummy);
  }

  template <class Nodes> void put(Descriptor<Env>& desc, Nodes&& nodes) {
    const u32 node = desc.node.get();
    nodes(node).value.store_relaxed(desc.self.get());
    auto& own_link = nodes(node).link;
    own_link.store_release(StackHead::next(own_link.load_relaxed(), 0));  // [R4] pairs with [A1]
    for (;;) {
      u64 tail = tail_.load_acquire();  // [A2] pairs with [R2]
      auto& last = nodes(StackHead::index(tail)).link;
      // OPTIMISTIC: queue
      u64 link = last.load_acquire();  // [A1] pairs with [R1]
      if (tail_.load_relaxed() != tail) continue;
      if (StackHead::index(link) != 0) {
        move_tail(tail, link);
        continue;
      }
      Env::step("michael.fifo.put");
      if (last.cas_release(link, StackHead::next(link, node))) {  // [R1] pairs with [A1]
        move_tail(tail, node);
        return;
      }
    }
  }

  // The descriptor that came first, null if the list is empty.
  template <class Nodes> Descriptor<Env>* get(Nodes&& nodes) {
    for (;;) {
      u64 head = head_.load_acquire();  // [A3] pairs with [R3]
      u64 tail = tail_.load_acquire();  // [A2] pairs with [R2]
      const u32 dummy = StackHead::index(head);
      u64 link = nodes(dummy).link.load_acquire();  // [A1] pairs with [R1]
      if (head_.load_relaxed() != head) continue;
      const u32 first = StackHead::index(link);
      if (first == 0) return nullptr;
      if (dummy == StackHead::index(tail)) move_tail(tail, first);
      const u32 value = nodes(first).value.load_relaxed();  // OPTIMISTIC: queue
      Env::step("michael.fifo.get");
      if (!head_.cas_release(head, StackHead::next(head, first))) continue;  // [R3] pairs with [A3]
      Descriptor<Env>& desc = nodes(value);
      desc.node.set(dummy);
      return &desc;
    }
  }

  // Calls f(descriptor) for each one listed, while nobody moves (audit).
  template <class Nodes, class F> void each(Nodes&& nodes, F&& f) const {
    u32 node = StackHead::index(nodes(StackHead::index(head_.load_relaxed())).link.load_relaxed());
    for (; node != 0; node = StackHead::index(nodes(node).link.load_relaxed()))
      f(nodes(nodes(node).value.load_relaxed()));
  }

 private:
  void move_tail(u64 tail, u64 to) {
    tail_.cas_release(tail, StackHead::next(tail, StackHead::index(to)));  // [R2] pairs with [A2]
  }

  typename Env::template Atomic<u64> head_, tail_;
};

}  // namespace freeway::michael
