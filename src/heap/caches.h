// SPDX-License-Identifier: MIT
// Caches: what CPUs have in hand of heaps, so that most blocks come and go without an atomic instruction.
//
// An entry is a magazine of freed blocks, and a slice, which it holds, with blocks of that in hand; entry 0 a region and units.
// All that is done to it are restartable sections. give and lay are each one; the others are of one kind: if this thread runs on
// the cache's CPU, and both words, base and free, are what they were, then one of them is stored. So who succeeded decided by
// what was there.
//
// Words     top: moves by a slot.   base: 0 -> slice -> 0.   free: bits of it, while there is a base
// Moves     give: the top block of the magazine, else one of free    lay: a freed block on top of the magazine
//           take out: base -> 0; who did it holds the slice and has its bits
//           put in: free := bits, then base := slice, both while base is 0: of two that do so at once the second store of one
//           finds the base, or other bits, and its slice goes back to the list
// Who       threads of the CPU, handlers on top of them, the child of a fork. Nobody else: what other CPUs have in hand stays
//           there until the heap is destroyed
// Orders    plain: a CPU sees its own stores; the kernel orders what threads of a CPU, or of an mm_cid, do one after the other
// Progress  lock-free: a section fails only if the thread has moved, or another was faster; then it goes to the lists
// Lost if killed, until the heap is destroyed: a slice or region between take out and put in, with its bits
// Checked   tests/abi/heap_test.cc, tests/rseq
//
// Backing also has:
//   cpu()                                                  -> the CPU's number; kNoCpu: no section can be entered
//   store_if(cpu, word, expected, other, other's, value)   the section: whether word := value was done
//   give(heap, class)                                      the section on this CPU's cache: a block, 0: there is none
//   lay(heap, class, slice, address, block)                the same: Laid
//   pop(cpu, top)                                          the top block of a magazine, 0: it is empty
//   region_at(block)                                       the record of the region that the block lies in
#pragma once

#include "heap/slices.h"

namespace freeway::heap {

constexpr u32 kNoCpu = ~u32{0};
// What became of a block that is freed: nothing; it lies in the magazine; it was free already.
enum class Laid : u32 { kNot, kDone, kTwice };

template <class Env, class Backing>
class Caches {
 public:
  using SliceOf = Slice<Env>;
  using RegionOf = Region<Env>;
  using RecordOf = Record<Env>;
  using CacheOf = Cache<Env>;
  static constexpr u32 kMostIds = 8192;

  // `ids`: CPU numbers are below it, or have no caches.
  void init(Backing* backing, Slices<Env, Backing>* slices, u32 ids) {
    backing_ = backing;
    slices_ = slices;
    ids_ = ids < kMostIds ? ids : kMostIds;
  }
  u32 ids() const { return ids_; }

  // A block of class `c`; null: no memory, or the limit.
  FREEWAY_INLINE void* allocate(RecordOf& heap, unsigned c) {
    if (const u64 block = backing_->give(heap, c); FREEWAY_LIKELY(block != 0)) return reinterpret_cast<void*>(block);
    return allocate_slow(heap, c);
  }
  FREEWAY_NOINLINE void* allocate_slow(RecordOf& heap, unsigned c) {
    const u32 cpu = backing_->cpu();
    CacheOf* cache = cache_of(heap, cpu);
    if (cache == nullptr) return allocate_direct(heap, c);
    if (const u64 block = backing_->give(heap, c)) return reinterpret_cast<void*>(block);  // the thread has moved
    return refill(heap, *cache, cpu, c);
  }

  // The same without a cache.
  FREEWAY_NOINLINE void* allocate_direct(RecordOf& heap, unsigned c) {
    u64 free = 0;
    SliceOf* slice = slices_->hold_slice(heap, c, free);
    if (slice == nullptr) slice = cut(heap, nullptr, 0, c, kShapes[c].first, 1, free);
    return slice == nullptr ? nullptr : keep_one(heap, c, *slice, free);
  }

