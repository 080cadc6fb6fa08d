// SPDX-License-Identifier: MIT
// HazardPointers: a thread announces "I may still compare with this node", and nobody recycles the node meanwhile
// (Michael, "Hazard pointers", 2004, in its use against ABA).
//
// Records   a chain that only grows. A thread has a record for one operation only: a handler that interrupts it takes
//           another one, and a thread that never comes back keeps one record
// Words     record.taken: 0 -> 1 (CAS) -> 0.   record.hazard: the node in danger, null = none; only its taker stores it
//           records_: the newest record (CAS)
// Plain     record.deferred, record.deferred_count: the taker's
// Orders    [R1] leaving a record hands its plain fields to the next taker; [A1] the next taker sees them
//           [R2] a new record is published; [A2] a thread that walks the chain sees it
// Hazards   protect() only stores. The caller must then confirm by a releasing read-modify-write that the node is still
//           in the structure. A remover takes the node out by a later, acquiring one on the same word, so it finds the
//           hazard when it looks for it afterwards
// Progress  claim, is_hazard: as many steps as there are records       Lost if killed: a record, the nodes deferred in
//           it
// Checked   papers/michael/tests/hazard_pointers_model.cc, papers/michael/tests/desc_avail_model.cc
#pragma once

#include "base/integers.h"

namespace freeway {

template <class Env, class Node> class HazardPointers {
 public:
  struct alignas(64) Record {
    typename Env::template Atomic<u32> taken;
    typename Env::template Atomic<Node*> hazard;
    typename Env::template Atomic<Record*> older;
    typename Env::template Plain<Node*> deferred;  // nodes that could not be recycled yet, linked by the user
  };

  // A record for the caller alone; `make()` yields memory for one more (zeroed), or null. Null: there is none.
  template <class Make> Record* claim(Make&& make) {
    for (Record* r = first(); r != nullptr; r = r->older.load_relaxed()) {
      u32 free = 0;
      if (r->taken.load_relaxed() == 0 && r->taken.cas_acquire(free, 1)) return r;  // [A1] pairs with [R1]
    }
    Record* fresh = make();
    if (fresh == nullptr) return nullptr;
    fresh->taken.store_relaxed(1);
    Record* newest = records_.load_relaxed();
    do {
      fresh->older.store_relaxed(newest);
      Env::step("hazard.record");
    } while (!records_.cas_release(newest, fresh));  // [R2] pairs with [A2]
    return fresh;
  }

  void leave(Record* r) {
    r->hazard.store_relaxed(nullptr);
    r->taken.store_release(0);  // [R1] pairs with [A1]
  }

  static void protect(Record* r, Node* node) { r->hazard.store_relaxed(node); }

  bool is_hazard(const Node* node) const {
    for (Record* r = first(); r != nullptr; r = r->older.load_relaxed())
      if (r->hazard.load_relaxed() == node) return true;
    return false;
  }

  template <class F> void each(F&& f) const {
    for (Record* r = first(); r != nullptr; r = r->older.load_relaxed()) f(*r);
  }

 private:
  Record* first() const { return records_.load_acquire(); }  // [A2] pairs with [R2]

  typename Env::template Atomic<Record*> records_;
};

}  // namespace freeway
