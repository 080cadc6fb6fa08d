// SPDX-License-Identifier: MIT
// Heaps: heaps of one's own: made, used by any thread, limited, counted, and given back whole.
//
// Words     handle of a record: 0 -> its handle (its maker) -> 0 (CAS: who destroys it).   all_: records that were ever made,
//           pushed only; pool_: those that are nobody's
// Who       create, destroy, find, allocate, free: any thread, any signal handler, the child of any fork
// Contract  nobody uses a heap, or a block of it, while or after it is destroyed. Who does so all the same after it gets a block
//           of another heap, or frees one, at worst, as with any block that is used after its free; while it, he may spoil tables
// Orders    [R1] a record's maker publishes it, [A1] walks see that; handles carry the rest along
// Progress  lock-free; destroy: as many steps as the heap has regions and caches
// Lost if killed: create: the record. destroy: what it had not given back
// Checked   tests/abi/heap_test.cc
#pragma once

#include "heap/caches.h"

namespace freeway::heap {

struct Figures {
  u64 live_bytes, live_blocks, free_bytes, held_bytes, limit, refusals, regions, whole_blocks;
};

template <class Env, class Backing>
class Heaps {
 public:
  using SliceOf = Slice<Env>;
  using RegionOf = Region<Env>;
  using RecordOf = Record<Env>;

  // `direct`: no caches, so that each double free is seen at once. All with the same values.
  void init(Backing* backing, u32 ids, bool direct) {
    backing_ = backing;
    direct_ = direct;
    slices_.init(backing);
    caches_.init(backing, &slices_, direct ? 0 : ids);
    ids_ = ids;
  }

  // The handle of a new heap; 0: no memory. `limit`: frames; 0, or more than can be counted: none. `name`: copied as far as there
  // is room; may be null.
  u64 create(u64 limit, const char* name) {
    u32 index = pool_.pop(slices_.links());
    const bool is_new = index == 0;
    if (is_new && (index = backing_->make(static_cast<u32>(RecordOf::bytes(ids_) / 64))) == 0) return 0;
    RecordOf& heap = record(index);
    if (is_new) heap.ids.store_relaxed(ids_);
    heap.self.store_relaxed(index);
    heap.held.store_relaxed(limit_word::limited(0, limit > limit_word::kMostHard ? 0 : limit));
    heap.denials.store_relaxed(0);
    heap.refusals.store_relaxed(0);
    for (std::size_t i = 0; i < kNameBytes; ++i) {
      const char letter = name == nullptr || i + 1 == kNameBytes ? '\0' : *name;
      heap.name[i].store_relaxed(static_cast<u8>(letter));
      if (letter != '\0') ++name;
    }
    const u64 life = heap.lives.load_relaxed() + 1;
    heap.lives.store_relaxed(life);
    const u64 handle = handle_of(reinterpret_cast<uptr>(&heap), life);
    heap.handle.store_release(handle);  // [R1] pairs with [A1]
    Env::step("own.created");
    if (is_new) {
      u32 head = all_.load_relaxed();
      do heap.next.store_relaxed(head);
      while (!all_.cas_release(head, index));  // [R1] pairs with [A1]
    }
    return handle;
  }

  // The heap of a handle; null: it is none any more.
  static FREEWAY_INLINE RecordOf* find(u64 handle) {
    const uptr address = record_of(handle);
    if (FREEWAY_UNLIKELY(address == 0)) return nullptr;
    auto& heap = *reinterpret_cast<RecordOf*>(address);
    return FREEWAY_LIKELY(heap.handle.load_relaxed() == handle) ? &heap : nullptr;
  }

  // Gives back the heap and all its blocks; f(region) sees each region and whole block. False: the handle is none.
  template <class F>
  bool destroy(u64 handle, F&& f) {
    RecordOf* heap = find(handle);
    if (heap == nullptr || !heap->handle.cas_relaxed(handle, 0)) return false;
    Env::step("own.destroying");
    caches_.recycle_all(*heap);
    slices_.give_all(*heap, f);
    Env::step("own.destroyed");
    pool_.push(slices_.index_of(*heap), slices_.links());
    return true;
  }

