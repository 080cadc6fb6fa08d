// SPDX-License-Identifier: MIT
// transaction.h: the paper's transactional layer (section 3.1.4): CPU-specific data from C, in small steps.
//
//     for (;;) {
//       Transaction t;                                   // start
//       if (t.cpu() < 0) …                               // not registered: no transactions for this thread
//       if (!t.load(&heads[t.cpu()], head)) continue;    // conditional load
//       if (t.store(&heads[t.cpu()], next(head))) break; // conditional store: commits
//     }
//
// In the paper a notification routine sets each thread's interference flag. rseq has no such routine: a thread that is
// preempted between two small sections hears nothing. But the kernel clears rseq_cs when it preempts a thread, or gives
// it a signal, outside the section that rseq_cs names. So `start` arms rseq_cs with a descriptor that covers the
// insides of load and store; a load or store that finds it cleared, or is interrupted inside, is annulled.
//
// Promise   a store succeeds only if the thread was neither preempted nor migrated nor given a signal since its start:
//           nobody else ran on this CPU, and what was loaded is what is there
// Spurious  any section of anybody in between counts as interference: malloc and free, too, arm rseq_cs
// Handlers  whoever starts a transaction ends it: a store that succeeds does, else abandon(). (A handler that left one
//           armed would make the one that it interrupted look undisturbed. Nothing else may run on in that state.)
// No loops  that cannot end: a transaction as long as the time between interrupts never commits (section 3.1.5)
// Checked   papers/lfmalloc/tests/transaction_test.cc
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

extern "C" {
FREEWAY_HIDDEN freeway::i64 freeway_lfmalloc_start();
FREEWAY_HIDDEN void freeway_lfmalloc_abandon();
FREEWAY_HIDDEN freeway::u64 freeway_lfmalloc_conditional_load(const freeway::u64* from, freeway::u64* to);
FREEWAY_HIDDEN freeway::u64 freeway_lfmalloc_conditional_store(freeway::u64* at, freeway::u64 value);
}

namespace freeway::lfmalloc {

class Transaction {
 public:
  Transaction() : cpu_(freeway_lfmalloc_start()) {}
  ~Transaction() {
    if (!ended_) freeway_lfmalloc_abandon();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // The CPU it runs on; negative: this thread is not registered, every load and store will be annulled.
  i64 cpu() const { return cpu_; }
  // False: interference; `value` says nothing.
  bool load(const u64* from, u64& value) { return cpu_ >= 0 && freeway_lfmalloc_conditional_load(from, &value) != 0; }
  // False: interference; nothing was stored.
  bool store(u64* at, u64 value) { return cpu_ >= 0 && (ended_ = freeway_lfmalloc_conditional_store(at, value) != 0); }

 private:
  i64 cpu_;
  bool ended_ = false;
};

}  // namespace freeway::lfmalloc