  // The first block of a slice of its own, which begins at a multiple of `alignment` (above a unit).
  void* allocate_aligned(RecordOf& heap, unsigned c, std::size_t alignment) {
    u64 free = 0;
    SliceOf* slice = cut(heap, nullptr, 0, c, units_for(c, 1), static_cast<unsigned>(alignment / kUnitSize), free);
    return slice == nullptr ? nullptr : keep_one(heap, c, *slice, free);
  }

  // Frees the block, the caller's, which begins at the address; false: it was free already.
  FREEWAY_INLINE bool free(RecordOf& heap, SliceOf& slice, uptr address, u64 block) {
    if (FREEWAY_UNLIKELY((slice.word.load_relaxed() & block) != 0)) return false;
    const Laid laid = backing_->lay(heap, slice.size_class.load_relaxed(), slice, address, block);
    if (FREEWAY_LIKELY(laid == Laid::kDone)) return true;
    return laid == Laid::kNot && (slices_->free_blocks(heap, slice, block) & block) == 0;
  }

  // What this CPU has in hand goes back to the lists.
  void empty_own(RecordOf& heap) {
    const u32 cpu = backing_->cpu();
    CacheOf* cache = known_cache(heap, cpu);
    if (cache == nullptr) return;
    for (unsigned c = kClassCount; c-- > 0;) {
      Entry<Env>& entry = cache->entries[c];
      while (const u64 block = c == 0 ? 0 : backing_->pop(cpu, entry.top)) give_back(heap, block);
      const u64 base = entry.base.load_relaxed(), free = entry.free.load_relaxed();
      if (base != 0 && backing_->store_if(cpu, entry.base, base, entry.free, free, 0)) put_back(heap, c, base, free);
    }
  }

  // For who destroys the heap: its caches are anybody's.
  void recycle_all(RecordOf& heap) {
    u32 next;
    for (u32 index = heap.caches.load_acquire(); index != 0; index = next) {  // [A1] pairs with [R1]
      auto& cache = slices_->template at<CacheOf>(index);
      next = cache.next.load_relaxed();
      const u32 id = cache.id.load_relaxed();
      heap.cache_of[id].store_relaxed(0);
      for (unsigned c = 0; c < kClassCount; ++c) {
        cache.entries[c].base.store_relaxed(0);
        cache.entries[c].top.store_relaxed(bottom(cache, c));
      }
      cache.cut.store_relaxed(0);
      pools_[id].push(index, slices_->links());
    }
    heap.caches.store_relaxed(0);
  }

  // Calls f(cache) for each cache of the heap.
  template <class F>
  void each_cache(const RecordOf& heap, F&& f) const {
    for (u32 index = heap.caches.load_acquire(); index != 0;) {  // [A1] pairs with [R1]
      const auto& cache = slices_->template at<CacheOf>(index);
      f(cache);
      index = cache.next.load_relaxed();
    }
  }
  // Blocks of the slice that CPUs have in hand with it; blocks of class `c` in magazines.
  u32 with_slice(const RecordOf& heap, const SliceOf& slice) const {
    u32 blocks = 0;
    each_cache(heap, [&](const CacheOf& cache) {
      const Entry<Env>& entry = cache.entries[slice.size_class.load_relaxed()];
      if (entry.base.load_relaxed() == reinterpret_cast<u64>(&slice)) blocks += popcount(entry.free.load_relaxed());
    });
    return blocks;
  }
  u64 in_magazines(const RecordOf& heap, unsigned c) const {
    u64 blocks = 0;
    each_cache(heap, [&](const CacheOf& cache) {
      blocks += (cache.entries[c].top.load_relaxed() - bottom(cache, c)) / sizeof(u64);
    });
    return blocks;
  }
  // Whether a CPU seems to have the slice's block in hand. Others go on meanwhile, and base and free may be of two slices, so that
  // it may be wrong of a block that is somebody's: for explanations only.
  bool seems_to_have(const RecordOf& heap, const SliceOf& slice, uptr address, u64 block) const {
    bool found = false;
    const unsigned c = slice.size_class.load_relaxed();
    each_cache(heap, [&](const CacheOf& cache) {
      const Entry<Env>& entry = cache.entries[c];
      if (entry.base.load_relaxed() == reinterpret_cast<u64>(&slice)) found |= (entry.free.load_relaxed() & block) != 0;
      const u64 top = entry.top.load_relaxed();
      for (u64 at = bottom(cache, c); at < top; at += sizeof(u64)) found |= slot(at).load_relaxed() == address;
    });
    return found;
  }