  // A block of class `c`; also one at a multiple of `alignment`, a power of two which divides the class's size, of a slice; null: no
  // memory, or the limit.
  FREEWAY_INLINE void* allocate(RecordOf& heap, unsigned c) {
    return FREEWAY_UNLIKELY(direct_) ? caches_.allocate_direct(heap, c) : caches_.allocate(heap, c);
  }
  // The same, where most calls end at once.
  FREEWAY_INLINE void* allocate_at_once(RecordOf& heap, unsigned c, std::size_t bytes) {
    return backing_->allocate(heap, c, bytes);
  }
  void* allocate_aligned(RecordOf& heap, unsigned c, std::size_t alignment) {
    if (alignment > kMaxNatural) return caches_.allocate_aligned(heap, c, alignment);
    return alignment > kMinBlock && has_strips(c) ? caches_.allocate_direct(heap, c) : allocate(heap, c);
  }
  // A block that is a run of frames.
  void* allocate_whole(RecordOf& heap, std::size_t frames, std::size_t alignment, bool& zero) {
    RegionOf* region = slices_.make_whole(heap, frames, alignment, zero);
    return region == nullptr ? nullptr : reinterpret_cast<void*>(region->address.load_relaxed());
  }

  // Frees the block at an address in a frame whose entry names the region `index`. `was_whole`: it was one, and is free now.
  Freed free(u32 index, uptr address, bool& was_whole) {
    auto& region = slices_.template at<RegionOf>(index);
    RecordOf& heap = slices_.heap_of(region);
    if (FREEWAY_UNLIKELY(region.is_whole.load_relaxed() != 0)) {
      if (address != region.address.load_relaxed()) return Freed::kInterior;
      was_whole = slices_.free_whole(heap, region);
      return was_whole ? Freed::kOk : Freed::kTwice;
    }
    return caches_.free(heap, region, address);
  }

  // Whose block of a strip begins at the address, and its class, which is 0 if none does that is not known to be free.
  struct InStrip {
    RecordOf* heap;
    unsigned size_class;
  };
  FREEWAY_INLINE InStrip in_strip(u32 index, uptr address) const {
    auto& region = slices_.template at<RegionOf>(index);
    const u8 kind = slices_.kind_at(region, address);
    return {&slices_.heap_of(region), slices_.is_live(kind) ? kind : 0u};
  }

  // What is known of the block that the address lies in.
  struct Block {
    RecordOf* heap;
    uptr address;       // where it begins; 0: the address lies in none
    std::size_t bytes;  // its length
    bool is_whole, is_free;  // free: its slice has it, which is never so of a block that is the caller's
  };
  Block block_around(u32 index, uptr address) const {
    auto& region = slices_.template at<RegionOf>(index);
    RecordOf& heap = slices_.heap_of(region);
    if (region.is_whole.load_relaxed() != 0)
      return {&heap, region.address.load_relaxed(), region.frames.load_relaxed() * kFrameSize, true, false};
    SliceOf* slice = slices_.slice_around(region, address);
    if (slice != nullptr && slices_.is_strip(*slice)) return block_of_strip(heap, region, address);
    const u32 number = slice == nullptr ? 0 : slices_.number_in(*slice, address);
    if (slice == nullptr || number >= slice->blocks.load_relaxed()) return {&heap, 0, 0, false, false};
    const uptr begin = reinterpret_cast<uptr>(caches_.block_of(*slice, number));
    return {&heap, begin, slice->size.load_relaxed(), false, (slice->word.load_relaxed() >> number & 1) != 0};
  }
  // Whether it seems that a CPU has the block in hand: see Caches.
  bool seems_in_hand(u32 index, uptr address) const {
    auto& region = slices_.template at<RegionOf>(index);
    if (region.is_whole.load_relaxed() != 0) return false;
    const SliceOf* slice = slices_.slice_around(region, address);
    if (slice == nullptr) return false;
    const RecordOf& heap = slices_.heap_of(region);
    if (slices_.is_strip(*slice)) {
      const u8 kind = slices_.kind_at(region, address);
      return kind != 0 && caches_.seems_to_have(heap, kind & ~strip::kMarked, *slice, address, 0);
    }
    const u64 block = slices_.block_at(*slice, address);
    return block != 0 && caches_.seems_to_have(heap, slice->size_class.load_relaxed(), *slice, address, block);
  }

