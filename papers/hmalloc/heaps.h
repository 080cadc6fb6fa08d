// SPDX-License-Identifier: MIT
// Heaps: every thread's heap, and who inherits those of threads that ended (HMalloc 2020, section 3: "when a thread is
// terminated, a new thread can inherit its local heap"). There is no global heap.
//
// States    owned: one thread's hands -> ended: in the stack -> owned: the next thread that needs a heap
// Words     ended: a stack of heaps named by index (sync/tagged_stack.h); newest: the last heap made (push only, links
//           never change), so that all can be walked
// Duties    leave: the owner, as its last touch.   join: whoever pops a heap owns it with all that is in it, cached
//           blocks too. Between the two a heap is nobody's: the flags of its blocks may be reset, and local blocks
//           freed late, which needs no owner; nothing else happens to it
// Invariant a heap is in the stack at most once, or in one thread's hands
// Orders    the stack's push publishes the heap, its pop sees it; [R1] publishes a new heap to walks, [A1] sees it
// ABA       the stack's tag
// Progress  lock-free
// Lost if killed: the heap of a thread that never calls leave; in each_ended, those in hand. Their blocks may be freed
// Checked   papers/hmalloc/tests/{heaps_test,inheritance_model}.cc
//
// Source also has
//   heap(index)   -> the heap
//   make_heap()   -> index of a new one, zeroed, 0 without memory
#pragma once

#include "papers/hmalloc/thread_heap.h"
#include "sync/tagged_stack.h"

namespace freeway::hmalloc {

template <class Env, class S, class Source> class Heaps {
 public:
  using Heap = ThreadHeap<Env, S, Source>;

  // A heap for the calling thread: an ended thread's, else a new one. Null: no memory.
  Heap* join(Source& source) {
    if (Heap* inherited = inherit(source)) return inherited;
    const u32 index = source.make_heap();
    if (index == 0) return nullptr;
    Heap& heap = *source.heap(index);
    heap.init(&source, index);
    u32 seen = newest_.load_relaxed();
    do {
      heap.older.store_relaxed(seen);
      Env::step("hmalloc.heap");
    } while (!newest_.cas_release(seen, index));  // [R1] pairs with [A1]
    return &heap;
  }

  // Only an ended thread's; null if there is none.
  Heap* inherit(Source& source) {
    const u32 index = ended_.pop(links(source));
    return index == 0 ? nullptr : source.heap(index);
  }

  // By the owner, whose heap it then is no longer.
  void leave(Source& source, Heap* heap) {
    const u32 index = heap->index();
    ended_.push(index, links(source));
    // LAST TOUCH: heap
  }

  // Takes all heaps of ended threads and puts them back, having called first(heap) for each, and then(heap) for each. A
  // thread that starts meanwhile makes itself a new one.
  template <class First, class Then> void each_ended(Source& source, First&& first, Then&& then) {
    u32 mine = 0;
    while (Heap* heap = inherit(source)) {
      first(*heap);
      heap->link.store_relaxed(mine);
      mine = heap->index();
    }
    while (mine != 0) {
      Heap* heap = source.heap(mine);
      mine = heap->link.load_relaxed();
      then(*heap);
      leave(source, heap);
    }
  }

  // Calls f(heap) for every heap that was ever made, whosever it is.
  template <class F> void each(Source& source, F&& f) const {
    u32 index = newest_.load_acquire();  // [A1] pairs with [R1]
    for (; index != 0; index = source.heap(index)->older.load_relaxed()) f(*source.heap(index));
  }

 private:
  static auto links(Source& source) {
    return [&source](u32 index) -> auto& { return source.heap(index)->link; };
  }

  TaggedStack<Env> ended_;
  typename Env::template Atomic<u32> newest_;
};

}  // namespace freeway::hmalloc
