// SPDX-License-Identifier: MIT
// Registry: the records of all heaps: made, found by their handles, taken out of use by one thread, and used again.
//
// Words     handle of a record: 0 -> its handle (its maker) -> 0 (CAS: the thread that destroys it).   all_, and pool_:
//           those that are nobody's
// Invariant a record is in the pool, or has a handle, or one thread has it in hand, which makes or destroys its heap
// Who       any thread, any signal handler
// Orders    [R1] a record's maker publishes it, [A2] walks see that; handles carry the rest along.
// Progress  lock-free
// Lost if killed: create: the record, which may have a handle that nobody knows. destroy: the record, and what `end`
// has left;
//           a visitor: see visit.h
// Checked   tests/heap/registry_model.cc, tests/abi/heap_test.cc
//
// Records provides at(index) -> RecordOf&, and make_record() -> the index of a new one, 0 without memory.
#pragma once

#include "base/compiler.h"
#include "heap/records.h"
#include "heap/visit.h"

namespace freeway::heap {

template <class Env, class RecordOf, class Records> class Registry {
 public:
  // `begin(record)` comes before anybody can find it. 0: no memory.
  template <class Begin> u64 create(Records& records, Begin&& begin) {
    u32 index = pool_.pop(links(records));
    const bool is_new = index == 0;
    if (is_new && (index = records.make_record()) == 0) return 0;
    RecordOf& record = records.at(index);
    begin(record);
    const u64 life = record.lives.load_relaxed() + 1;
    record.lives.store_relaxed(life);
    const u64 handle = handle_of(reinterpret_cast<uptr>(&record), life);
    record.handle.store_release(handle);  // [R1] pairs with [A2]
    Env::step("own.created");
    if (is_new) all_.push(index, nexts(records));
    return handle;
  }
  // Null: the handle is none any more.
  static FREEWAY_INLINE RecordOf* find(u64 handle) {
    const uptr address = record_of(handle);
    if (FREEWAY_UNLIKELY(address == 0)) return nullptr;
    auto& record = *reinterpret_cast<RecordOf*>(address);
    return FREEWAY_LIKELY(record.handle.load_relaxed() == handle) ? &record : nullptr;
  }
  // `end(record)` gives back all that the heap has, which the caller alone destroys, unless a visitor ends it. False:
  // the handle is none any more.
  template <class End> bool destroy(Records& records, u64 handle, const Claimant& who, End&& end) {
    RecordOf* record = find(handle);
    if (record == nullptr || !record->handle.cas_relaxed(handle, 0)) return false;
    Env::step("own.destroying");
    if (VisitOf::destroy(record->visitor, who)) finish(records, *record, end);
    return true;
  }
  // Calls visit(record) for each heap that exists and has no visitor, from the record `from` on (0: the first), until
  // it says false. Where to go on; 0: it has seen all. `end`: for those that are destroyed meanwhile. claimant(): the
  // caller's name
  template <class ClaimantOf, class V, class End>
  u32 visit_each(Records& records, u32 from, ClaimantOf&& claimant, V&& visit, End&& end) {
    u32 next = 0;
    bool is_there = from == 0, more = true;
    all_.each(nexts(records), [&](u32 index) {
      is_there |= index == from;
      if (!more && next == 0) next = index;
      if (!more || !is_there) return;
      RecordOf& record = records.at(index);
      const Claimant who = claimant();
      const auto entered = VisitOf::enter(record.visitor, who);
      if (entered == VisitOf::Entered::kNo) return;
      const bool exists = record.handle.load_acquire() != 0;  // [A2] pairs with [R1]
      if (entered == VisitOf::Entered::kIn && exists) more = visit(record);
      Env::step("own.visited");
      if (entered == VisitOf::Entered::kToEnd || VisitOf::leave(record.visitor, who)) finish(records, record, end);
    });
    return next;
  }
  // Calls f(record) of each heap.
  template <class F> void each(Records& records, F&& f) const {
    all_.each(nexts(records), [&](u32 index) {
      if (RecordOf& record = records.at(index); record.handle.load_acquire() != 0) f(record);  // [A2] pairs with [R1]
    });
  }

 private:
  using VisitOf = Visit<Env>;

  template <class End> void finish(Records& records, RecordOf& record, End&& end) {
    end(record);
    VisitOf::done(record.visitor);
    Env::step("own.destroyed");
    pool_.push(record.self.load_relaxed(), links(records));
  }
  static auto links(Records& records) {
    return [&records](u32 index) -> auto& { return records.at(index).link; };
  }
  static auto nexts(Records& records) {
    return [&records](u32 index) -> auto& { return records.at(index).next_heap; };
  }

  TaggedStack<Env> all_, pool_;
};

}  // namespace freeway::heap
