// SPDX-License-Identifier: MIT
// OwnedSlabs: where there is no rseq, slabs that stay a thread's between its calls, so that a call needs no atomic
// instruction; another thread revokes one through membarrier.
//
// Words     owner (of a seat): 0 = free, else whose slab it is (process::Claimant); with kMark: being revoked from that one
//           inside (of a thread): the thread's name while it is in a call that uses what it owns, else 0 (any other value
//           reads as 0). Only its thread writes it; it lies in thread-local storage, at an address that the name tells
// Moves     enter: inside = name, look at owner, still the name: in. leave: inside = 0 (plain stores and loads)
//           claim: 0, or the word of a thread that is not in this process, -> name (CAS)
//           revoke: owner -> owner|kMark (CAS), membarrier, look at inside: the owner is out: -> own name (CAS);
//           it is in: -> owner again (CAS)
//           lend: a drainer that revoked a seat gives it back: own name -> owner, or 0 (CAS)
// Invariant whoever is in a slab is the owner that its seat names, marked or not, and its inside says so
// Why       A thread enters, another revokes. membarrier is a full barrier on every CPU that runs a thread of the
//           process, at some moment between its call and its return; a thread that does not run had one when it stopped.
//           If the entering thread looked at owner before its barrier, then its inside is visible to the revoker, who
//           keeps out. If after it, it sees the mark and keeps out. Once the revoker has seen it out, it stays out: each
//           later look sees the mark or what followed
//           The name is in the word all the time: a thread that forks within a call, while somebody revokes its slab,
//           goes on in the child, where nobody may take the slab for one that stayed behind
//           A marked word is changed by who marked it only, who may be anywhere: so it cannot mean a later mark. In the
//           child of a fork it may be taken over from a name that stayed behind; then the marker's CAS fails
// Handlers  one that finds inside set uses no owned slab: it may have interrupted a call in the very slab. So does a
//           thread whose handler jumped out of a call: inside stays set, and the slab is lost
// Ended     threads need not say so: their thread-local storage is gone, or another's, and says "out". A new thread with
//           the name of one that ended goes on with its slab
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] leave publishes what was done in the slab; [A1] the revoker sees it. [R2] so does lending, for the owner
//           that enters [A2] or is revoked [A3]. [R3] publishes a new slab; [A4] whoever claims the seat sees it
// Progress  wait-free; nobody waits for an owner that is in: the revoker does without
// Lost if killed: the own slab, or the one that was being revoked or drained
// Checked   tests/model/owned_slabs_model.cc, tests/unit/owned_slabs_test.cc, tests/stall, tests/fork, tests/signal
#pragma once

#include "base/compiler.h"
#include "cache/slab.h"
#include "os/process.h"

namespace freeway {

template <class Env>
class OwnedSlabs {
 public:
  static constexpr unsigned kSeats = 64;
  // A thread without a slab asks for one at its first call, and again after so many. A revocation costs microseconds, and
  // where all threads run and there are more than slabs, what one wins the other loses.
  static constexpr u32 kPatience = 65536;
  static constexpr u64 kMark = process::Claimant::kSpareBit;

  struct alignas(128) Seat {  // two lines: processors fetch them in pairs
    typename Env::template Atomic<u64> owner;
    typename Env::template Atomic<Slab*> slab;
  };

  // A thread's own, in static thread-local storage; all zero at first. Within one cache line, and of no larger alignment than
  // glibc grants to libraries that come by dlopen.
  struct alignas(32) Own {
    typename Env::template Atomic<u64> inside;
    typename Env::template Plain<u64> name;    // given once, and kept in the child of a fork
    typename Env::template Plain<Seat*> seat;  // a hint. Where it is not null, its slab is there
    typename Env::template Plain<u32> calls;   // without a slab
  };

  // How many there are; 0: nothing is ever owned.
  void init(unsigned count) { count_.store_relaxed(count < kSeats ? count : kSeats); }

