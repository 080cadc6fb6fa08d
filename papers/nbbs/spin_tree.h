// SPDX-License-Identifier: MIT
// SpinTree: the twin with a lock, for comparison: the corrected tree's functions, each as a whole under one spin lock a
// tree, with plain loads and stores where the tree has its RMWs. The paper has only the 1-level one; those with 3 and 4
// levels in a word are ours. It never marks, since nobody can come in between.
//
// Waits for whoever holds the lock: not for signal handlers, nor for stopped or killed threads.
//
// Word      lock: 0 free, 1 held
// Orders    [R1] letting go publishes what was done under the lock; [A1] taking it sees that
// Checked   papers/nbbs/tests/tree_test.cc, buddy_threads_test.cc
#pragma once

#include "papers/nbbs/tree.h"

namespace freeway::nbbs {

// An Env whose atomic words are changed by plain stores: for whoever holds a lock.
template <class Env> struct UnderLock {
  template <class T> class Atomic {
   public:
    T load_relaxed() const { return word_.load_relaxed(); }
    T load_acquire() const { return word_.load_relaxed(); }
    bool cas_acquire(T&, T next) { return set(next); }
    bool cas_release(T&, T next) { return set(next); }
    bool cas_acq_rel(T&, T next) { return set(next); }
    void store_release(T next) { set(next); }

   private:
    bool set(T next) {
      word_.store_relaxed(next);
      return true;
    }
    typename Env::template Atomic<T> word_;
  };
  static void step(const char* name) { Env::step(name); }
};

template <class Env, unsigned kLevels> class SpinTree : public StampedTree<UnderLock<Env>, kLevels, false> {
 public:
  using Base = StampedTree<UnderLock<Env>, kLevels, false>;
  using Word = typename Env::template Atomic<u64>;
  using Lock = typename Env::template Atomic<u32>;
  static_assert(sizeof(Word) == sizeof(typename Base::Word));

  SpinTree(Word* words, unsigned levels, Lock* lock)
      : Base(reinterpret_cast<typename Base::Word*>(words), levels), lock_(lock) {}

  Node alloc(Node n) {
    return locked([&] { return Base::alloc(n); });
  }
  bool free_node(Node n) {
    return locked([&] { return Base::free_node(n); });
  }
  void repair(Node) {}  // nobody is killed halfway: a thread that is keeps the lock
  void repair_all() {}

 private:
  template <class F> auto locked(F&& f) {
    while (lock_->exchange_acquire(1) != 0)  // [A1] pairs with [R1]
      while (lock_->load_relaxed() != 0) continue;
    const auto result = f();
    lock_->store_release(0);  // [R1] pairs with [A1]
    return result;
  }

  Lock* lock_;
};

}  // namespace freeway::nbbs
