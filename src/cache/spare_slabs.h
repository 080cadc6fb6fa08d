// SPDX-License-Identifier: MIT
// SpareSlabs: slabs for threads that have no CPU's slab: no rseq, the child of a vfork, a slab that is being drained.
//
// A thread claims a seat, and with it the seat's slab, for one call. Where the process has no rseq it keeps one between
// its calls: then a call needs no atomic instruction, and another thread revokes the slab through membarrier.
//
// Words     claim (of a seat): 0 = free; a name: that thread has the slab for itself, or loses it in this moment; a
//           name with kKept: that thread keeps the slab between its calls (sync/claim.h)
//           inside (of a thread): its kept name while it is in a call that uses its kept slab, else 0 (any other value
//           reads as 0). Only its thread writes it; it lies in thread-local storage, at an address that the name tells
// Moves     take, release: see claim.h
//           keep: a claimer says that it is inside, then name -> kept name (store): it is in
//           enter: inside = kept name, look at the claim, still the kept name: in. leave: inside = 0 (plain stores and
//           loads) revoke: kept name -> the same without kKept (CAS), membarrier, look at inside: the keeper is out: ->
//           own name (CAS); it is in: -> kept name again (CAS)
//           lend: a drainer that revoked a slab gives it back: own name -> kept name (store)
// Invariant a slab is used by the thread that its claim names, and by no other. With kKept, and while it is being
//           revoked, that thread's inside says so
// Why       A thread enters, another revokes. membarrier is a full barrier on every CPU that runs a thread of the
//           process, at some moment between its call and its return; a thread that does not run had one when it
//           stopped. If the entering thread looked at the claim before its barrier, then its inside is visible to the
//           revoker, which keeps out. If after it, it sees that kKept is gone and keeps out. Once the revoker has seen
//           it out, it stays out: each later look sees that, or what followed
//           The word names its keeper all the time: a thread that forks within a call, while another revokes its slab,
//           goes on in the child, where nobody may take the slab for one that stayed behind
//           A word without kKept is changed only by the thread that made it so: a late CAS cannot meet a later word
//           that reads the same. In the child of a fork it may be taken over from a name that stayed behind; then that
//           CAS fails
// Handlers  one that finds inside set uses no kept slab: it may have interrupted a call in the very slab. So does a
//           thread whose handler jumped out of a call: inside stays set, and the slab is lost
// Ended     threads need not say so: their thread-local storage is gone, or another's, and says "out". A new thread
//           with the name of one that ended goes on with its slab
// Parting   seats for single calls: a thread begins with the one that it had last. Threads that meet in one while they
//           run at the same time part for good: the one that finds it taken moves on, and stays where it found room
// Who       any thread, any signal handler, the child of any fork: a slab is consistent at every instruction (slab.h)
// Orders    of claims: claim.h's; [A3] enter sees the work before a release. [R1] leave publishes the work in the slab;
//           [A1] the revoker sees it. [R2] publishes a new slab; [A2] accounts, which only look, see it
// Progress  wait-free: kTries attempts, one revocation; then the caller does without a slab
// Lost if killed: the slab that was claimed, kept and in use, revoked or drained, with its blocks
// Checked   tests/cache/spare_slabs_model.cc, tests/cache/spare_slabs_test.cc, tests/whole/stall, tests/whole/fork,
//           tests/whole/signal
#pragma once

#include "base/compiler.h"
#include "base/function_ref.h"
#include "cache/slab.h"
#include "sync/claim.h"