  // The thread's slab, which is its alone until leave(); null: it has none, or is in it already.
  FREEWAY_INLINE static Slab* enter(Own& own) {
    Seat* seat = own.seat.get();
    if (FREEWAY_UNLIKELY(seat == nullptr) || FREEWAY_UNLIKELY(own.inside.load_relaxed() != 0)) return nullptr;
    const u64 name = own.name.get();
    if (!Env::mutant("inside is said too late")) go_in(own, name);
    const bool mine = seat->owner.load_acquire() == name;  // [A2] pairs with [R2]
    if (Env::mutant("inside is said too late")) go_in(own, name);
    if (FREEWAY_LIKELY(mine || Env::mutant("the owner does not look"))) {
      Slab* slab = seat->slab.load_relaxed();
      if (slab != nullptr) return slab;
      __builtin_unreachable();
    }
    leave(own);
    return nullptr;
  }
  FREEWAY_INLINE static void leave(Own& own) { own.inside.store_release(0); }  // [R1] pairs with [A1]

  // A slab for a thread that has none, entered: one that is free, now and then another thread's. `hash`: where to begin;
  // who() says who asks; make() yields a slab; revoker: see revoke(). Null: the caller does without.
  template <class Who, class Make, class Revoker>
  Slab* settle(Own& own, u64 hash, Who&& who, Make&& make, const Revoker& revoker) {
    const u32 count = count_.load_relaxed();
    if (count == 0 || own.inside.load_relaxed() != 0) return nullptr;
    if (own.seat.get() != nullptr) forget(own);
    const u32 calls = own.calls.get();
    own.calls.set(calls + 1);
    if (calls % kPatience != 0) return nullptr;
    const process::Claimant claimant = who();
    go_in(own, name_of(own, claimant));
    Seat* seat = find(own.name.get(), hash % count, count, claimant);
    if (seat == nullptr && calls != 0) {
      Seat& victim = seats_[(hash + calls / kPatience) % count];
      const u64 owner = victim.owner.load_relaxed();  // OPTIMISTIC: holder
      if (revoke(victim, owner, own.name.get(), revoker)) seat = &victim;
    }
    Env::step("owned.settled");
    Slab* slab = seat == nullptr ? nullptr : seat->slab.load_relaxed();  // made before the seat changed hands
    if (seat != nullptr && slab == nullptr && (slab = make()) != nullptr) seat->slab.store_release(slab);  // [R3]
    if (slab == nullptr) return leave(own), nullptr;
    own.seat.set(seat);
    return slab;
  }

  // Calls f(slab) for each slab that can be had, one at a time, each the caller's alone meanwhile. The own one comes first,
  // and is given up: who vanishes in here takes one with it.
  template <class Revoker, class F>
  void drain(Own& own, const process::Claimant& who, const Revoker& revoker, F&& f) {
    drain_if(own, who, revoker, [](Slab&) { return true; }, f);
  }
  // The same for those of which wanted(slab) says so, while others may be in them.
  template <class Revoker, class Wanted, class F>
  void drain_if(Own& own, const process::Claimant& who, const Revoker& revoker, Wanted&& wanted, F&& f) {
    const auto is_wanted = [&](Seat& seat) {
      Slab* slab = seat.slab.load_relaxed();  // what wanted() sees there may be older: a hint
      return slab == nullptr || wanted(*slab);
    };
    const bool nested = own.inside.load_relaxed() != 0;  // the interrupted call may be in the own one
    const u64 name = name_of(own, who);
    const u32 count = count_.load_relaxed();
    if (!nested) go_in(own, name);
    for (unsigned n = 0; n < count && !nested; ++n)
      if (seats_[n].owner.load_acquire() == name && is_wanted(seats_[n])) {  // [A2] pairs with [R2]
        lend(seats_[n], name, 0, f);
        forget(own);
      }
    for (unsigned n = 0; n < count; ++n) {
      u64 before = seats_[n].owner.load_relaxed();  // OPTIMISTIC: holder
      if (before == 0 || !is_wanted(seats_[n])) continue;  // 0, drained: so is all that nobody owns
      if (who.may_replace(before & ~kMark)) {
        if (seats_[n].owner.cas_acquire(before, name)) lend(seats_[n], name, 0, f);  // [A3] pairs with [R2]
      } else if (revoke(seats_[n], before, name, revoker)) {
        lend(seats_[n], name, before, f);
      }
    }
    if (!nested) leave(own);
  }

