// SPDX-License-Identifier: MIT
// Cells: how items of slices and regions are freed and taken, and how whoever knows of free ones finds them.
//
// Words     the cells (cell.h), and the lists of their heap
// Who       free_to: any thread that owns the items.   take, let_go: the holder.   hold, hold_all: who popped the cell
// Invariant a cell is in at most one list, once; only its holder clears its bits, so that what is taken is one thread's
// Orders    [R1] freeing publishes what was done to the block; [A1] who takes the items sees that.  [R2] letting go publishes
//           the holder's view, and leaves the link to the next; [A2] who frees, or pops, sees it
// Progress  lock-free       Lost if killed, until the heap is destroyed: the cell in hand, or on its way to the list
// Checked   tests/model/heap_slices_model.cc
#pragma once

#include "base/compiler.h"
#include "heap/records.h"

namespace freeway::heap {

template <class Env, class Backing>
class Cells {
 public:
  using CellOf = Cell<Env>;
  using List = TaggedStack<Env>;

  template <class T>
  T& at(u32 index) const {
    return *static_cast<T*>(backing_->at(index));
  }
  static u32 index_of(const CellOf& one) { return one.self.load_relaxed(); }
  auto links() const {
    return [this](u32 index) -> auto& { return at<CellOf>(index).link; };
  }

  // Frees items of the cell, which the caller owns; what its word was. If any of them was free, nothing is done.
  u64 free_to(List& list, CellOf& one, u64 items) {
    const u32 index = index_of(one);
    u64 seen = one.word.load_relaxed();
    cell::Next next;
    do {
      if ((seen & items) != 0) return seen;
      next = cell::freed(seen, items);
      if (Env::mutant("freed and listed by nobody")) next = {seen | items, cell::Duty::kNone};
      Env::step("own.freeing");
      if (Env::mutant("freed in two steps")) {
        one.word.store_release(next.word);  // [R1]
        break;
      }
    } while (!one.word.cas_acq_rel(seen, next.word));  // [R1] [A2] pairs with [A1] [R2]
    // LAST TOUCH: one
    Env::step("own.freed");
    if (next.duty == cell::Duty::kList) list.push(index, links());
    return seen;
  }

  // Holder only: takes those of the items that are free.
  u64 take(CellOf& one, u64 items) {
    u64 seen = one.word.load_relaxed();
    do {
      Env::step("own.taking");
    } while (!one.word.cas_acquire(seen, cell::taken(seen, items)));  // [A1] pairs with [R1]
    return cell::free_of(seen) & items;
  }

  // Holder only; what its word was.
  u64 let_go(List& list, CellOf& one) {
    const u32 index = index_of(one);
    u64 seen = one.word.load_relaxed();
    cell::Next next;
    do {
      next = cell::let_go(seen);
      if (Env::mutant("let go and listed by nobody")) next.duty = cell::Duty::kNone;
      Env::step("own.letting_go");
    } while (!one.word.cas_release(seen, next.word));  // [R2] pairs with [A2]
    // LAST TOUCH: one
    Env::step("own.let_go");
    if (next.duty == cell::Duty::kList) list.push(index, links());
    return seen;
  }

 protected:
  // Its entry was popped: what its word was.
  u64 hold(CellOf& one) {
    u64 seen = one.word.load_relaxed();
    do {
      Env::step("own.holding");
    } while (!one.word.cas_acquire(seen, cell::popped(seen)));  // [A2] pairs with [R2]
    return seen;
  }

  // The same, and takes its free items.
  u64 hold_all(CellOf& one) {
    u64 seen = one.word.load_relaxed();
    do {
      Env::step("own.holding");
    } while (!one.word.cas_acquire(seen, cell::kHeld));  // [A1] [A2] pairs with [R1] [R2]
    return cell::free_of(seen);
  }

  template <class F>
  void each_listed(List& list, F&& f) {
    u32 below;
    for (u32 index = list.take_all(); index != 0; index = below) {
      below = at<CellOf>(index).link.load_relaxed();
      f(index);
    }
  }

  Backing* backing_ = nullptr;
};

}  // namespace freeway::heap