namespace freeway {

template <class Env> class SpareSlabs {
 public:
  static constexpr unsigned kMostKept = 64, kMostForCalls = 32;
  static constexpr unsigned kSeats = kMostKept + kMostForCalls;
  static constexpr unsigned kTries = 4;
  // A thread that keeps no slab asks for one at its first call, and again after so many. A revocation costs
  // microseconds, and where all threads run and there are more than slabs, what one wins the other loses.
  static constexpr u32 kPatience = 65536;
  static constexpr u64 kKept = Claimant::kSpareBit;

  struct alignas(128) Seat {  // two lines: processors fetch them in pairs
    Claim<Env> claim;
    typename Env::template Atomic<Slab*> slab;  // set by the claimer, for good
  };

  // A thread's own, in static thread-local storage; all zero at first. Within one cache line, and of no larger
  // alignment than glibc grants to libraries that come by dlopen.
  struct alignas(32) Own {
    typename Env::template Atomic<u64> inside;
    typename Env::template Plain<u64> name;  // with kKept. Given once, and kept in the child of a fork
    typename Env::template Plain<Seat*>
        seat;  // it keeps that one's slab: a hint. Where it is not null, the slab is there
    typename Env::template Plain<u32> calls;  // without a kept slab
    typename Env::template Plain<u32> place;  // among the seats for calls, + 1, of the one that it had last; 0: none
  };

  // How many seats there are for single calls; more threads than that share, or do without.
  void init(unsigned for_calls) { for_calls_.store_relaxed(static_cast<u32>(clamp(for_calls, 1, kMostForCalls))); }
  // How many threads may keep one; 0, as before this is said: none.
  void init_kept(unsigned count) { kept_.store_relaxed(count < kMostKept ? count : kMostKept); }

  // The slab that the thread keeps, its alone until leave(); null: it keeps none, or is in it already.
  FREEWAY_INLINE static Slab* enter(Own& own) {
    Seat* seat = own.seat.get();
    if (FREEWAY_UNLIKELY(seat == nullptr) || FREEWAY_UNLIKELY(own.inside.load_relaxed() != 0)) return nullptr;
    const u64 name = own.name.get();
    go_in(own, name);
    const bool mine = seat->claim.word().load_acquire() == name;  // [A3] pairs with claim.h:[R1]
    if (FREEWAY_LIKELY(mine)) {
      Slab* slab = seat->slab.load_relaxed();
      if (slab != nullptr) return slab;
      __builtin_unreachable();
    }
    leave(own);
    return nullptr;
  }
  FREEWAY_INLINE static void leave(Own& own) { own.inside.store_release(0); }  // [R1] pairs with [A1]

  // A slab that is the caller's alone until give(): the kept one, or one for this call; null: there was none.
  struct Taken {
    Slab* slab;
    Seat* seat;  // null: the thread keeps it
  };
  // `hash`: where to begin to look; who() names the caller; make() yields a slab, or null; revoker: see revoke().
  template <class Who, class Make, class Revoker>
  Taken take(Own& own, u64 hash, Who&& who, Make&& make, const Revoker& revoker) {
    Slab* slab = enter(own);
    if (slab == nullptr) slab = settle(own, hash, who, make, revoker);
    if (slab != nullptr) return Env::step("spare.entered"), Taken{slab, nullptr};
    Seat* seat = claim(own, hash, who());
    if (seat == nullptr) return {nullptr, nullptr};
    slab = slab_of(*seat, make);
    Env::step("spare.claimed");
    if (slab == nullptr) seat->claim.release();
    return {slab, seat};
  }
  static void give(Own& own, const Taken& taken) {
    if (taken.slab == nullptr) return;
    if (taken.seat != nullptr) taken.seat->claim.release();
    else leave(own);
  }
  // A seat for one call, until claim.release(); null: all that were tried are taken.
  Seat* claim(Own& own, u64 hash, const Claimant& who) {
    const u32 count = for_calls_.load_relaxed(), last = own.place.get();  // a handler may change it at any moment
    if (count == 0) return nullptr;
    const u64 from = last != 0 ? last - 1 : hash;
    auto n = static_cast<u32>(from < count ? from : from % count);
    for (u32 i = 0; i < kTries && i < count; ++i, n = n + 1 == count ? 0 : n + 1)
      if (seats_[kMostKept + n].claim.take(who)) {
        if (n + 1 != last) own.place.set(n + 1);
        return &seats_[kMostKept + n];
      }
    return nullptr;
  }
  // Calls f(slab) for each slab that can be had and of which wanted(slab) says so, one at a time, each the caller's
  // alone meanwhile. wanted() looks while others may be in it. The caller's kept slab is given up; others' are theirs
  // again afterwards.
  template <class Revoker>
  FREEWAY_COLD void drain(Own& own, const Claimant& who, const Revoker& revoker, FunctionRef<bool(Slab&)> wanted,
                          FunctionRef<void(Slab&)> f) {
    each_seat(*this, [&](Seat& seat) {
      Slab* slab = seat.slab.load_acquire();  // [A2] pairs with [R2]
      if (slab == nullptr || !wanted(*slab)) return;
      const u64 seen = seat.claim.holder();
      const bool is_others = is_kept(seen) && seen != name_of(own, who) && !who.may_replace(seen);
      if (!(is_others ? revoke(seat, seen, who.self, revoker) : take_seat(seat, seen, own, who))) return;
      f(*slab);
      Env::step("spare.drained");
      seat.claim.release(is_others ? seen : 0);
    });
  }
  // Calls f(slab) with a slab for each seat for single calls that can be had.
  template <class Make, class F> FREEWAY_COLD void provide(const Claimant& who, Make&& make, F&& f) {
    for (u32 n = 0; n < for_calls_.load_relaxed(); ++n) {
      Seat& seat = seats_[kMostKept + n];
      if (!seat.claim.take(who)) continue;
      if (Slab* slab = slab_of(seat, make)) f(*slab);
      seat.claim.release();
    }
  }
  // Calls f(slab, is_taken) for each slab that there is; is_taken(): whether another thread is in it, or on the way.
  template <class IsInside, class F> void each(const Claimant& who, IsInside&& is_inside, F&& f) const {
    each_seat(*this, [&](const Seat& seat) {
      Slab* slab = seat.slab.load_acquire();  // [A2] pairs with [R2]
      if (slab == nullptr) return;
      f(*slab, [&] {
        const u64 seen = seat.claim.holder();
        return !who.may_replace(seen) && (!is_kept(seen) || is_inside(seen));
      });
    });
  }

  // The slab that the thread kept when it last looked, not entered, else null; the same, or the one that it claimed
  // last.
  static const Slab* peek_kept(const Own& own) {
    const Seat* seat = own.seat.get();
    return seat == nullptr ? nullptr : seat->slab.load_relaxed();
  }
  const Slab* peek_last(const Own& own) const {
    if (const Slab* slab = peek_kept(own)) return slab;
    const u32 place = own.place.get();
    return place == 0 ? nullptr : seats_[kMostKept + place - 1].slab.load_acquire();  // [A2] pairs with [R2]
  }

 private:
  template <class Self, class F> static void each_seat(Self& self, F&& f) {
    const u32 kept = self.kept_.load_relaxed(), for_calls = self.for_calls_.load_relaxed();
    for (u32 n = 0; n < kept; ++n) f(self.seats_[n]);
    for (u32 n = 0; n < for_calls; ++n) f(self.seats_[kMostKept + n]);
  }
  // The slab of a seat that the caller has claimed; null: there is no memory for it.
  template <class Make> static Slab* slab_of(Seat& seat, Make&& make) {
    Slab* slab = seat.slab.load_relaxed();  // made before the seat changed hands
    if (slab == nullptr && (slab = make()) != nullptr) seat.slab.store_release(slab);  // [R2] pairs with [A2]
    return slab;
  }

  static constexpr bool is_kept(u64 word) { return (word & kKept) != 0; }
  static void go_in(Own& own, u64 name) {
    own.inside.store_relaxed(name);
    Env::fence_signal();  // the processor may still load the claim first; the compiler must not
  }
  static u64 name_of(Own& own, const Claimant& who) {
    if (own.name.get() == 0) own.name.set(who.self | kKept);
    return own.name.get();
  }

  // A slab to keep, entered.
  template <class Who, class Make, class Revoker>
  FREEWAY_COLD Slab* settle(Own& own, u64 hash, Who&& who, Make&& make, const Revoker& revoker) {
    const u32 count = kept_.load_relaxed();
    if (count == 0 || own.inside.load_relaxed() != 0) return nullptr;
    if (own.seat.get() != nullptr) {  // it was revoked
      own.seat.set(nullptr);
      own.calls.set(0);
    }
    const u32 calls = own.calls.get();
    own.calls.set(calls + 1);
    if (calls % kPatience != 0) return nullptr;
    const Claimant claimant = who();
    go_in(own, name_of(own, claimant));
    Seat* seat = find(own.name.get(), hash % count, count, claimant);
    if (seat == nullptr && calls != 0) {
      Seat& victim = seats_[(hash + calls / kPatience) % count];
      const u64 keeper = victim.claim.holder();
      if (is_kept(keeper) && revoke(victim, keeper, claimant.self, revoker)) seat = &victim;
    }
    Env::step("spare.settled");
    if (seat == nullptr) return leave(own), nullptr;
    Slab* slab = slab_of(*seat, make);
    seat->claim.release(slab == nullptr ? 0 : own.name.get());
    if (slab == nullptr) return leave(own), nullptr;
    own.seat.set(seat);
    return slab;
  }
  // Claims a seat that is nobody's, or was kept by the thread already.
  Seat* find(u64 name, u64 from, u32 count, const Claimant& who) {
    for (u32 i = 0; i < count; ++i) {
      Seat& seat = seats_[(from + i) % count];
      if (seat.claim.take(who) || (seat.claim.holder() == name && seat.claim.pass(name, who.self))) return &seat;
    }
    return nullptr;
  }
  // Claims a seat whose claim was `seen`: nobody's, or the thread's own kept one, unless a call that this one has
  // interrupted may be in it.
  static bool take_seat(Seat& seat, u64 seen, Own& own, const Claimant& who) {
    if (seen != own.name.get()) return seat.claim.take(who);
    if (own.inside.load_relaxed() != 0) return false;
    if (own.seat.get() == &seat) own.seat.set(nullptr);
    own.calls.set(0);
    return seat.claim.pass(seen, who.self);
  }

  // Takes the seat from the thread that keeps it, if that is not in the slab. revoker.barrier(): a full barrier in
  // every thread of the process, false if the kernel refuses; revoker.is_inside(name): whether that thread's inside
  // says so.
  template <class Revoker> static bool revoke(Seat& seat, u64 keeper, u64 name, const Revoker& revoker) {
    if (!seat.claim.pass(keeper, keeper & ~kKept)) return false;
    Env::step("spare.marked");
    const bool done = revoker.barrier();
    const bool in = revoker.is_inside(keeper);
    Env::fence_acquire();  // [A1] pairs with [R1]
    const bool mine = done && !in;
    Env::step("spare.judged");
    return seat.claim.pass(keeper & ~kKept, mine ? name : keeper) && mine;
  }

  Seat seats_[kSeats];
  typename Env::template Atomic<u32> for_calls_, kept_;
};

}  // namespace freeway
