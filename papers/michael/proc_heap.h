// SPDX-License-Identifier: MIT
// proc_heap.h: malloc and free of blocks of one size class (Michael 2004, Figs 4 and 6). Function names and line
// numbers are the paper's.
//
// Words     a heap's Active (active.h) and Partial slots; a descriptor's Anchor (anchor.h); a block's first word: its
//           descriptor while allocated, the next free block's index while free
// Duties    who takes Active's last credit takes more, or leaves FULL; who frees the first block of a FULL superblock
//           lists it; who frees the last block gives the superblock back, and sees that the descriptor goes some day
// Invariant blocks = allocated + reserved + count; a descriptor that is PARTIAL or EMPTY is in one place (descriptor.h)
// Orders    [R1] freeing publishes the block and its link; [A1] the one who pops it sees them, and who makes or finds
//           the superblock EMPTY sees the end of all that was done to it
//           [R2] installing a superblock publishes its descriptor; [A2] who reserves a block sees it
//           [R3] what is put into a Partial slot is published; [A3] who takes it out sees it
//           [R4] taking up a PARTIAL superblock lets go of its descriptor: who frees a block of it and has to list it
//           sees what its taker changed there (its node); the paper's text has no word on this
// ABA       Anchor: the tag. Active, Partial: a descriptor that went and came back is one that may be taken all the
//           same, if its taker looks at what it is now: see remove_empty_desc, where the paper does not
// Progress  lock-free     Lost if killed: the block or the credits in hand (64), one superblock, one descriptor
// Checked   papers/michael/tests/heap_model.cc, heap_mutants_model.cc, heap_test.cc, heap_stopped_test.cc
//
// Level is where superblocks and descriptors come from:
//   desc_alloc() -> a descriptor, null without memory        desc_retire(descriptor)
//   alloc_sb(descriptor, size class) -> address of its first block, 0 without memory        free_sb(address,
//     descriptor) — of which the descriptor may be another superblock's by then: it is a name, nothing more
//   nodes()(index) -> the descriptor of that index
#pragma once

#include "papers/michael/partial_list.h"
#include "papers/michael/size_classes.h"

