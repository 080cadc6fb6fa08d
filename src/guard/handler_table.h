// SPDX-License-Identifier: MIT
// HandlerTable: for each handler that the program has for SIGSEGV or SIGBUS an entry of ours that stands for it.
//
// Word      one an entry: 0 = free, else a handler, and how it is called (fault_signal.cc)
// Moves     entry_of: 0 -> a handler (CAS), for good: nothing is ever taken out
// Invariant an entry stands for one handler for ever, and a handler has one entry
// Who       any thread, any signal handler, any child. A child of vfork, which has its parent's memory and signal
//           actions of its own, adds entries to its parent's table; that the parent does not use them does no harm
// Orders    none: a word says all. Who gets an entry from the kernel got it after the one who stored the word had given
//           it to the kernel, whose lock of its own on the actions is between them
// Progress  wait-free, kEntries looks      Lost if killed: nothing
// Checked   tests/model/handler_table_model.cc, tests/unit/guard_handlers_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::guard {

template <class Env, unsigned kEntries>
class HandlerTable {
 public:
  static constexpr unsigned kNone = kEntries;

  // The entry that stands for this handler, which is not 0; kNone: all stand for others.
  unsigned entry_of(u64 handler) {
    for (unsigned i = 0; i < kEntries; ++i) {
      u64 seen = words_[i].load_relaxed();
      if (seen == 0) {
        Env::step("handlers.adding");
        if (Env::mutant("added in two steps")) return words_[i].store_relaxed(handler), i;
        if (words_[i].cas_relaxed(seen, handler)) return i;
      }
      if (seen == handler && !Env::mutant("the same again")) return i;
    }
    return kNone;
  }
  u64 handler(unsigned entry) const { return words_[entry].load_relaxed(); }

 private:
  typename Env::template Atomic<u64> words_[kEntries];
};

// Changes what a cell holds, which has an exchange and no compare-and-swap, from `seen` to changed(seen). Whatever
// others put there in the meantime stays, changed, too: the last of what they put. (For a moment the cell holds what
// was there before.) changed() of what it changed is the same again.
template <class Value, class Exchange, class Changed>
void change_by_exchange(Value seen, Exchange&& exchange, Changed&& changed) {
  for (Value expected = seen;;) {
    const Value next = changed(seen);
    if (next == expected) return;
    const Value found = exchange(next);
    if (found == expected) return;
    expected = next;
    seen = found;  // somebody put it there after `expected` was seen there: that is what counts
  }
}

}  // namespace freeway::guard
