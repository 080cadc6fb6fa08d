// SPDX-License-Identifier: MIT
// superblock_list.h: the two kinds of lists in the global heap: lock-free (ours: sync/tagged_stack.h), or under a mutex
// (the paper's). The same three functions.
#pragma once

#include "papers/lfmalloc/form.h"
#include "papers/lfmalloc/mutex.h"
#include "sync/tagged_stack.h"

namespace freeway::lfmalloc {

template <class Env> class MutexList {
 public:
  template <class Links> void push(u32 node, Links&& links) {
    SleepingLock<Env>::lock(lock_);
    links(node).store_relaxed(top_.load_relaxed());
    top_.store_relaxed(node);
    SleepingLock<Env>::unlock(lock_);
  }
  template <class Links> u32 pop(Links&& links) {
    SleepingLock<Env>::lock(lock_);
    const u32 node = top_.load_relaxed();
    if (node != 0) top_.store_relaxed(links(node).load_relaxed());
    SleepingLock<Env>::unlock(lock_);
    return node;
  }
  u32 peek() const { return top_.load_relaxed(); }

 private:
  typename Env::template Atomic<u32> lock_;
  typename Env::template Atomic<u32> top_;
};

template <class Env> using LockFreeList = TaggedStack<Env>;

// The one that form.h says; the other one stays empty.
template <class Env> class ListAsTold {
 public:
  template <class Links> void push(u32 node, Links&& links) {
    form.global_mutex ? locked_.push(node, links) : lock_free_.push(node, links);
  }
  template <class Links> u32 pop(Links&& links) {
    return form.global_mutex ? locked_.pop(links) : lock_free_.pop(links);
  }
  u32 peek() const { return form.global_mutex ? locked_.peek() : lock_free_.peek(); }

 private:
  LockFreeList<Env> lock_free_;
  MutexList<Env> locked_;
};

}  // namespace freeway::lfmalloc
