// SPDX-License-Identifier: MIT
// OwnHeap: one heap of the program's: its record, its superblocks, and a slab for each CPU that uses it, of which its
// magazines are.
//
// A block goes to the magazine of the CPU that frees it, whether it is of a strip or of a superblock; from there it
// goes back where it is from (place_of). A superblock's descriptor is its heap's until that is destroyed.
//
// Words     slabs, superblocks_made: all that the heap ever had of them.   slab_of: see slab_place.h
//           direct_, direct_strip_: see direct.h
// Who       all: any thread, any signal handler, the child of any fork
// Contract  as Heaps
// Orders    slabs', superblocks_made's own: a slab, or descriptor, is published with its words; walks see them
// Progress  lock-free
// Lost if killed, until the heap is destroyed: the superblock, strip or slab in hand, or all slabs that a trim has
// seized
// Checked   tests/abi/heap_test.cc, tests/cache/rseq, tests/whole/stall, the models of what it is made of
#pragma once

#include "arch/rseq_place.h"
#include "cache/magazines.h"
#include "cache/rseq_slabs.h"
#include "heap/direct.h"
#include "heap/heap_slab.h"
#include "heap/slab_place.h"
#include "heap/strips.h"
#include "os/machine.h"
#include "pages/substrate.h"
#include "superblock/short_lists.h"

namespace freeway::heap {

class Heaps;
class OwnHeap;

// Where the frames of heaps, and records of them, come from.
class FrameSource {
 public:
  void init(Substrate* substrate) {
    substrate_ = substrate;
    records_.init(Metadata<Machine>::kSegmentBytes, &substrate->frames().limits());
  }
  Substrate& substrate() const { return *substrate_; }
  const Metadata<Machine>& records() const { return records_; }

  void* at(u32 index) const { return records_.at(index); }
  template <class T> auto links() const {
    return [this](u32 index) -> auto& { return static_cast<T*>(at(index))->link; };
  }
  template <class T> auto nexts() const {
    return [this](u32 index) -> auto& { return static_cast<T*>(at(index))->next; };
  }
  u32 make(u32 units);
  uptr take_frames(std::size_t frames, std::size_t alignment, u32 index, bool& zero);
  void give_frames(uptr address, std::size_t frames);

 private:
  Substrate* substrate_ = nullptr;
  Metadata<Machine> records_;
};

// Where a heap's superblocks come from (see superblocks.h).
class Spans {
 public:
  void init(Heaps* heaps, OwnHeap* heap) {
    heaps_ = heaps;
    heap_ = heap;
  }
  static const SizeClass& size_class(unsigned c) { return kSizeClasses[c]; }
  inline Descriptor<Machine>& descriptor(u32 index) const;
  FREEWAY_COLD u32 make_descriptor(unsigned c);
  FREEWAY_NOINLINE uptr take_span(unsigned c, u32 descriptor);
  static u32 descriptor_at(uptr, unsigned) { return 0; }  // it might become another heap's meanwhile
  void give_span(uptr span, unsigned c);
  static unsigned node() { return 0; }

 private:
  Heaps* heaps_ = nullptr;
  OwnHeap* heap_ = nullptr;
};

class OwnHeap : public Record<Machine> {
 public:
  using Env = Machine;
  using SuperblocksOf = Superblocks<Machine, Spans, ShortLists<Machine>>;

  // By its first maker.
  void init(Heaps* heaps, u32 index, u32 ids);

  static constexpr std::size_t bytes(u32 ids) {
    return sizeof(OwnHeap) - sizeof(slab_of) + align_up(ids * sizeof(u64), 64);
  }

  // --- Blocks of superblocks and strips. -----------------------------------------------------------------------------
  // Null: no memory, or the limit.
  void* allocate(unsigned c);
  // The same without a slab; from a superblock, so that it is aligned to what divides its size.
  void* allocate_direct(unsigned c);
  void* allocate_of_superblock(unsigned c);
  void* take_of_strip(unsigned c, bool may_open);
  // Frees the block of class `c`, which has been looked at; false: it is free already.
  bool free(unsigned c, uptr block);
  // What CPUs have in hand goes back, and what is wholly free then.
  void collect();
  // Pages under free blocks go to the kernel.
  void purge();
  // For who destroys it.
  FREEWAY_COLD void end();

  // --- For accounts. -------------------------------------------------------------------------------------------------
  template <class F> void each_slab(F&& f) const;
  template <class F> void each_superblock(F&& f) const;  // f(descriptor), of those that have a span

  // --- For Magazines. ------------------------------------------------------------------------------------------------
  SuperblocksOf& superblocks() { return superblocks_; }
  u64 closed() const;
  bool alone() const;
  Place place_of(unsigned c, const SizeClass& k, void* block);
  void free_group(unsigned c, const SizeClass& k, const Group& group, void* block);
  void group_was_freed(unsigned c, const SizeClass& k, const Group& group, void* block, u64 old);
  static bool is_far(uptr) { return false; }
  static bool is_foreign(const Slab&, unsigned, const void*) { return false; }
  static bool has_nodes() { return false; }
  static bool is_away(const Slab&, unsigned, const void*) { return false; }
  static void settle_home(const Slab&, unsigned, u32) {}

 private:
  using PlaceOf = SlabPlace<Machine>;
  using StripsOf = Strips<Machine, FrameSource>;
  enum Access { kInSections, kSeized };  // how a slab is taken apart

  HeapSlab* own_slab();
  FREEWAY_COLD HeapSlab* make_slab(u32 cpu);
  enum Source { kOldStrips, kNewStrip, kSuperblocks };
  Source source_of(unsigned c, bool has_some, bool may_open);
  bool suits(unsigned c) const;
  void* refill(HeapSlab& slab, unsigned c);
  void* gather(HeapSlab* slab, unsigned c, bool all);
  void* open_strip(HeapSlab& slab, unsigned c);
  void leave_strip(HeapSlab& slab, StripsOf::When when, Access access);
  void empty_own(HeapSlab& slab);
  void empty_all();
  bool has_span(u32 index, const Descriptor<Machine>& desc) const;
  const FrameSource& frame_source() const;

  Heaps* heaps_;
  Spans spans_;
  SuperblocksOf superblocks_;
  Magazines<OwnHeap, HeapShapes> magazines_;
  DirectSuperblocks<Machine, SuperblocksOf> direct_;
  DirectStrip<Machine, StripsOf> direct_strip_;

 public:
  alignas(64) Atomic<u64> slab_of[8];  // really one for each CPU number: addresses, the null slab's where there is none
};

template <class F> void OwnHeap::each_slab(F&& f) const {
  const FrameSource& source = frame_source();
  slabs.each(source.nexts<HeapSlab>(), [&](u32 index) { f(*static_cast<HeapSlab*>(source.at(index))); });
}

template <class F> void OwnHeap::each_superblock(F&& f) const {
  const FrameSource& source = frame_source();
  superblocks_made.each(source.nexts<Descriptor<Machine>>(), [&](u32 index) {
    const auto& desc = *static_cast<const Descriptor<Machine>*>(source.at(index));
    if (has_span(index, desc)) f(desc);
  });
}

}  // namespace freeway::heap

// Compiled once, in own_heap.cc.
namespace freeway {
extern template class HeldSuperblock<Machine>;
extern template class Superblocks<Machine, heap::Spans, ShortLists<Machine>>;
extern template class Magazines<heap::OwnHeap, heap::HeapShapes>;
}  // namespace freeway
