// SPDX-License-Identifier: MIT
// hyperblocks.h: superblocks in batches of 1 MiB (Michael 2004, §3.2.5): a hyperblock is to its 64 superblocks what a
// superblock is to its blocks, with a descriptor, an Anchor, and the algorithms of proc_heap.h once more, with one
// heap.
//
// Form      always untouched (anchor.h): a superblock is not written before it is used. The paper's words for it: the
//           Anchor is organized in a slightly different manner
// Words     superblock[i]: the descriptor of the i-th superblock, null while it is free: so that a pointer's prefix is
//           believed only where it must be right.   base: where the hyperblock is, 0 = nowhere
// Who       superblock[i] is stored by whoever has that superblock alone; base by its maker, and taken away by CAS by
//           who gives it back, since the descriptor may be another hyperblock's by then
// Orders    relaxed: a block's address reaches its user through proc_heap.h's orders, or the program's own, which carry
//           these [R1] a new hyperblock's descriptor is published for walks; [A1] walks see it
// Progress  lock-free     Lost if killed: a superblock, or a hyperblock in hand
// Checked   papers/michael/tests/hyperblocks_model.cc, allocator_test.cc, allocator_stopped_test.cc
//
// kCount: superblocks in a hyperblock, fewer in models.
// Os is where memory comes from:
//   units(n) -> index of n zeroed units of 64 bytes for ever, 0 without memory         at(index) -> their address
//   take_span(value) -> address of a hyperblock whose frames are mapped to `value`, 0 without memory
//   give_span(address)
#pragma once

#include "papers/michael/desc_avail.h"
#include "papers/michael/proc_heap.h"
#include "papers/michael/size_classes.h"

namespace freeway::michael {

template <class Env, u32 kCount = kSuperblocks> struct Hyperblock : Descriptor<Env> {
  typename Env::template Atomic<Descriptor<Env>*> superblock[kCount];
  typename Env::template Atomic<uptr> base;
  typename Env::template Atomic<Hyperblock*> older;  // the one made before
  typename Env::template Plain<bool> listed;         // whether walks can find it

  static constexpr u32 place_of(uptr address) {
    return static_cast<u32>(address % kHyperblockBytes / kSuperblockStride);
  }
};

// What both levels do: descriptors and hazard records from the Os; T is the descriptor, `Batch` at a time.
template <class Env, class Os, class T, u32 Batch> class Units {
 public:
  using Desc = Descriptor<Env>;
  using Record = typename HazardPointers<Env, Desc>::Record;
  static constexpr u32 kUnits = sizeof(T) / 64;
  static_assert(sizeof(T) % 64 == 0 && sizeof(Record) == 64);

  void init(Os* os) { os_ = os; }
  Os& os() const { return *os_; }

  Desc* make_batch() {
    const u32 first = os_->units(Batch * kUnits);
    if (first == 0) return nullptr;
    for (u32 i = Batch; i-- > 0;) {
      Desc& desc = *static_cast<T*>(os_->at(first + i * kUnits));
      desc.self.set(first + i * kUnits);
      desc.node.set(first + i * kUnits);
      desc.next.store_relaxed(i + 1 == Batch ? nullptr : static_cast<T*>(os_->at(first + (i + 1) * kUnits)));
    }
    return static_cast<T*>(os_->at(first));
  }
  Record* make_record() {
    const u32 index = os_->units(1);
    return index == 0 ? nullptr : static_cast<Record*>(os_->at(index));
  }

 private:
  Os* os_ = nullptr;
};

template <class Env, class Os, u32 kCount = kSuperblocks> class Hyperblocks {
 public:
  using Desc = Descriptor<Env>;
  using Hyper = Hyperblock<Env, kCount>;

  // Once, before anyone else sees it. `dummy`: a node for the partial list.
  void init(Os* os, ListKind list, u32 dummy) {
    units_.init(os);
    class_.sz = kSuperblockStride;
    class_.maxcount = kCount;
    class_.partial.init(list, dummy);
    heap_.sc = &class_;
    heaps_.init(this, {1, false, anchor::Form::kUntouched});
  }

  // AllocNewSB: a superblock for `owner`: where its first block may be, 0 without memory.
  uptr take(Desc& owner) {
    const uptr sb = heaps_.malloc(heap_);
    if (sb != 0) hyperblock_of(sb).superblock[Hyper::place_of(sb)].store_relaxed(&owner);
    return sb;
  }
  void give(uptr sb) {
    Hyper& hyper = hyperblock_of(sb);
    auto& owner = hyper.superblock[Hyper::place_of(sb)];
    owner.store_relaxed(nullptr);
    heaps_.free(hyper, sb - kPrefix);
  }
  // Gives hyperblocks without superblocks in use back to the system.
  void trim() { heaps_.trim(heap_); }

  // Calls f(hyperblock) for each that exists; exact while nobody moves.
  template <class F> void each(F&& f) const {
    for (Hyper* h = newest_.load_acquire(); h != nullptr; h = h->older.load_relaxed())  // [A1] pairs with [R1]
      if (h->base.load_relaxed() != 0) f(*h);
  }
  // Superblocks that are free in hyperblock `h`; exact while nobody moves.
  u32 free_in(const Hyper& h) const {
    const u64 word = heap_.active.load_relaxed();
    const u64 a = h.anchor.load_relaxed();
    return anchor::count(a) + (active::descriptor_of(word) == reinterpret_cast<u64>(&h) ? active::credits_of(word) : 0);
  }

  // As a Level (proc_heap.h)
  // --------------------------------------------------------------------------------------------------
  Desc* desc_alloc() { return avail_.alloc(units_); }
  void desc_retire(Desc* desc) { avail_.retire(desc, units_); }
  auto nodes() {
    return [this](u32 index) -> Desc& { return *static_cast<Hyper*>(units_.os().at(index)); };
  }
  uptr alloc_sb(Desc& desc, const SizeClass<Env>&) {
    Hyper& hyper = static_cast<Hyper&>(desc);
    if (!hyper.listed.get()) list(hyper);
    const uptr base = units_.os().take_span(hyper.self.get());
    if (base != 0) hyper.base.store_relaxed(base);
    return base;
  }
  void free_sb(uptr base, Desc& desc) {
    uptr seen = base;
    Env::step("michael.hyper.give");
    static_cast<Hyper&>(desc).base.cas_relaxed(seen, 0);
    units_.os().give_span(base);
  }

 private:
  static Hyper& hyperblock_of(uptr sb) {
    return *static_cast<Hyper*>(reinterpret_cast<Desc*>(prefix_at<Env>(sb - kPrefix).load_relaxed()));
  }
  void list(Hyper& hyper) {
    hyper.listed.set(true);
    Hyper* newest = newest_.load_relaxed();
    do {
      hyper.older.store_relaxed(newest);
      Env::step("michael.hyper.list");
    } while (!newest_.cas_release(newest, &hyper));  // [R1] pairs with [A1]
  }

  Units<Env, Os, Hyper, 1> units_;
  DescAvail<Env, Units<Env, Os, Hyper, 1>> avail_;
  SizeClass<Env> class_;
  ProcHeap<Env> heap_;
  Heaps<Env, Hyperblocks> heaps_;
  typename Env::template Atomic<Hyper*> newest_;
};

}  // namespace freeway::michael
