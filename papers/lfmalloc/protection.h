// SPDX-License-Identifier: MIT
// protection.h: how threads of one local heap are kept apart where no restartable section does it: by CAS (ours; also
// what threads without rseq use in the default form), by a mutex (Table 3, rows 2 and 3), by a spin lock (ours).
//
// Each has pop, push and install on a given heap, as local_heap.h has them.
//
// ByCas
// Words     online[c] and the local word of the superblock in it (local_word.h)
// Moves     install: opens the gate of `fresh`, then online[c]: expected -> fresh. A superblock in a slot is always
// open;
//           it is shut by who took it out (global_heap.h, put)
//           pop, push: the local word, by CAS, while the gate is open for class c
// Stale     who sleeps with a superblock in hand may wake when it is on line elsewhere: in another hashed heap of the
//           same class it pops or pushes there, as well as here; else the gate is shut or another's, and it looks again
// Orders    [R1] a push publishes the block's link; [A2] a pop sees it. [R2] install publishes base, the list that was
// made
//           or merged, and the open gate; [A2], [A3] pops see them, [A4] so does who takes the superblock out again.
//           [R3] a pop's reads come before a later life's writes, which come after the gate was shut
// ABA       the tag (local_word.h)
// Progress  lock-free       Lost if killed: nothing in pop and push but the block in hand
// Checked   papers/lfmalloc/tests/superblock_model.cc
#pragma once

#include "papers/lfmalloc/form.h"
#include "papers/lfmalloc/local_heap.h"
#include "papers/lfmalloc/mutex.h"

namespace freeway::lfmalloc {

template <class Env> struct ByCas {
  using Block = Superblock<Env>;

  static Popped<Env> pop(LocalHeap<Env>& heap, unsigned c) {
    Block* s = heap.online[c].load_relaxed();
    while (s != nullptr) {
      u64 list = s->local.load_acquire();  // [A2] pairs with [R1] [R2]
      if (!local::is_open_for(list, c)) {
        // It went off line, so the slot has changed. A load might not see that for a while; an RMW reads the newest.
        heap.online[c].cas_acquire_acquire(s, s);  // [A3] pairs with [R2]
        continue;
      }
      if (local::head(list) == 0) return {0, s};
      const uptr block = block_at(s->base.load_relaxed(), local::head(list));
      const u64 below = Env::link_unowned(block);  // OPTIMISTIC: free block
      Env::step("lfmalloc.pop");
      if (s->local.cas_release(list, local::popped_by_cas(list, below)))  // [R3] pairs with global_heap.h:[A1]
        return {block, nullptr};
    }
    return {0, nullptr};
  }

  static bool push(LocalHeap<Env>& heap, unsigned c, Block* s, uptr block) {
    if (heap.online[c].load_relaxed() != s) return false;
    u64 list = s->local.load_relaxed();
    while (local::is_open_for(list, c)) {
      Env::link(block).store_relaxed(local::head(list));
      Env::step("lfmalloc.push");
      if (s->local.cas_release(list, local::pushed(list, unit_of(block))))  // [R1] pairs with [A2] global_heap.h:[A1]
        return true;
    }
    return false;
  }

  static Block* install(LocalHeap<Env>& heap, unsigned c, Block* expected, Block* fresh) {
    if (fresh != nullptr) {
      const u64 list = fresh->local.load_relaxed();
      fresh->local.store_release(local::opened(list, c));  // [R2] pairs with [A2]
    }
    Block* seen = expected;
    Env::step("lfmalloc.install");
    heap.online[c].cas_acq_rel(seen, fresh);  // [R2] [A4] pairs with [A3] [R2]
    return seen;
  }
};

template <class Env, template <class> class Lock> struct UnderLock {
  using Block = Superblock<Env>;

  static Popped<Env> pop(LocalHeap<Env>& heap, unsigned c) {
    const Held held(heap);
    return alone::pop(heap, c);
  }
  static bool push(LocalHeap<Env>& heap, unsigned c, Block* s, uptr block) {
    const Held held(heap);
    return alone::push(heap, c, s, block);
  }
  static Block* install(LocalHeap<Env>& heap, unsigned c, Block* expected, Block* fresh) {
    const Held held(heap);
    return alone::install(heap, c, expected, fresh);
  }

 private:
  class Held {
   public:
    explicit Held(LocalHeap<Env>& heap) : heap_(heap) { Lock<Env>::lock(heap_.lock); }
    ~Held() { Lock<Env>::unlock(heap_.lock); }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    LocalHeap<Env>& heap_;
  };
};

// The one that form.h says: a switch beside an atomic read-modify-write instruction at least.
template <class Env> struct Protection {
  using Block = Superblock<Env>;
  using Sleeping = UnderLock<Env, SleepingLock>;
  using Spinning = UnderLock<Env, SpinningLock>;

  static Popped<Env> pop(LocalHeap<Env>& heap, unsigned c) {
    switch (form.lock) {
      case Lock::kMutex: return Sleeping::pop(heap, c);
      case Lock::kSpin: return Spinning::pop(heap, c);
      default: return ByCas<Env>::pop(heap, c);
    }
  }
  static bool push(LocalHeap<Env>& heap, unsigned c, Block* s, uptr block) {
    switch (form.lock) {
      case Lock::kMutex: return Sleeping::push(heap, c, s, block);
      case Lock::kSpin: return Spinning::push(heap, c, s, block);
      default: return ByCas<Env>::push(heap, c, s, block);
    }
  }
  static Block* install(LocalHeap<Env>& heap, unsigned c, Block* expected, Block* fresh) {
    switch (form.lock) {
      case Lock::kMutex: return Sleeping::install(heap, c, expected, fresh);
      case Lock::kSpin: return Spinning::install(heap, c, expected, fresh);
      default: return ByCas<Env>::install(heap, c, expected, fresh);
    }
  }
};

}  // namespace freeway::lfmalloc
