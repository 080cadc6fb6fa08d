// SPDX-License-Identifier: MIT
// TaggedStack: a Treiber stack of recyclable nodes that are named by index.
//
// Word      head: index:26 (0 = empty) | tag:38. Each node's link: the index below it, 0 at the bottom
// Moves     push: head (i, t) -> (n, t+1) after n's link was set to i     pop: (i, t) -> (i's link, t+1)
//           take_all: (i, t) -> (0, t+1)
// Invariant of all stacks with the same links a node is in at most one, once; the thread that popped it, or is about to
// push it, owns it and its link
// Who       push, pop: any thread, any signal handler
// Orders    [R1] push publishes the node's contents; [A1], [A2] pop, [A3] take_all and [A4] each see them before the
//           link is read
// ABA       the tag moves at every push and pop. A pop that stalls between its load and its CAS is fooled only if
//           exactly a multiple of 2^38 moves pass meanwhile and the same node is on top again: at 10^7 moves a second
//           7.6 hours
// Memory    type-stable: a link may be read after another thread popped its node (the CAS then fails)
// Progress  lock-free: a failed CAS is another thread's success
// Lost if killed: the node in hand
// Checked   tests/sync/tagged_stack_model.cc, tests/sync/tagged_stack_test.cc
#pragma once

#include "base/integers.h"

namespace freeway {

struct StackHead {
  static constexpr unsigned kIndexBits = 26;
  static constexpr u64 kIndexMask = low_bits(kIndexBits);

  static constexpr u32 index(u64 head) { return static_cast<u32>(head & kIndexMask); }
  // The head after a move that puts `index` on top.
  static constexpr u64 next(u64 head, u32 index) { return ((head & ~kIndexMask) + kIndexMask + 1) | index; }
};

// `links(index)` yields the node's link, an Env::Atomic<u32>&.
template <class Env> class TaggedStack {
 public:
  template <class Links> void push(u32 node, Links&& links) {
    u64 head = head_.load_relaxed();
    do {
      links(node).store_relaxed(StackHead::index(head));
      Env::step("stack.push");
    } while (!head_.cas_release(head, StackHead::next(head, node)));  // [R1] pairs with [A1] [A2] [A3] [A4]
  }

  // The node that was on top, 0 if the stack was empty.
  template <class Links> u32 pop(Links&& links) {
    u64 head = head_.load_acquire();  // [A1] pairs with [R1]
    while (StackHead::index(head) != 0) {
      // OPTIMISTIC: link
      u32 below = links(StackHead::index(head)).load_relaxed();
      Env::step("stack.pop");
      if (head_.cas_relaxed_acquire(head, StackHead::next(head, below)))  // [A2] pairs with [R1]
        return StackHead::index(head);
    }
    return 0;
  }

  // All nodes, now the caller's: the one that was on top, 0 if there was none; the links lead to the others.
  u32 take_all() {
    u64 head = head_.load_relaxed();
    do {
      if (StackHead::index(head) == 0) return 0;
      Env::step("stack.take_all");
    } while (!head_.cas_acquire(head, StackHead::next(head, 0)));  // [A3] pairs with [R1]
    return StackHead::index(head);
  }

  // The same; f(node) may push each elsewhere.
  template <class Links, class F> void take_all(Links&& links, F&& f) { walk(take_all(), links, f); }
  // Calls f(node) for each, from the top on, while nobody pops any.
  template <class Links, class F> void each(Links&& links, F&& f) const {
    walk(StackHead::index(head_.load_acquire()), links, f);  // [A4] pairs with [R1]
  }

  bool looks_empty() const { return StackHead::index(head_.load_relaxed()) == 0; }
  // The node on top, for walks while no other thread moves (audit); 0 if empty.
  u32 peek() const { return StackHead::index(head_.load_relaxed()); }

 private:
  template <class Links, class F> static void walk(u32 node, Links&& links, F&& f) {
    for (u32 below; node != 0; node = below) {
      below = links(node).load_relaxed();
      f(node);
    }
  }
  typename Env::template Atomic<u64> head_;
};

}  // namespace freeway