  static void* block_of(const SliceOf& slice, unsigned number) {
    return reinterpret_cast<void*>(slice.address.load_relaxed() + u64{number} * slice.size.load_relaxed());
  }

 private:
  using Word = typename Env::template Atomic<u64>;
  static Word& slot(u64 at) { return *reinterpret_cast<Word*>(at); }
  static u64 bottom(const CacheOf& cache, unsigned c) { return reinterpret_cast<u64>(&cache.slots[kFirstSlot[c]]); }

  CacheOf* known_cache(RecordOf& heap, u32 cpu) {
    if (FREEWAY_UNLIKELY(cpu >= ids_)) return nullptr;
    return reinterpret_cast<CacheOf*>(heap.cache_of[cpu].load_acquire());  // [A2] pairs with [R2]
  }
  CacheOf* cache_of(RecordOf& heap, u32 cpu) {
    if (CacheOf* cache = known_cache(heap, cpu); FREEWAY_LIKELY(cache != nullptr)) return cache;
    return cpu < ids_ ? make_cache(heap, cpu) : nullptr;
  }

  FREEWAY_NOINLINE CacheOf* make_cache(RecordOf& heap, u32 cpu) {
    u32 index = pools_[cpu].pop(slices_->links());
    const bool is_new = index == 0;
    if (is_new && (index = backing_->make(kRecordUnits<CacheOf>)) == 0) return nullptr;
    auto& cache = slices_->template at<CacheOf>(index);
    if (is_new) {
      cache.self.store_relaxed(index);
      cache.id.store_relaxed(cpu);
      for (unsigned c = 0; c < kClassCount; ++c) {
        cache.entries[c].top.store_relaxed(bottom(cache, c));
        for (unsigned i = 0; i < slots_of(c); ++i) cache.slots[kFirstSlot[c] + i].store_relaxed(1);
      }
    }
    Env::step("own.cache");
    // First: who destroys the heap then finds each cache that anybody may have used, wherever this thread ends.
    u32 head = heap.caches.load_relaxed();
    do cache.next.store_relaxed(head);
    while (!heap.caches.cas_release(head, index));  // [R1] pairs with [A1]
    Env::step("own.cached");
    u64 none = 0;
    heap.cache_of[cpu].cas_release(none, reinterpret_cast<u64>(&cache));  // [R2] pairs with [A2]
    return known_cache(heap, cpu);  // if another was faster, this one lies idle until the heap is destroyed
  }

  // The entry has no block in hand: it gets the free ones of its slice, or another slice with its free ones; one of them is
  // the caller's.
  FREEWAY_NOINLINE void* refill(RecordOf& heap, CacheOf& cache, u32 cpu, unsigned c) {
    Entry<Env>& entry = cache.entries[c];
    SliceOf* slice = nullptr;
    u64 free = 0;
    const u64 base = entry.base.load_relaxed();
    if (base != 0 && backing_->store_if(cpu, entry.base, base, entry.free, 0, 0)) {
      slice = reinterpret_cast<SliceOf*>(base);
      Env::step("own.taken_out");
      free = slices_->take_or_let_go(heap, *slice);
    }
    if (free == 0) slice = slices_->hold_slice(heap, c, free);
    if (free == 0) {
      const u64 bit = u64{1} << c, seen = cache.cut.load_relaxed();
      cache.cut.store_relaxed(seen | bit);
      slice = cut(heap, &cache, cpu, c, (seen & bit) != 0 ? kShapes[c].next : kShapes[c].first, 1, free);
      if (slice == nullptr) return nullptr;
    }
    void* block = block_of(*slice, lowest_bit(free));
    Env::step("own.refilling");
    put_in(heap, cache, cpu, c, reinterpret_cast<u64>(slice), free & (free - 1));
    return block;
  }

