// SPDX-License-Identifier: MIT
// hashed_heaps.h: local heaps that a thread finds by a hash of its id (Hoard's way; Table 3, row 3). Also where threads
// without rseq are at home in the default form.
#pragma once

#include "papers/lfmalloc/local_heap.h"

namespace freeway::lfmalloc {

template <class Env> class HashedHeaps {
 public:
  static constexpr u32 kMost = 64;

  // Again with the same does no harm.
  void init(u32 count) { count_.store_relaxed(static_cast<u32>(clamp(count, 1, kMost))); }

  LocalHeap<Env>& mine() {
    const u64 thread = reinterpret_cast<u64>(__builtin_thread_pointer()) >> 6;
    return heaps_[(thread * 0x9e3779b97f4a7c15 >> 40) % count_.load_relaxed()];
  }

  template <class F> void each(F&& f) {
    for (LocalHeap<Env>& heap : heaps_) f(heap);
  }

 private:
  typename Env::template Atomic<u32> count_;
  LocalHeap<Env> heaps_[kMost];
};

}  // namespace freeway::lfmalloc
