// SPDX-License-Identifier: MIT
// superblock_list.h: LSL and SSL: the exhausted superblocks of a heap, doubly linked through their headers.
//
// The heap's owner alone touches a list. What is exhausted goes to the end and searches begin at the front, so that the
// superblock which has been left alone for the longest is looked at first (the paper does not say).
#pragma once

#include "base/integers.h"

namespace freeway::hmalloc {

// Superblock has Plain<Superblock*> next, prev.
template <class Env, class Superblock> class SuperblockList {
 public:
  bool empty() const { return first_.get() == nullptr; }

  void insert(Superblock* sb) {
    Superblock* last = last_.get();
    sb->next.set(nullptr);
    sb->prev.set(last);
    (last == nullptr ? first_ : last->next).set(sb);
    last_.set(sb);
  }

  void remove(Superblock* sb) {
    Superblock* next = sb->next.get();
    Superblock* prev = sb->prev.get();
    (prev == nullptr ? first_ : prev->next).set(next);
    (next == nullptr ? last_ : next->prev).set(prev);
  }

  // The first for which f(superblock) is true, null if there is none. f may remove the superblock.
  template <class F> Superblock* traverse(F&& f) const {
    for (Superblock* sb = first_.get(); sb != nullptr;) {
      Superblock* next = sb->next.get();
      if (f(*sb)) return sb;
      sb = next;
    }
    return nullptr;
  }

 private:
  typename Env::template Plain<Superblock*> first_, last_;
};

}  // namespace freeway::hmalloc
