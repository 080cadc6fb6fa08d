// SPDX-License-Identifier: MIT
// descriptor.h: superblock descriptors, processor heaps and size classes (Michael 2004, Fig. 3).
//
// A descriptor is one cache line that is never anything else: a thread that slept may look at its anchor or its links
// at any time. Its plain fields are its superblock's: only who owns a block of it, or holds the descriptor, reads them.
//
// Tokens    a descriptor that is PARTIAL or EMPTY has one owner, in one place: a Partial slot, a partial list,
//           DescAvail, or the hands of the thread that took it from there. Only the owner retires it, or gives it a new
//           superblock
// Node      a partial list needs a node for what it holds. Each descriptor owns one; its memory is in the descriptors'
//           own, but a FIFO passes nodes on, so node n may be in use for another descriptor (fifo.h)
#pragma once

#include "arch/atomic.h"
#include "papers/michael/anchor.h"

namespace freeway::michael {

template <class Env> struct ProcHeap;

template <class Env> struct alignas(64) Descriptor {
  typename Env::template Atomic<u64> anchor;
  typename Env::template Atomic<Descriptor*> next;     // Next: in DescAvail
  typename Env::template Atomic<ProcHeap<Env>*> heap;  // the heap that owned it last
  typename Env::template Plain<uptr> sb;               // address of the first block
  typename Env::template Plain<u32> sz;                // bytes a block
  typename Env::template Plain<u32> maxcount;          // blocks
  typename Env::template Plain<u32> reciprocal;        // see index_of
  typename Env::template Plain<u32> self;              // its own index, for ever
  typename Env::template Plain<u32> node;              // index of the node it owns
  typename Env::template Atomic<u32> value;            // of the node that lies here: index of a descriptor
  typename Env::template Atomic<u64> link;             // of the node that lies here

  // Index of the block that the byte at `offset` lies in: offset / sz for every offset in a superblock (tested for
  // all).
  static constexpr unsigned kReciprocalShift = 32;
  static constexpr u32 reciprocal_of(u32 size) { return static_cast<u32>(ceil_div(u64{1} << kReciprocalShift, size)); }
  u32 index_of(u64 offset) const { return static_cast<u32>(offset * reciprocal.get() >> kReciprocalShift); }
};

template <class Env> struct SizeClass;

// One cache line each, so that the heaps of two processors share none.
template <class Env> struct alignas(64) ProcHeap {
  static constexpr u32 kMostSlots = 4;
  typename Env::template Atomic<u64> active;                            // see active.h; 0 at first
  typename Env::template Atomic<Descriptor<Env>*> partial[kMostSlots];  // most recently used first; null at first
  SizeClass<Env>* sc;                                                   // set before the heap is published
};

// The word at the start of a block: its descriptor while it is allocated (the prefix), the index of the next free block
// while it is free.
template <class Env> typename Env::template Atomic<u64>& prefix_at(uptr block) {
  return *reinterpret_cast<typename Env::template Atomic<u64>*>(block);
}

}  // namespace freeway::michael
