// SPDX-License-Identifier: MIT
// Allocator: the multithreaded front-end over one thread's heap at a time (section 3.1.1).
//
// Who       a heap's owner passes its heap, and is in here only once at a time; a thread that has none, or a signal
//           handler that interrupted an owner, passes null: it can free, but not allocate
// RMWs      none for a local allocation or deallocation. One CAS for a remote deallocation, for the reclamation of all
//           that was remotely freed to a page block, for declaring an orphan, for an adoption. Page blocks from or to
//           the page manager and the global lists: a few more
// Reading   an allocation that finds page blocks full looks at up to kLooks of them, oldest first, before it asks for
//           another page block. With the single look of the paper's text, those behind the head would never be looked
//           at
// Progress  lock-free       Lost if killed: the thread's heap; while trimming, the listed page blocks of a class
// Checked   papers/streamflow/tests/remotely_freed_model.cc, allocator_test.cc, space_test.cc
#pragma once

#include "base/compiler.h"
#include "papers/streamflow/page_block_cache.h"
#include "papers/streamflow/remote.h"
#include "papers/streamflow/thread_heap.h"

namespace freeway::streamflow {

// `Classes`: kClasses, kAll[] (SizeClasses). `Pages`: take(order) -> {address or 0, name}; give(name, order); at(name)
// -> address; link(name) -> Env::Atomic<u32>&.
template <class Env, class Classes, class Pages> class Allocator {
 public:
  using Heap = ThreadHeap<Env, Classes::kClasses>;
  using Block = PageBlock<Env>;
  static constexpr unsigned kLooks = 8;

  struct Object {
    Block* block = nullptr;  // null: memory is refused
    u32 offset = 0;
  };

  void init(Pages* pages, u32 local_limit, u32 global_limit) {
    pages_ = pages;
    local_limit_ = local_limit;
    global_limit_ = global_limit;
  }

  // "Object allocation"
  Object allocate(Heap& heap, unsigned c) {
    if (Block* head = heap.lists[c].head())
      if (const u32 object = head->take()) return {head, object};
    return allocate_elsewhere(heap, c);
  }

  // "Object deallocation", by the owner: false: rearrange() must follow.
  static bool free_own(Heap& heap, Block& b, u32 object) {
    return FREEWAY_LIKELY(b.put(object) != 0) && heap.lists[b.size_class.get()].head() == &b;
  }
  // After the owner freed an object: rotation, or the caching policy.
  FREEWAY_NOINLINE void rearrange(Heap& heap, Block& b) {
    auto& list = heap.lists[b.size_class.get()];
    if (b.live.get() != 0) return list.freed_to_head(b);
    list.remove(b);
    if (!heap.cached[order_of(b)].push(b, local_limit_)) give(b);
  }
  static bool owns(const Heap* heap, const Block& b) {
    return heap != nullptr && remotely_freed::owner(b.remotely_freed.load_relaxed()) == heap->id;
  }

  // Whether only a thread with a heap can take over what it is about to free to.
  static bool is_orphan(const Block& b) {
    return remotely_freed::owner(b.remotely_freed.load_relaxed()) == remotely_freed::kNobody;
  }

  // By anybody; `heap` is the caller's, or null.
  void free(Heap* heap, Block& b, u32 object) {
    if (!owns(heap, b)) return free_remote(heap, b, object);
    if (!free_own(*heap, b, object)) rearrange(*heap, b);
  }

  // "Thread termination": lets go of all that the heap has.
  void retire(Heap& heap) {
    for (auto& list : heap.lists)
      while (Block* b = list.head()) {
        list.remove(*b);
        let_go(heap, *b);
      }
    drop_cached(heap);
  }

  // Gives back what is free in this heap (may be null) and in the global lists.
  void trim(Heap* heap) {
    if (heap != nullptr) {
      for (auto& list : heap->lists) trim_list(*heap, list);
      drop_cached(*heap);
    }
    for (unsigned c = 1; c <= Classes::kClasses; ++c) trim_orphans(c);
    for (unsigned order = 0; order < kPageBlockOrders; ++order)
      while (const u32 name = global_.pop_free(order, links())) pages_->give(name, order);
  }

 private:
  auto links() {
    return [this](u32 name) -> auto& { return pages_->link(name); };
  }
  static unsigned order_of(const Block& b) { return Classes::kAll[b.size_class.get()].order; }
  Block* at(u32 name) { return reinterpret_cast<Block*>(pages_->at(name)); }

  FREEWAY_NOINLINE Object allocate_elsewhere(Heap& heap, unsigned c) {
    Block* b = block_with_free(heap, c);
    return b == nullptr ? Object{} : Object{b, b->take()};
  }

  // At the head of the list afterwards; null: memory is refused.
  Block* block_with_free(Heap& heap, unsigned c) {
    auto& list = heap.lists[c];
    Block* const first = list.head();
    for (unsigned look = 0; look < kLooks && first != nullptr; ++look) {
      Block* b = list.head();
      if (b->has_free() || remote::reclaim(*b, heap.id)) return b;
      list.full_to_tail(*b);
      if (list.head() == first) break;
    }
    if (Block* fresh = new_block(heap, c)) {
      list.push_head(*fresh);
      return fresh;
    }
    for (Block* b = list.head(); b != nullptr; b = b->next.get())
      if (remote::reclaim(*b, heap.id)) {
        list.freed_to_head(*b);
        return b;
      }
    return nullptr;
  }

  // "first checks a thread-local cache, then the global caches", then the page manager
  Block* new_block(Heap& heap, unsigned c) {
    const ObjectClass& k = Classes::kAll[c];
    if (Block* b = heap.cached[k.order].pop()) {
      if (b->size_class.get() == c) b->restart();
      else b->format(heap.id, c, k);
      return b;
    }
    if (const u32 name = global_.pop_orphan(c, links())) {
      Block* b = at(name);
      remote::take_over(*b, heap.id);
      return b;
    }
    u32 name = global_.pop_free(k.order, links());
    uptr address = name == 0 ? 0 : pages_->at(name);
    if (name == 0) {
      const auto taken = pages_->take(k.order);
      if (taken.address == 0) return nullptr;
      address = taken.address;
      name = taken.name;
    }
    auto* b = reinterpret_cast<Block*>(address);
    b->name.set(name);
    b->format(heap.id, c, k);
    return b;
  }

  FREEWAY_NOINLINE void free_remote(Heap* heap, Block& b, u32 object) {
    while (remote::push(b, object) == remote::Push::kOrphaned) {
      if (heap == nullptr) {
        if (!remote::hand_over(b, object)) continue;
        return list_orphan(b);
      }
      if (!remote::adopt(b, heap->id)) continue;
      heap->lists[b.size_class.get()].push_tail(b);  // full; the free brings it to the head
      if (!free_own(*heap, b, object)) rearrange(*heap, b);
      return;
    }
  }

  void let_go(Heap& heap, Block& b) {
    for (;;) {
      remote::reclaim(b, heap.id);  // not of full page blocks only: what is wholly free is to go back
      if (b.live.get() == 0) return give(b);
      if (b.has_free()) {
        remote::declare_listed(b);
        return list_orphan(b);
      }
      if (remote::orphan(b, heap.id)) return;
    }
  }

  // The word says `listed`, so until the push nobody else has it.
  void list_orphan(Block& b) {
    Env::step("allocator.list");
    global_.push_orphan(b.size_class.get(), b.name.get(), links());
  }

  // A wholly free page block, in nobody's hands but ours.
  void give(Block& b) {
    const u32 name = b.name.get();
    const unsigned order = order_of(b);
    b.guard.set(0);
    if (!global_.push_free(order, name, global_limit_, links())) pages_->give(name, order);
  }

  void drop_cached(Heap& heap) {
    for (auto& cache : heap.cached)
      while (Block* b = cache.pop()) give(*b);
  }

  void trim_list(Heap& heap, PageBlockList<Env>& list) {
    for (Block* b = list.head(); b != nullptr;) {
      Block* behind = b->next.get();
      const bool reclaimed = remote::reclaim(*b, heap.id);
      if (b->live.get() == 0) {
        list.remove(*b);
        give(*b);
      } else if (reclaimed) {
        list.freed_to_head(*b);
      }
      b = behind;
    }
  }

  // Takes all page blocks off the list before it puts those with live objects back: else two trims would pass them to
  // and fro.
  void trim_orphans(unsigned c) {
    Block* kept = nullptr;
    while (const u32 name = global_.pop_orphan(c, links())) {
      Block* b = at(name);
      remote::take_over(*b, remotely_freed::kListed);
      if (b->live.get() == 0) {
        give(*b);
      } else {
        b->next.set(kept);
        kept = b;
      }
    }
    while (Block* b = kept) {
      kept = b->next.get();
      list_orphan(*b);
    }
  }

  Pages* pages_ = nullptr;
  u32 local_limit_ = 0, global_limit_ = 0;
  GlobalCache<Env, Classes::kClasses> global_;
};

}  // namespace freeway::streamflow
