// SPDX-License-Identifier: MIT
// BlockCache: the block cache list of a heap and a size class (HMalloc 2020, section 3, Algorithms 2 and 4).
//
// The paper does not say whose list free puts a block into. Here it is the freeing thread's own: the owner's would be
// written to by two threads at once. A cached block so moves to another heap for a while, though it stays in its
// superblock; section 3's "blocks can only be allocated by their owner" does not hold for it.
//
// Links     are the flag words of the blocks (flag.h): no list of addresses is needed, and the contents stay untouched
// Order     last in, first out (the paper does not say)
// Who       the owner of the heap
// Lost if killed: the blocks in it, with the heap
// Checked   papers/hmalloc/tests/{thread_heap_test,flag_model}.cc
#pragma once

#include "papers/hmalloc/flag.h"

namespace freeway::hmalloc {

template <class Env, class S> class BlockCache {
 public:
  // Algorithm 4, line 8; false if the list is full (line 4). The block was occupied, and its user is the caller.
  bool put(uptr block) {
    const u32 count = count_.get();
    if (count >= S::kCacheLimit) return false;
    flag_of<Env>(block).store_relaxed(Flag<S>::cached(first_.get()));
    first_.set(block);
    count_.set(count + 1);
    return true;
  }

  // Algorithm 2, line 7: a block whose flag is not yet set, 0 if there is none.
  uptr take() {
    const uptr block = first_.get();
    if (block == 0) return 0;
    first_.set(Flag<S>::next(flag_of<Env>(block).load_relaxed()));
    count_.set(count_.get() - 1);
    return block;
  }

  u32 count() const { return count_.get(); }

 private:
  typename Env::template Plain<uptr> first_;
  typename Env::template Plain<u32> count_;
};

}  // namespace freeway::hmalloc
