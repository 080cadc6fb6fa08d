// SPDX-License-Identifier: MIT
// Lives: the name by which a thread of this process claims things, and the thread that the process began with
// (claim.h).
//
// Words     page: the address of a word in a page that the kernel wipes in the child of a fork (once.h)
//           that word: 0 (fresh, or wiped) -> the name of the thread that the process began with; or, if another thread
//           came first, a name with this process's epoch and no thread (CAS)
//           last_epoch: in ordinary memory, so a child goes on counting where its parent was
// Who       any thread, any signal handler, the child of any fork
// Why "no thread"    a handler that forked may start threads in the child before it returns into the call that it
//           interrupted, and one of them may come here first. If it counted as the survivor, claims that the real
//           survivor still holds would be taken from it. With no thread named, that process never takes anything over
// Orders    the words name, they publish nothing: a claim has orders of its own
// Progress  wait-free       Lost if killed: a number
// Checked   tests/cache/spare_slabs_model.cc, tests/os/process_test.cc
//
// Env provides: wiped_page() -> address of a zeroed page that a fork wipes; kNoSupport if the kernel has no such pages;
// 0 if it refuses one now: then this process is in epoch 1, as it will be once it has the page. drop_page(address).
// is_first_thread(): whether this thread is the one that the process began with
#pragma once

#include "sync/claim.h"
#include "sync/once.h"

namespace freeway {

template <class Env> class Lives {
 public:
  using Word = typename Env::template Atomic<u64>;
  static constexpr u64 kNoSupport = 1;

  // `thread`: the caller's thread pointer, in kThreadUnit.
  Claimant claimant(u64 thread) {
    const u64 page = page_.get([] { return Env::wiped_page(); },
                               [](u64 page_too_late) {
                                 if (page_too_late != kNoSupport) Env::drop_page(page_too_late);
                               });
    if (page == kNoSupport || page == 0) return {Claimant::name(thread, 1), 1};
    Word& word = *reinterpret_cast<Word*>(page);
    u64 survivor = word.load_relaxed();
    if (survivor == 0) {
      // The same for all racers.
      const u64 mine = Claimant::name(Env::is_first_thread() ? thread : 0, last_epoch_.load_relaxed() + 1);
      Env::step("lives.named");
      if (word.cas_relaxed(survivor, mine)) survivor = mine;
    }
    // A lost store leaves a child of this process with the same epoch: then nothing is taken over there.
    if (last_epoch_.load_relaxed() != Claimant::epoch(survivor)) last_epoch_.store_relaxed(Claimant::epoch(survivor));
    return {Claimant::name(thread, survivor), survivor};
  }

 private:
  Once<Env> page_;
  typename Env::template Atomic<u64> last_epoch_;
};

}  // namespace freeway
