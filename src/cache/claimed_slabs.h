// SPDX-License-Identifier: MIT
// ClaimedSlabs: a few spare slabs for threads that have no CPU's slab: no rseq, a vfork child, a slab being drained.
//
// Word      busy: 0 = free, else who claimed it (process::Claimant)
// Moves     claim: 0, or the word of a thread that is not in this process, -> the own word (CAS)    release: -> 0
// Invariant between claim and release the slab is the claimer's. A claimer that stayed behind in the parent at a fork may
//           have stopped anywhere: the slab is consistent at every instruction (slab.h), so it is taken over
// Who       any thread, any signal handler (a handler takes another slab than the one its thread holds)
// Parting   a thread begins with the slab that it had last. Threads that meet in one while they run at the same time part
//           for good: who finds it taken moves on and stays where it found room
// Orders    [R1] release publishes the slab; [A1] claim sees it. [R2], [A2]: so do those who only look (accounts)
// Progress  wait-free: kTries attempts, then the caller does without a slab
// Lost if killed: the slab that was claimed, with what is in it
// Checked   tests/model/claimed_slabs_model.cc, tests/unit/claimed_slabs_test.cc, tests/stall, tests/fork
#pragma once

#include "cache/slab.h"
#include "os/process.h"

namespace freeway {

// A slab that the caller has claimed: the access (see rseq_slabs.h) to it.
class ClaimedSlab {
 public:
  explicit ClaimedSlab(Slab& slab) : slab_(slab) {}
  u64 pop(unsigned c) const { return slab_ops::pop(slab_, c); }
  bool push(unsigned c, u64 block) const { return slab_ops::push(slab_, c, block) == 1; }
  unsigned pop_batch(unsigned c, void** out, unsigned count) const {
    return slab_ops::pop_batch(slab_, c, out, count);
  }
  unsigned push_batch(unsigned c, void* const* blocks, unsigned count) const {
    return slab_ops::push_batch(slab_, c, blocks, count);
  }
  unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned count) const {
    return slab_ops::push_run(slab_, c, lowest, size, count);
  }
  u32 take_current(unsigned c) const {
    return static_cast<u32>(slab_ops::exchange(slab_, offset_of_current(c), 0));
  }
  bool put_current(unsigned c, u32 d) const { return slab_ops::replace(slab_, offset_of_current(c), 0, d) == 0; }
  bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    return slab_ops::open(slab_, c, area, bytes, closed) == 1;
  }
  bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    return slab_ops::move(slab_, c, old_area, old_bytes, distance, new_bytes) == 1;
  }
  u64 grow(u64 capacity_at, u64 expected, u64 end, u64 bytes) const {
    return slab_ops::grow(slab_, capacity_at, expected, end, bytes);
  }
  bool replace(u64 offset, u64 expected, u64 value) const {
    return slab_ops::replace(slab_, offset, expected, value) == expected;
  }

 private:
  Slab& slab_;
};

template <class Env>
class ClaimedSlabs {
 public:
  static constexpr unsigned kSlabs = 32;
  static constexpr unsigned kTries = 4;

  // How many of them are used; more threads than that share, or do without.
  void init(unsigned count) { count_.store_relaxed(static_cast<u32>(clamp(count, 1, kSlabs))); }

  unsigned count() const { return count_.load_relaxed(); }

  // The number of a slab that is now the caller's, or kSlabs. `hash`: where to begin.
  unsigned claim(u64 hash, const process::Claimant& who) {
    const u32 count = count_.load_relaxed();
    if (count == 0) return kSlabs;
    auto n = static_cast<unsigned>(hash < count ? hash : hash % count);
    for (unsigned i = 0; i < kTries && i < count; ++i, n = n + 1 == count ? 0 : n + 1)
      if (take(n, who)) return n;
    return kSlabs;
  }
  // The same, beginning with the one that the caller had last: `place` is its number + 1, and is kept so. At first (0)
  // `hash` decides. A handler may change `place` at any moment.
  unsigned claim_again(u32& place, u64 hash, const process::Claimant& who) {
    const u32 last = place;
    const unsigned n = claim(last != 0 ? last - 1 : hash, who);
    if (n != kSlabs && n + 1 != last) place = n + 1;
    return n;
  }
  // Claims slab `n`, or not.
  bool take(unsigned n, const process::Claimant& who) {
    u64 seen = holders_[n].busy.load_relaxed();  // OPTIMISTIC: holder
    if (!who.may_replace(seen) && !Env::mutant("held slabs are claimed")) return false;
    Env::step("claimed.seen");
    if (Env::mutant("claimed by a store")) return holders_[n].busy.store_relaxed(who.self), true;
    return holders_[n].busy.cas_acquire(seen, who.self);  // [A1] pairs with [R1]
  }
  // Whether somebody has it whom `who` could not replace.
  bool is_taken(unsigned n, const process::Claimant& who) const {
    return !who.may_replace(holders_[n].busy.load_relaxed());
  }
  void release(unsigned n) {
    Env::step("claimed.release");
    holders_[n].busy.store_release(0);  // [R1] pairs with [A1]
  }

  // The slab itself; null until its claimer has made it. Only the claimer sets it.
  Slab* slab(unsigned n) const { return holders_[n].slab.load_acquire(); }          // [A2] pairs with [R2]
  void set_slab(unsigned n, Slab* slab) { holders_[n].slab.store_release(slab); }  // [R2] pairs with [A2]

 private:
  friend struct Describe;  // malloc/describe.cc
  struct alignas(128) Holder {  // two lines: processors fetch them in pairs
    typename Env::template Atomic<u64> busy;
    typename Env::template Atomic<Slab*> slab;
  };
  Holder holders_[kSlabs];
  typename Env::template Atomic<u32> count_;
};

}  // namespace freeway