  // What the caller holds goes into the entry if that is empty, else back.
  void put_in(RecordOf& heap, CacheOf& cache, u32 cpu, unsigned c, u64 base, u64 free) {
    Entry<Env>& entry = cache.entries[c];
    const u64 seen = entry.free.load_relaxed();
    if (seen == free || backing_->store_if(cpu, entry.free, seen, entry.base, 0, free)) {
      Env::step("own.putting_in");
      if (backing_->store_if(cpu, entry.base, 0, entry.free, free, base)) return;
    }
    put_back(heap, c, base, free);
  }
  void put_back(RecordOf& heap, unsigned c, u64 base, u64 free) {
    if (c == 0) {
      auto& region = *reinterpret_cast<RegionOf*>(base);
      if (free != 0) slices_->free_to(heap.lists[0], region, free);  // held: no more than its bits
      slices_->let_go(heap.lists[0], region);
    } else {
      auto& slice = *reinterpret_cast<SliceOf*>(base);
      if (free != 0) slices_->free_to(heap.lists[c], slice, free);
      slices_->let_go_slice(heap, slice);
    }
  }
  void give_back(RecordOf& heap, u64 address) {
    u64 block = 0;
    SliceOf* slice = slices_->slice_at(slices_->template at<RegionOf>(backing_->region_at(address)), address, block);
    if (slice != nullptr) slices_->free_blocks(heap, *slice, block);
  }
  void* keep_one(RecordOf& heap, unsigned c, SliceOf& slice, u64 free) {
    void* block = block_of(slice, lowest_bit(free));
    Env::step("own.kept");
    put_back(heap, c, reinterpret_cast<u64>(&slice), free & (free - 1));
    return block;
  }

  // Holds a new slice, with all its blocks, `free`, in hand; null: no memory, or the limit. `cache`: whose region it is cut
  // from, if it can be.
  SliceOf* cut(RecordOf& heap, CacheOf* cache, u32 cpu, unsigned c, unsigned units, unsigned step, u64& free) {
    free = low_bits(blocks_in(c, units));
    if (cache != nullptr) {
      Entry<Env>& entry = cache->entries[0];
      const u64 base = entry.base.load_relaxed(), there = entry.free.load_relaxed();
      const u64 run = base == 0 ? 0 : cell::run(there, units, step);
      if (run != 0 && backing_->store_if(cpu, entry.free, there, entry.base, base, there & ~run))
        return &slices_->make_slice(*reinterpret_cast<RegionOf*>(base), lowest_bit(run), units, c);
      if (base != 0 && run == 0 && backing_->store_if(cpu, entry.base, base, entry.free, there, 0))
        put_back(heap, 0, base, there);
    }
    RegionOf* region = slices_->hold_region(heap, units, step);
    if (region == nullptr) return nullptr;
    const u64 there = slices_->take(*region, cell::kFree), run = cell::run(there, units, step);
    SliceOf& slice = slices_->make_slice(*region, lowest_bit(run), units, c);
    Env::step("own.cut");
    if (cache != nullptr)
      put_in(heap, *cache, cpu, 0, reinterpret_cast<u64>(region), there & ~run);
    else
      put_back(heap, 0, reinterpret_cast<u64>(region), there & ~run);
    return &slice;
  }

  Backing* backing_ = nullptr;
  Slices<Env, Backing>* slices_ = nullptr;
  u32 ids_ = 0;
  TaggedStack<Env> pools_[kMostIds];  // caches of each CPU that are no heap's
};

}  // namespace freeway::heap
