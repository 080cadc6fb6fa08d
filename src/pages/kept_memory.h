// SPDX-License-Identifier: MIT
// KeptMemory: memory that could not be given back to the kernel or to the frames (at the mapping limit even munmap
// fails), until it can: a chain through its own first words.
//
// Moves     push: CAS; retry: takes all (exchange), and pushes again the pieces that are refused again
// Who       any thread, any signal handler; the pusher has the memory in hand, and its first words are accessible
// Orders    [R1] a link is published with its memory; [A1] the thread that takes the chain sees it
// Lost if killed: the piece in hand, in retry the rest of the chain
// Checked   tests/pages/large_model.cc, tests/pages/large_test.cc
#pragma once

#include "base/integers.h"

namespace freeway {

template <class Env> class KeptMemory {
 public:
  // `charged`: frames for which it is still charged (limits.h) and that are no arena's.
  void push(uptr address, std::size_t bytes, std::size_t charged) {
    uptr top = top_.load_relaxed();
    do {
      link(address)->next.set(top);
      link(address)->bytes.set(bytes);
      link(address)->charged.set(charged);
      Env::step("large.keep");
    } while (!top_.cas_release(top, address));  // [R1] pairs with [A1]
  }

  // Calls give(address, bytes, charged) for each piece, until it returns false.
  template <class F> void retry(F&& give) {
    if (top_.load_relaxed() == 0) return;
    bool refused = false;
    for (uptr here = top_.exchange_acquire(0); here != 0;) {  // [A1] pairs with [R1]
      const uptr next = link(here)->next.get();
      const std::size_t bytes = link(here)->bytes.get(), charged = link(here)->charged.get();
      Env::step("large.kept");
      refused = refused || !give(here, bytes, charged);
      if (refused) push(here, bytes, charged);
      here = next;
    }
  }

 private:
  struct Link {
    typename Env::template Plain<uptr> next;
    typename Env::template Plain<std::size_t> bytes, charged;
  };
  static Link* link(uptr address) { return reinterpret_cast<Link*>(address); }

  typename Env::template Atomic<uptr> top_;
};

}  // namespace freeway
