// SPDX-License-Identifier: MIT
// allocator.h: size classes × processor heaps over hyperblocks (Michael 2004, §3.1): all of it but the thread's number
// and the C interface.
//
// What is static in the paper ("about 16 KB for a 16 processor machine") is one piece of memory here, filled in by
// whoever comes first and published by one CAS (engine.h).
//
// Believed  a pointer is: the page map says which hyperblock, its table which descriptor, and then the prefix of the
//           block, and the word before an over-aligned pointer, must be that descriptor. Nothing is followed that a
//           program wrote
// Who       any thread, any signal handler
// Checked   papers/michael/tests/allocator_test.cc, allocator_stopped_test.cc, common_path_test.cc, space_test.cc
#pragma once

#include "papers/michael/hyperblocks.h"

namespace freeway::michael {

// Blocks and bytes, for accounts.
struct Figures {
  u64 live_blocks = 0, live_bytes = 0, free_bytes = 0, superblocks = 0, hyperblocks = 0, errors = 0;
};

template <class Env, class Os> class Allocator {
 public:
  using Desc = Descriptor<Env>;
  using Hyper = Hyperblock<Env>;
  using Heap = ProcHeap<Env>;
  static constexpr u32 kMinAlignment = kPaperLayout ? 8 : 16;

  static constexpr std::size_t bytes(u32 heaps) {
    return sizeof(Allocator) + std::size_t{kClasses} * heaps * sizeof(Heap);
  }
  static constexpr u32 kDummies = kClasses + 1;  // nodes that the lists begin with

  // Once, in zeroed memory of bytes(heaps), before anyone else sees it. `dummies`: indexes of kDummies units from there
  // on.
  void init(Os* os, u32 heaps, const Policy& policy, ListKind list, u32 dummies) {
    heap_count_ = heaps;
    units_.init(os);
    hyper_.init(os, list, dummies);
    heaps_.init(this, policy);
    for (unsigned c = 0; c < kClasses; ++c) {
      classes_[c].sz = block_size(c);
      classes_[c].maxcount = blocks_of(c);
      classes_[c].partial.init(list, dummies + 1 + c);
      for (u32 h = 0; h < heaps; ++h) heap(c, h).sc = &classes_[c];
    }
  }

  u32 heap_count() const { return heap_count_; }
  const Policy& policy() const { return heaps_.policy(); }

  // A block for `bytes` (0 to kMaxSmallBytes) of heap number `h`; 0 if there is no memory, not even in other heaps.
  uptr malloc(std::size_t bytes, u32 h) {
    const unsigned c = class_of(bytes);
    if (const uptr block = heaps_.malloc(heap(c, h))) return block;
    for (u32 other = 0; other < heap_count_; ++other) {
      if (const uptr block = heaps_.malloc_from_active(heap(c, other))) return block;
      if (const uptr block = heaps_.malloc_from_partial(heap(c, other))) return block;
    }
    return 0;
  }

  // The same at a multiple of `alignment`, a power of two above 16; bytes + alignment <= kMaxSmallBytes. The pointer is
  // inside the block, right behind a copy of its prefix: free finds the block by division.
  uptr malloc_aligned(std::size_t bytes, std::size_t alignment, u32 h) {
    const uptr address = malloc(bytes + alignment, h);
    const uptr aligned = align_up(address, alignment);
    if (aligned != address)
      prefix_at<Env>(aligned - kPrefix).store_relaxed(prefix_at<Env>(address - kPrefix).load_relaxed());
    return aligned;
  }

  // Frees the block that begins at `address`, which lies in hyperblock `value`; false: none does.
  bool free(uptr address, u32 value) {
    const Found found = find(address, value);
    if (!found) return false;
    if (found.block + kPrefix != address) prefix_at<Env>(address - kPrefix).store_relaxed(0);
    heaps_.free(*found.desc, found.block);
    return true;
  }

  // Bytes from `address` on of the block that begins there; 0: none does.
  std::size_t usable(uptr address, u32 value) {
    const Found found = find(address, value);
    return found ? found.block + found.desc->sz.get() - address : 0;
  }

  // Whether a block, live or free, begins there: also where its superblock is gone.
  bool begins_block(uptr address, u32 value) {
    if (address % kMinAlignment != 0) return false;
    const Desc* desc = superblock_at(address, value);
    if (desc == nullptr) return true;
    const u64 offset = address - kPrefix - desc->sb.get();
    return offset < u64{desc->maxcount.get()} * desc->sz.get() && offset % desc->sz.get() == 0;
  }
  bool owns(uptr address, u32 value) {
    return hyper_at(value).base.load_relaxed() == align_down(address, kHyperblockBytes);
  }

  // Gives what is empty back.
  void trim() {
    for (unsigned c = 0; c < kClasses; ++c)
      for (u32 h = 0; h < heap_count_; ++h) heaps_.trim(heap(c, h));
    hyper_.trim();
  }

  // What there is, and what is wrong with it: `complain(what, address)` is called for each broken invariant. Exact
  // while nobody else is inside. `walk`: follows lists of free blocks, too, through memory that may be the program's by
  // then.
  template <class Complain> Figures figures(Complain&& complain, bool walk = true) {
    Figures sum;
    hyper_.each([&](Hyper& hyper) {
      ++sum.hyperblocks;
      u32 used = 0;
      for (u32 i = 0; i < kSuperblocks; ++i)
        if (Desc* desc = hyper.superblock[i].load_relaxed()) {
          ++used;
          const uptr sb = hyper.base.load_relaxed() + i * kSuperblockStride + kPrefix + kSuperblockSkip;
          // OPTIMISTIC: accounts
          if (desc->sb.get_unowned() == sb && anchor::state(desc->anchor.load_relaxed()) != anchor::kEmpty)
            count(*desc, sum, complain, walk);
          else  // in the hands of a thread that makes it, or gives it back
            sum.free_bytes += kSuperblockBytes;
        }
      if (used + hyper_.free_in(hyper) > kSuperblocks)
        complain("a superblock both free and in use", hyper.base.load_relaxed());
      sum.free_bytes += u64{kSuperblocks - used} * kSuperblockStride;
      sum.superblocks += used;
    });
    return sum;
  }

  // As a Level (proc_heap.h)
  // --------------------------------------------------------------------------------------------------
  Desc* desc_alloc() { return avail_.alloc(units_); }
  void desc_retire(Desc* desc) { avail_.retire(desc, units_); }
  auto nodes() {
    return [this](u32 index) -> Desc& { return *static_cast<Desc*>(units_.os().at(index)); };
  }
  uptr alloc_sb(Desc& desc, const SizeClass<Env>&) {
    const uptr sb = hyper_.take(desc);
    return sb == 0 ? 0 : sb + kSuperblockSkip;
  }
  void free_sb(uptr sb, Desc&) { hyper_.give(sb - kSuperblockSkip); }

  Heap& heap(unsigned c, u32 h) { return reinterpret_cast<Heap*>(this + 1)[h * kClasses + c]; }

 private:
  struct Found {
    Desc* desc = nullptr;
    uptr block = 0;
    explicit operator bool() const { return desc != nullptr; }
  };

  Hyper& hyper_at(u32 value) { return *static_cast<Hyper*>(units_.os().at(value)); }
  Desc* superblock_at(uptr address, u32 value) {
    return hyper_at(value).superblock[Hyper::place_of(address)].load_relaxed();
  }

  FREEWAY_INLINE Found find(uptr address, u32 value) {
    Desc* desc = superblock_at(address, value);
    if (address % kMinAlignment != 0 || desc == nullptr) return {};
    const uptr sb = desc->sb.get();
    const u64 offset = address - kPrefix - sb;
    if (offset >= u64{desc->maxcount.get()} * desc->sz.get()) return {};
    const uptr block = sb + u64{desc->index_of(offset)} * desc->sz.get();
    const u64 name = reinterpret_cast<u64>(desc);
    if (prefix_at<Env>(block).load_relaxed() != name) return {};
    if (block != address - kPrefix && prefix_at<Env>(address - kPrefix).load_relaxed() != name) return {};
    return {desc, block};
  }

  template <class Complain> void count(const Desc& desc, Figures& sum, Complain&& complain, bool walk) {
    const u64 a = desc.anchor.load_relaxed();
    const Heap& owner = *desc.heap.load_relaxed();
    const u32 sz = owner.sc->sz, maxcount = owner.sc->maxcount;
    const u64 word = owner.active.load_relaxed();
    const bool active = active::descriptor_of(word) == reinterpret_cast<u64>(&desc);
    const u32 free = anchor::count(a) + (active ? active::credits_of(word) : 0);
    const uptr sb = desc.sb.get_unowned();  // OPTIMISTIC: accounts
    if (active && anchor::state(a) != anchor::kActive) complain("an active superblock whose state is not ACTIVE", sb);
    if (free > maxcount) complain("a superblock with more free blocks than blocks", sb);
    u32 index = anchor::avail(a);
    for (u32 n = 0; walk && n < free && n < maxcount; ++n) {
      if (index >= maxcount) {
        complain("a list of free blocks that ends too early", sb);
        break;
      }
      const bool linked = policy().form == anchor::Form::kLinked || index < anchor::fresh(a);
      index = linked ? static_cast<u32>(prefix_at<Env>(sb + u64{index} * sz).load_relaxed() & anchor::kIndexMask)
                     : index + 1;
    }
    sum.live_blocks += free > maxcount ? 0 : maxcount - free;
    sum.live_bytes += free > maxcount ? 0 : u64{maxcount - free} * sz;
    sum.free_bytes += u64{free} * sz;
  }

  Units<Env, Os, Desc, 16> units_;
  DescAvail<Env, Units<Env, Os, Desc, 16>> avail_;
  Hyperblocks<Env, Os> hyper_;
  Heaps<Env, Allocator> heaps_;
  u32 heap_count_ = 0;
  SizeClass<Env> classes_[kClasses];
};

}  // namespace freeway::michael
