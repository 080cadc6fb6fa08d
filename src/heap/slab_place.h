// SPDX-License-Identifier: MIT
// SlabPlace: whether a heap's slab is its CPU's, or a thread has seized it to take it apart; two words.
//
// Words     claim (of the slab): 0 = it is its CPU's, else the name of the thread that has seized it (sync/claim.h)
//           place: none -> a slab made for that CPU -> none.  It lies in the heap's record, where sections look for it
// Moves     seize: take the claim; place: -> none.   put: place: -> the slab; then release.   A new slab is its maker's
// Invariant only the thread that has seized a slab puts it into its place.  Sections find a slab by its place: once it
//           is seized and all sections are interrupted, it is the seizer's alone
// Spare     a slab that is its CPU's and not in its place: of two that were made at once one is, and seizing or putting
//           the one makes the other spare.  It may have blocks: a thread that takes all slabs of a heap apart finds it
//                                           there
// Who       any thread, any signal handler, the child of any fork, where one that was seized by others is put back: it
//           is consistent at every instruction
// Orders    claim.h's: putting publishes what was done to the slab; the next seizer sees that. [R2], [A2]: so does a
//           thread that finds it in its place; sections do so by the address that they load
// Progress  wait-free       Lost if killed, until the heap is destroyed or the process forks: the slab with its blocks.
//           That CPU's threads do without
// Checked   tests/heap/slab_place_model.cc, tests/cache/rseq/table_test.cc
#pragma once

#include "sync/claim.h"

namespace freeway::heap {

template <class Env> struct SlabPlace {
  using Word = typename Env::template Atomic<u64>;

  // Takes the slab, which is made for the CPU of the place; false: another thread has seized it. `none`: what a place
  // without one says.
  template <class Slab> static bool seize(Word& place, Slab& slab, const Claimant& who, u64 none = 0) {
    if (!slab.claim.take(who)) return false;
    Env::step("own.seized");
    place.store_relaxed(none);  // it publishes nothing
    Env::step("own.out_of_place");
    return true;
  }

  // The slab that is there, or `none`.
  static u64 there(const Word& place) { return place.load_acquire(); }  // [A2] pairs with [R2]

  // The seizer only.
  template <class Slab> static void put(Word& place, Slab& slab) {
    Env::step("own.replacing");
    place.store_release(reinterpret_cast<u64>(&slab));  // [R2] pairs with [A2]
    Env::step("own.in_place");
    slab.claim.release();
  }

  // Whether it is its CPU's.
  template <class Slab> static bool is_settled(const Slab& slab) { return slab.claim.holder() == 0; }
  // Puts one that exists into its place, if none is there, or if it is there and a fork left behind the thread that was
  // putting it.
  template <class Slab> static void settle(Word& place, Slab& slab, const Claimant& who, u64 none = 0) {
    const u64 seen = there(place);
    const bool is_there = seen == reinterpret_cast<u64>(&slab);
    if ((seen == none || (is_there && !is_settled(slab))) && seize(place, slab, who, none)) put(place, slab);
  }
};

}  // namespace freeway::heap
