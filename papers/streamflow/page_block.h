// SPDX-License-Identifier: MIT
// PageBlock: the header at the beginning of a page block, and what its owner does there (section 3.1.1, Fig. 1b).
//
// A page block holds the objects of one class. Those that were freed form the LIFO `freed` and are preferred; behind
// `unallocated` lie those that were never allocated. Each object is named by its offset from the header; while it is
// free its first 4 bytes are the link of the list that it is in.
//
// Words     remotely_freed: see remotely_freed.h and remote.h
// Plain     first line: the owner's alone, as in the paper (the counts too). Second line: constant while an object
//           lives, so whoever owns an object may read it
// Invariant live = objects that are neither in `freed` nor behind `unallocated`: the program's and those remotely freed
// Moves     a wholly free page block (live = 0) is formatted anew, so that it is allocated in address order again
#pragma once

#include "papers/streamflow/remotely_freed.h"
#include "papers/streamflow/size_classes.h"

namespace freeway::streamflow {

template <class Env> struct PageBlock {
  template <class T> using Plain = typename Env::template Plain<T>;

  // --- the owner's ---------------------------------------------------------------------------------------------------
  Plain<PageBlock*> next, prev;  // the doubly linked list of the owner's page blocks of this class
  Plain<u32> freed;              // LIFO of freed objects; 0 = empty
  Plain<u32> unallocated;        // the bump pointer
  Plain<u32> live;

  // --- shared --------------------------------------------------------------------------------------------------------
  alignas(64) typename Env::template Atomic<u64> remotely_freed;
  Plain<u64> guard;  // kGuard ^ address while this is a page block's header
  Plain<u32> name;   // what the page manager calls it
  Plain<u32> size_class;
  Plain<u32> stride, magic, first, limit;            // of the class (ObjectClass)
  typename Env::template Atomic<u32> holds_aligned;  // a block in here was given out at an address inside its object

  static constexpr u64 kGuard = 0x9e3779b97f4a7c15;
  bool is_header() const { return guard.get_unowned() == (kGuard ^ address()); }  // OPTIMISTIC: accounts

  // A page block without live objects begins anew.
  void restart() {
    freed.set(0);
    unallocated.set(first.get());
    live.set(0);
  }
  // The same, as one of class `c`, owned by the heap `owner`.
  void format(u32 owner, unsigned c, const ObjectClass& k) {
    guard.set(kGuard ^ address());
    size_class.set(c);
    stride.set(k.stride);
    magic.set(k.magic);
    first.set(k.first);
    limit.set(k.limit);
    restart();
    holds_aligned.store_relaxed(0);
    remotely_freed.store_relaxed(remotely_freed::word(owner, 0));
  }

  // --- for the owner -------------------------------------------------------------------------------------------------
  bool has_free() const { return freed.get() != 0 || unallocated.get() < limit.get(); }

  // An object; 0 if the page block is full.
  u32 take() {
    u32 object = freed.get();
    if (object != 0) {
      freed.set(link(object).get());
    } else {
      object = unallocated.get();
      if (object >= limit.get()) return 0;
      unallocated.set(object + stride.get());
    }
    live.set(live.get() + 1);
    return object;
  }

  // Frees an object; how many are live now.
  u32 put(u32 object) {
    link(object).set(freed.get());
    freed.set(object);
    live.set(live.get() - 1);
    return live.get();
  }

  // Moves the list that begins with `head` (0: none) to `freed`, in its order.
  void put_all(u32 head) {
    if (head == 0) return;
    u32 last = head, objects = 1;
    while (const u32 below = link(last).get()) {
      last = below;
      ++objects;
    }
    link(last).set(freed.get());
    freed.set(head);
    live.set(live.get() - objects);
  }

  // --- for whoever owns an object ------------------------------------------------------------------------------------
  uptr address() const { return reinterpret_cast<uptr>(this); }
  Plain<u32>& link(u32 object) { return *reinterpret_cast<Plain<u32>*>(address() + object); }

  // The object that the byte at `offset` belongs to; 0: none does.
  u32 object_at(u32 offset) const {
    const u32 start = first.get();
    if (offset < start || offset >= limit.get()) return 0;
    const u64 index = (u64{offset - start} * magic.get()) >> 32;
    return start + static_cast<u32>(index) * stride.get();
  }
};

}  // namespace freeway::streamflow
