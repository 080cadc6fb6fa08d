// SPDX-License-Identifier: MIT
// LateFrees: local blocks whose thread frees them when it cannot touch its heap. Not in the paper.
//
// A handler may free a local block while the thread that it interrupted is inside the heap, and a thread may free one
// after its exit hook gave the heap away. Such blocks wait here for the heap's owner.
//
// Word      0 or the address of the block that came last; each block's first word holds the next
// Moves     put: b -> c (CAS)      take_all: b -> 0 (exchange)
// Who       put: the thread that the block belongs to, in a handler or after its exit hook.   take_all: the heap's
//           owner
// Orders    [R1] put publishes the link and all that was done with the block; [A1] take_all sees them
// ABA       none: nothing is taken off singly
// Twice     a block that is put twice makes a ring; the owner sees it when it meets the block for the second time
// Progress  lock-free       Lost if killed: the block in hand
// Checked   papers/hmalloc/tests/{thread_heap_test,inheritance_model}.cc
#pragma once

#include "base/integers.h"

namespace freeway::hmalloc {

template <class Env> class LateFrees {
 public:
  void put(uptr block) {
    uptr seen = last_.load_relaxed();
    do {
      link(block).set(seen);
      Env::step("hmalloc.late");
    } while (!last_.cas_release(seen, block));  // [R1] pairs with [A1]
  }

  // Calls f(block) for each that is waiting, until f returns false.
  template <class F> void take_all(F&& f) {
    if (last_.load_relaxed() == 0) return;
    for (uptr block = last_.exchange_acquire(0); block != 0;) {  // [A1] pairs with [R1]
      const uptr next = link(block).get();
      if (!f(block)) return;
      block = next;
    }
  }

 private:
  using Link = typename Env::template Plain<uptr>;
  static Link& link(uptr block) { return *reinterpret_cast<Link*>(block); }

  typename Env::template Atomic<uptr> last_;
};

}  // namespace freeway::hmalloc
