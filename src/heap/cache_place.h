// SPDX-License-Identifier: MIT
// CachePlace: whether a cache is its CPU's, or somebody has seized it to take it apart; two words.
//
// Words     owner: the CPU's number -> the name of who has seized the cache (process::Claimant) -> the number
//           place: 0 -> a cache made for that CPU -> 0.  It lies in the heap's record, where sections look for it
// Moves     seize: owner: its number, or the name of a thread that is not in this process, -> the own name (CAS);
//           place: -> 0
//           put: place: -> the cache; then owner: -> the number.   A new cache is its maker's
// Invariant only who has seized a cache puts it into its place.  Sections find a cache by its place, or know its address
//           and test its owner: once it is seized and all sections are interrupted, it is the seizer's alone
// Spare     one that is its CPU's and not in its place: of two that were made at once one is, and seizing or putting the
//           one makes the other spare.  It may have something in hand: who takes all caches of a heap apart finds it there
// Who       any thread, any signal handler, the child of any fork, where one that was seized by others is put back: it is
//           consistent at every instruction
// Orders    [R1] putting publishes what was done to the cache; [A1] who seizes it sees that. [R2], [A2]: so does who finds
//           it in its place; sections do so by the address that they load, or by an acquire of the owner
// Progress  wait-free       Lost if killed, until the heap is destroyed or the process forks: the cache with what it has
//           in hand.  That CPU's threads do without
// Checked   tests/model/heap_cache_place_model.cc, tests/unit/heap_caches_test.cc, tests/rseq/owner_test.cc
#pragma once

#include "os/process.h"

namespace freeway::heap {

namespace owner {

constexpr bool is_cpu(u64 word) { return process::Claimant::thread(word) == 0; }
constexpr bool may_seize(u64 word, const process::Claimant& who) { return is_cpu(word) || who.may_replace(word); }

}  // namespace owner

template <class Env>
struct CachePlace {
  using Word = typename Env::template Atomic<u64>;

  // Takes the cache, which is made for the CPU of the place; false: another has seized it.
  template <class Cache>
  static bool seize(Word& place, Cache& cache, const process::Claimant& who) {
    u64 seen = cache.owner.load_relaxed();
    if (!owner::may_seize(seen, who) && !Env::mutant("seized twice")) return false;
    if (!cache.owner.cas_acquire(seen, who.self)) return false;  // [A1] pairs with [R1]
    Env::step("own.seized");
    place.store_relaxed(0);  // it publishes nothing
    Env::step("own.out_of_place");
    return true;
  }

  // The cache that is there, 0: none.
  static u64 there(const Word& place) { return place.load_acquire(); }  // [A2] pairs with [R2]

  // Who has seized it only.
  template <class Cache>
  static void put(Word& place, Cache& cache) {
    Env::step("own.replacing");
    if (Env::mutant("its CPU's before it is in place")) cache.owner.store_release(cache.id.load_relaxed());  // [R1]
    place.store_release(reinterpret_cast<u64>(&cache));  // [R2] pairs with [A2]
    Env::step("own.in_place");
    cache.owner.store_release(cache.id.load_relaxed());  // [R1] pairs with [A1]
  }

  // Whether it is its CPU's.
  template <class Cache>
  static bool is_settled(const Cache& cache) {
    return owner::is_cpu(cache.owner.load_relaxed());
  }
  // Puts one that exists into its place, if none is there, or it is there and a fork left behind who was putting it.
  template <class Cache>
  static void settle(Word& place, Cache& cache, const process::Claimant& who) {
    const u64 seen = there(place);
    const bool is_there = seen == reinterpret_cast<u64>(&cache);
    if ((seen == 0 || (is_there && !is_settled(cache))) && seize(place, cache, who)) put(place, cache);
  }
};

}  // namespace freeway::heap
