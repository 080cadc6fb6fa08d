// SPDX-License-Identifier: MIT
// ThreadHeap: a thread's page blocks: per object class a doubly linked list, per page-block size a cache (Fig. 1a).
//
// Rotation  (section 3.1.1) a page block that is found full goes to the end of its list; one in which the owner frees
//           an object goes to the head
// Invariant page blocks with something in `freed` or behind `unallocated` stand before those without, but for one full
//           page block at the head: the allocation that finds it moves it. So if any page block of a class has free
//           memory, the head has, or the one behind it
// Who       the owner alone: nothing here is atomic. Heaps are type-stable and recycled (`link`)
// Lost if killed: the heap and all of its page blocks
// Checked   papers/streamflow/tests/allocator_test.cc (rotation)
#pragma once

#include "papers/streamflow/page_block.h"

namespace freeway::streamflow {

template <class Env> class PageBlockList {
 public:
  using Block = PageBlock<Env>;

  Block* head() const { return head_.get(); }
  Block* tail() const { return tail_.get(); }

  void push_head(Block& b) {
    Block* old = head_.get();
    b.prev.set(nullptr);
    b.next.set(old);
    (old != nullptr ? old->prev : tail_).set(&b);
    head_.set(&b);
  }
  void push_tail(Block& b) {
    Block* old = tail_.get();
    b.next.set(nullptr);
    b.prev.set(old);
    (old != nullptr ? old->next : head_).set(&b);
    tail_.set(&b);
  }
  void remove(Block& b) {
    Block* before = b.prev.get();
    Block* behind = b.next.get();
    (before != nullptr ? before->next : head_).set(behind);
    (behind != nullptr ? behind->prev : tail_).set(before);
  }

  // The two rotations: six pointers each (the paper counts seven).
  void full_to_tail(Block& b) {
    if (tail_.get() == &b) return;
    remove(b);
    push_tail(b);
  }
  void freed_to_head(Block& b) {
    Block* head = head_.get();
    if (head == &b) return;
    remove(b);
    if (!head->has_free()) full_to_tail(*head);  // it was found by nobody yet
    push_head(b);
  }

 private:
  typename Env::template Plain<Block*> head_, tail_;
};

// Wholly free page blocks of one size, as a LIFO; its population is limited (1 in the paper, section 3.1.1, "Page block
// caching").
template <class Env> class LocalCache {
 public:
  using Block = PageBlock<Env>;

  bool push(Block& b, u32 limit) {
    if (count_.get() >= limit) return false;
    b.next.set(top_.get());
    top_.set(&b);
    count_.set(count_.get() + 1);
    return true;
  }
  Block* pop() {
    Block* b = top_.get();
    if (b == nullptr) return nullptr;
    top_.set(b->next.get());
    count_.set(count_.get() - 1);
    return b;
  }
  u32 count() const { return count_.get(); }

 private:
  typename Env::template Plain<Block*> top_;
  typename Env::template Plain<u32> count_;
};

template <class Env, unsigned kClasses> struct ThreadHeap {
  u32 id = 0;  // in remotely_freed words; constant
  typename Env::template Atomic<u32> link;
  PageBlockList<Env> lists[kClasses + 1];
  LocalCache<Env> cached[kPageBlockOrders];
};

}  // namespace freeway::streamflow