  // Takes all caches apart and gives back what is wholly free; bytes.
  std::size_t trim(RecordOf& heap) {
    caches_.empty_all(heap);
    return slices_.sweep(heap) * kFrameSize;
  }

  // Gives back the memory of tables that are no heap's any more.
  void purge_records(std::size_t page) { slices_.purge_records(page); }

  // Exact while nobody else uses the heap.
  Figures figures(const RecordOf& heap) const {
    Figures sum = {};
    slices_.each_region(heap, [&](RegionOf& region) {
      if (region.is_whole.load_relaxed() != 0) {
        ++sum.whole_blocks;
        ++sum.live_blocks;
        sum.live_bytes += region.frames.load_relaxed() * kFrameSize;
        return;
      }
      ++sum.regions;
      for (unsigned unit = 0; unit < kUnits; ++unit) {
        if (region.slice_of[unit].load_relaxed() != unit) continue;
        const SliceOf& slice = region.slices[unit];
        if (slices_.is_strip(slice)) {
          add_strip(heap, region, slice, sum);
          continue;
        }
        const u32 blocks = slice.blocks.load_relaxed();
        const u32 free = popcount(cell::free_of(slice.word.load_relaxed())) + caches_.with_slice(heap, slice);
        const u64 live = blocks - clamp(free, 0, blocks);
        sum.live_blocks += live;
        sum.live_bytes += live * slice.size.load_relaxed();
      }
    });
    for (unsigned c = 1; c < kClassCount; ++c) {
      const u64 blocks = clamp(caches_.in_magazines(heap, c), 0, sum.live_blocks);
      sum.live_blocks -= blocks;
      sum.live_bytes -= clamp(blocks * kSizeClasses[c].size, 0, sum.live_bytes);
    }
    const u64 held = heap.held.load_relaxed();
    sum.held_bytes = limit_word::held(held) * kFrameSize;
    sum.limit = limit_word::hard(held) * kFrameSize;
    sum.refusals = heap.refusals.load_relaxed();
    sum.free_bytes = sum.held_bytes - clamp(sum.live_bytes, 0, sum.held_bytes);
    return sum;
  }

  // Calls f(record) for each heap that exists.
  template <class F>
  void each(F&& f) const {
    for (u32 index = all_.load_acquire(); index != 0; index = record(index).next.load_relaxed())  // [A1] pairs with [R1]
      if (record(index).handle.load_acquire() != 0) f(record(index));                              // [A1] pairs with [R1]
  }

 private:
  Block block_of_strip(RecordOf& heap, const RegionOf& region, uptr address) const {
    const uptr begin = slices_.begin_of(region, address);
    if (begin == 0) return {&heap, 0, 0, false, false};
    const u8 kind = slices_.kind_at(region, begin);
    const std::size_t bytes = kSizeClasses[kind & ~strip::kMarked].size;
    return {&heap, begin, bytes, false, kind > strip::kMarked};
  }
  void add_strip(const RecordOf& heap, const RegionOf& region, const SliceOf& one, Figures& sum) const {
    const uptr next = caches_.next_of(heap, one);
    for (uptr block = one.address.load_relaxed(); block < next;) {
      const u8 kind = slices_.kind_at(region, block);
      const u64 bytes = kSizeClasses[kind & ~strip::kMarked].size;
      if (bytes == 0) return;  // others go on meanwhile
      if (kind < strip::kMarked) ++sum.live_blocks, sum.live_bytes += bytes;
      block += bytes;
    }
  }
  RecordOf& record(u32 index) const { return slices_.template at<RecordOf>(index); }

  Backing* backing_ = nullptr;
  u32 ids_ = 0;
  bool direct_ = false;
  Slices<Env, Backing> slices_;
  Caches<Env, Backing> caches_;
  typename Env::template Atomic<u32> all_;
  TaggedStack<Env> pool_;
};

}  // namespace freeway::heap