namespace freeway::michael {

template <class Env> struct SizeClass {
  PartialList<Env> partial;
  u32 sz, maxcount;  // set before the class is published
};

struct Policy {
  u32 slots = 1;                              // Partial slots of a heap (§3.2.6: several can be used)
  bool keep_new = false;                      // what to do with a new superblock that came too late (§3.2.3)
  anchor::Form form = anchor::Form::kLinked;  // §3.2.5
};

template <class Env, class Level> class Heaps {
 public:
  using Desc = Descriptor<Env>;
  using Heap = ProcHeap<Env>;

  void init(Level* level, Policy policy) {
    level_ = level;
    policy_ = policy;
  }
  const Policy& policy() const { return policy_; }

  // malloc, lines 4–9: the address behind a block's prefix, 0 if there is no memory.
  uptr malloc(Heap& heap) {
    for (;;) {
      if (uptr block = malloc_from_active(heap)) return block;
      if (uptr block = malloc_from_partial(heap)) return block;
      bool refused = false;
      if (uptr block = malloc_from_new_sb(heap, refused)) return block;
      if (refused) return 0;
    }
  }

  uptr malloc_from_active(Heap& heap) {
    u64 seen = heap.active.load_relaxed();
    do {
      if (seen == 0) return 0;
      Env::step("michael.active.reserve");
    } while (!heap.active.cas_acquire(seen, active::take_credit(seen)));  // [A2] pairs with [R2], line 6
    Desc& desc = *reinterpret_cast<Desc*>(active::descriptor_of(seen));
    if (!active::is_last_credit(seen)) {
      u64 before;
      return finish(desc, pop(desc, before, [](u64 a) { return a; }));
    }
    u64 before;
    const uptr block = pop(desc, before, anchor::last_credit);  // lines 13–17
    if (const u32 more = anchor::more_credits(before)) update_active(heap, desc, more);
    return finish(desc, block);
  }

  uptr malloc_from_partial(Heap& heap) {
    while (Desc* desc = heap_get_partial(heap)) {
      desc->heap.store_relaxed(&heap);
      u64 seen = desc->anchor.load_acquire();  // [A1] pairs with [R1]
      while (anchor::state(seen) != anchor::kEmpty) {
        Env::step("michael.partial.reserve");
        if (desc->anchor.cas_acq_rel_acquire(seen,
                                             anchor::reserved(seen))) {  // [R4] [A1] pairs with [A1] [R1], line 10
          u64 before;
          const uptr block = pop(*desc, before, [](u64 a) { return a; });
          if (const u32 more = anchor::credits_of_partial(seen)) update_active(heap, *desc, more);
          return finish(*desc, block);
        }
      }
      level_->desc_retire(desc);  // lines 5 and 6
    }
    return 0;
  }

  // 0 and `refused`: no memory. 0 alone: another thread installed a superblock meanwhile.
  uptr malloc_from_new_sb(Heap& heap, bool& refused) {
    Desc* desc = level_->desc_alloc();
    const uptr sb = desc == nullptr ? 0 : level_->alloc_sb(*desc, *heap.sc);
    if (sb == 0) {
      if (desc != nullptr) level_->desc_retire(desc);
      refused = true;
      return 0;
    }
    const u32 credits = set_up(*desc, heap, sb);
    u64 none = 0;
    Env::step("michael.new.install");
    if (heap.active.cas_release(none,
                                active::make(reinterpret_cast<u64>(desc), credits)))  // [R2] pairs with [A2], line 13
      return finish(*desc, sb);
    if (!policy_.keep_new) {  // lines 16 and 17; EMPTY, so that it says nothing wrong of the next superblock it has
      desc->anchor.store_relaxed(anchor::with_state(desc->anchor.load_relaxed(), anchor::kEmpty));
      level_->free_sb(sb, *desc);
      level_->desc_retire(desc);
      return 0;
    }
    desc->anchor.store_relaxed(anchor::returned(desc->anchor.load_relaxed(), credits));
    finish(*desc, sb);
    heap_put_partial(*desc);
    return sb + kPrefix;
  }

  // free, lines 6–23. `block` is where the prefix is, `desc` what it leads to.
  void free(Desc& desc, uptr block) {
    const uptr sb = desc.sb.get();
    const u32 maxcount = desc.maxcount.get(), index = desc.index_of(block - sb);
    Heap* heap = nullptr;
    u64 seen = desc.anchor.load_relaxed(), next;
    do {
      prefix_at<Env>(block).store_relaxed(anchor::avail(seen));
      next = anchor::pushed(seen, index, maxcount);
      // OPTIMISTIC: owner
      if (anchor::state(next) == anchor::kEmpty) heap = desc.heap.load_relaxed();  // line 13: it may be another's soon
      Env::step("michael.free");
    } while (!desc.anchor.cas_acq_rel(seen, next));  // [R1] [A1] pairs with [A1], line 18
    if (anchor::state(next) == anchor::kEmpty) {
      Env::step("michael.emptied");
      level_->free_sb(sb, desc);
      remove_empty_desc(*heap, desc);
    } else if (anchor::state(seen) == anchor::kFull) {
      Env::step("michael.listing");
      heap_put_partial(desc);
    }
  }

  // Not in the paper: gives up the heap's active superblock and retires the EMPTY descriptors in reach, so that memory
  // can be given back.
  void trim(Heap& heap) {
    u64 seen = heap.active.load_relaxed();
    while (seen != 0 && !heap.active.cas_acquire(seen, 0)) continue;  // [A2] pairs with [R2]
    if (seen != 0) retract(*reinterpret_cast<Desc*>(active::descriptor_of(seen)), active::credits_of(seen));
    for (u32 i = 0; i < policy_.slots; ++i)
      if (Desc* desc = heap.partial[i].exchange_acquire(nullptr)) {        // [A3] pairs with [R3]
        if (anchor::state(desc->anchor.load_acquire()) == anchor::kEmpty)  // [A1] pairs with [R1]
          level_->desc_retire(desc);
        else heap.sc->partial.put(*desc, level_->nodes());
      }
    while (Desc* desc = heap.sc->partial.remove_empty(level_->nodes())) level_->desc_retire(desc);
  }

 private:
  // MallocFromActive, lines 7–18, and MallocFromPartial, lines 11–15: takes the reserved block off the superblock's
  // list, and makes `also(anchor)` of the anchor in the same step; `before` is what it was.
  template <class Also> uptr pop(Desc& desc, u64& before, Also&& also) {
    const uptr sb = desc.sb.get();
    const u32 sz = desc.sz.get();
    u64 seen = desc.anchor.load_acquire();  // [A1] pairs with [R1]
    for (;;) {
      const uptr block = sb + u64{anchor::avail(seen)} * sz;
      const u64 link = anchor::top_has_link(seen, policy_.form) ? prefix_at<Env>(block).load_relaxed() : 0;
      const u64 next = also(anchor::popped(seen, static_cast<u32>(link & anchor::kIndexMask), policy_.form));
      before = seen;
      Env::step("michael.pop");
      if (desc.anchor.cas_relaxed_acquire(seen, next)) return block;  // [A1] pairs with [R1]
    }
  }

  // MallocFromActive, line 21.
  uptr finish(Desc& desc, uptr block) {
    prefix_at<Env>(block).store_relaxed(reinterpret_cast<u64>(&desc));
    return block + kPrefix;
  }

  void update_active(Heap& heap, Desc& desc, u32 more) {
    u64 none = 0;
    Env::step("michael.active.update");
    if (heap.active.cas_release(none, active::make(reinterpret_cast<u64>(&desc), more)))
      return;  // [R2] pairs with [A2], line 3
    u64 seen = desc.anchor.load_relaxed();
    do {
      Env::step("michael.active.return");
    } while (!desc.anchor.cas_relaxed(seen, anchor::returned(seen, more)));  // line 6
    heap_put_partial(desc);
  }

  // Fills in a new superblock's descriptor; the credits for its Active word. (MallocFromNewSB, lines 3–11)
  u32 set_up(Desc& desc, Heap& heap, uptr sb) {
    const u32 sz = heap.sc->sz, maxcount = heap.sc->maxcount;
    const u32 credits = anchor::at_most_max(maxcount - 1);
    desc.heap.store_relaxed(&heap);
    desc.sb.set(sb);
    desc.sz.set(sz);
    desc.maxcount.set(maxcount);
    desc.reciprocal.set(Desc::reciprocal_of(sz));
    if (policy_.form == anchor::Form::kLinked)
      for (u32 i = 1; i < maxcount; ++i) prefix_at<Env>(sb + u64{i} * sz).store_relaxed(i + 1);
    // Last: a thread that vanishes before leaves a superblock that says it is EMPTY, or, where the descriptor is new,
    // that all of its blocks are in use.
    desc.anchor.store_relaxed(anchor::born(desc.anchor.load_relaxed(), maxcount, credits, policy_.form));
    return credits;
  }

  Desc* heap_get_partial(Heap& heap) {
    for (u32 i = 0; i < policy_.slots; ++i) {
      Desc* desc = heap.partial[i].load_relaxed();
      while (desc != nullptr) {
        Env::step("michael.partial.get");
        if (heap.partial[i].cas_acquire(desc, nullptr)) return desc;  // [A3] pairs with [R3], line 4
      }
    }
    return heap.sc->partial.get(level_->nodes());
  }

  // The most recent one goes to the first slot, the one that was there to the next, and the last one to the list. (The
  // paper's loop of a load and a CAS is an exchange.)
  void heap_put_partial(Desc& desc) {
    Heap& heap = *desc.heap.load_relaxed();
    Desc* carried = &desc;
    for (u32 i = 0; i < policy_.slots && carried != nullptr; ++i) {
      Env::step("michael.partial.put");
      carried = heap.partial[i].exchange_acq_rel(carried);  // [R3] [A3] pairs with [A3], line 2
    }
    if (carried != nullptr) heap.sc->partial.put(*carried, level_->nodes());
  }

  // RemoveEmptyDesc. The caller made `desc` EMPTY in the step before; since then it may have been retired by whoever
  // came across it, have got a new superblock, and be PARTIAL in the same slot: the paper would retire it. Taken out of
  // the slot it is ours alone, so we look what it is now, and put it back if it is not EMPTY.
  void remove_empty_desc(Heap& heap, Desc& desc) {
    for (u32 i = 0; i < policy_.slots; ++i) {
      Desc* seen = &desc;
      Env::step("michael.remove");
      if (!heap.partial[i].cas_acquire(seen, nullptr)) continue;  // [A3] pairs with [R3], line 1
      const u64 now = desc.anchor.load_acquire();                 // [A1] pairs with [R1]
      if (anchor::state(now) == anchor::kEmpty) level_->desc_retire(&desc);
      else heap_put_partial(desc);
      return;
    }
    if (Desc* empty = heap.sc->partial.remove_empty(level_->nodes())) level_->desc_retire(empty);
  }

  // Returns credits of a superblock of which the caller has no block.
  void retract(Desc& desc, u32 credits) {
    const uptr sb = desc.sb.get();
    const u32 maxcount = desc.maxcount.get();
    u64 seen = desc.anchor.load_relaxed(), next;
    do {
      next = anchor::retracted(seen, credits, maxcount);
      Env::step("michael.retract");
    } while (!desc.anchor.cas_acquire(seen, next));  // [A1] pairs with [R1]
    if (anchor::state(next) != anchor::kEmpty) return heap_put_partial(desc);
    level_->free_sb(sb, desc);
    level_->desc_retire(&desc);
  }

  Level* level_ = nullptr;
  Policy policy_;
};

}  // namespace freeway::michael
