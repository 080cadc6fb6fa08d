// SPDX-License-Identifier: MIT
// GlobalCache: page blocks between two owners (section 3.1.1, "Page block caching").
//
// Lists     per object class: page blocks with live objects whose thread has ended, without limit; per size: wholly
//           free ones, at most `limit` (0 in the paper). Page blocks that were full when their thread ended are in no
//           list: whoever frees one of their objects adopts them. (The paper's text has orphaned page blocks both on a
//           list and open to adoption, which would give one to two threads: papers/streamflow/README.md)
// Word      the lists are tagged stacks of the page manager's names (sync/tagged_stack.h); free_count: how many a size
//           has; a hint when several threads come at once, by at most one each
// Who       any thread, any signal handler       Progress  lock-free       Lost if killed: the page block in hand
// Checked   tests/sync/tagged_stack_model.cc, papers/streamflow/tests/remotely_freed_model.cc, allocator_test.cc
#pragma once

#include "papers/streamflow/size_classes.h"
#include "sync/tagged_stack.h"

namespace freeway::streamflow {

// `links(name)` yields the link of the page block's name, an Env::Atomic<u32>&.
template <class Env, unsigned kClasses> class GlobalCache {
 public:
  template <class Links> void push_orphan(unsigned c, u32 name, Links&& links) { orphans_[c].push(name, links); }
  template <class Links> u32 pop_orphan(unsigned c, Links&& links) {
    return orphans_[c].looks_empty() ? 0 : orphans_[c].pop(links);
  }

  // False: there are enough.
  template <class Links> bool push_free(unsigned order, u32 name, u32 limit, Links&& links) {
    if (free_count_[order].load_relaxed() >= limit) return false;
    free_count_[order].fetch_add_relaxed(1);
    free_[order].push(name, links);
    return true;
  }
  template <class Links> u32 pop_free(unsigned order, Links&& links) {
    if (free_[order].looks_empty()) return 0;
    const u32 name = free_[order].pop(links);
    if (name != 0) free_count_[order].fetch_sub_relaxed(1);
    return name;
  }

 private:
  TaggedStack<Env> orphans_[kClasses + 1];
  TaggedStack<Env> free_[kPageBlockOrders];
  typename Env::template Atomic<u32> free_count_[kPageBlockOrders];
};

}  // namespace freeway::streamflow