  // The slab of seat `n`, null if it has none.
  Slab* slab(unsigned n) const { return seats_[n].slab.load_acquire(); }  // [A4] pairs with [R3]
  // Whether somebody is in it, or on the way; is_inside: see revoke().
  template <class IsInside>
  bool is_taken(unsigned n, const process::Claimant& who, IsInside&& is_inside) const {
    const u64 owner = seats_[n].owner.load_relaxed();
    return !who.may_replace(owner & ~kMark) && ((owner & kMark) != 0 || is_inside(owner));
  }

 private:
  friend struct Describe;  // malloc/describe.cc
  static void go_in(Own& own, u64 name) {
    own.inside.store_relaxed(name);
    Env::fence_signal();  // the processor may still load `owner` first; the compiler must not
  }
  // It has been revoked.
  static void forget(Own& own) {
    own.seat.set(nullptr);
    own.calls.set(0);
  }
  static u64 name_of(Own& own, const process::Claimant& who) {
    if (own.name.get() == 0) own.name.set(who.self);
    return own.name.get();
  }

  // A seat that is nobody's, or was the thread's own already.
  Seat* find(u64 name, u64 from, u32 count, const process::Claimant& who) {
    for (u32 i = 0; i < count; ++i) {
      Seat& seat = seats_[(from + i) % count];
      u64 seen = seat.owner.load_relaxed();  // OPTIMISTIC: holder
      const bool mine = seen == name || who.may_replace(seen & ~kMark);
      if (mine && seat.owner.cas_acquire(seen, name)) return &seat;  // [A3] pairs with [R2]
    }
    return nullptr;
  }

  // Calls f(slab) for a seat that is the caller's, and gives it to `next`.
  template <class F>
  void lend(Seat& seat, u64 name, u64 next, F&& f) {
    if (Slab* slab = seat.slab.load_relaxed()) f(*slab);
    Env::step("owned.drained");
    seat.owner.cas_release(name, next);  // [R2] pairs with [A2], [A3]. A failure: somebody is revoking it, and will
  }

  // Takes the seat from its owner, if that is `seen`, and not in the slab. revoker.barrier(): a full barrier in every thread of the
  // process, false if the kernel refuses; revoker.is_inside(name): whether that thread's inside says so.
  template <class Revoker>
  bool revoke(Seat& seat, u64 seen, u64 name, const Revoker& revoker) {
    if (seen == 0 || seen == name || (seen & kMark) != 0) return false;
    const bool early = Env::mutant("inside is read before the mark") && revoker.is_inside(seen);
    if (!seat.owner.cas_acquire(seen, seen | kMark)) return false;  // [A3] pairs with [R2]; so would the barrier
    Env::step("owned.marked");
    const bool done = Env::mutant("no barrier") || revoker.barrier();
    const bool in = Env::mutant("inside is read before the mark") ? early : revoker.is_inside(seen);
    Env::fence_acquire();  // [A1] pairs with [R1]
    const bool mine = (done && !in) || Env::mutant("revoked from inside");
    Env::step("owned.judged");
    u64 marked = seen | kMark;
    return seat.owner.cas_relaxed(marked, mine ? name : seen) && mine;
  }

  typename Env::template Atomic<u32> count_;
  Seat seats_[kSeats];
};

}  // namespace freeway
