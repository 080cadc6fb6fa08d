// SPDX-License-Identifier: MIT
// Caches: what CPUs have in hand of heaps, so that most blocks come and go without an atomic instruction.
//
// An entry is a slice, which it holds, and blocks of that in hand; entry 0 a region and units. All that is done to it is one
// kind of restartable section: if this thread runs on the cache's CPU, and both words of the entry are what they were, then
// one of them is stored. So whoever succeeded decided by what was there.
//
// Words     base: 0 -> slice -> 0.   free: its bits, while there is a base; without one it means nothing
// Moves     give: a bit of free goes        lay: a bit of free comes, of a block that lies in base
//           take out: base -> 0; who did it holds the slice and has its bits
//           put in: free := bits, then base := slice, both while base is 0: of two that do so at once the second store of one
//           finds the base, or other bits, and its slice goes back to the list
// Who       threads of the CPU, handlers on top of them, the child of a fork. Nobody else: what other CPUs have in hand stays
//           there until the heap is destroyed
// Orders    plain: a CPU sees its own stores; the kernel orders what threads of a CPU, or of an mm_cid, do one after the other
// Progress  lock-free: a section fails only if the thread has moved, or another was faster; then, after kTries, it goes without
// Lost if killed, until the heap is destroyed: a slice or region between take out and put in, with its bits
// Checked   tests/unit/heaps_test.cc, tests/rseq, tests/stress/heap_stress_test.cc
//
// Backing also has:
//   cpu()                                                  -> the CPU's number; kNoCpu: no section can be entered
//   store_if(cpu, word, expected, other, other's, value)   the section: whether word := value was done
#pragma once

#include "heap/slices.h"

namespace freeway::heap {

constexpr u32 kNoCpu = ~u32{0};

template <class Env, class Backing>
class Caches {
 public:
  using SliceOf = Slice<Env>;
  using RegionOf = Region<Env>;
  using RecordOf = Record<Env>;
  using CacheOf = Cache<Env>;
  static constexpr unsigned kTries = 8;
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
    for (unsigned tries = 0; tries < kTries; ++tries) {
      const u32 cpu = backing_->cpu();
      CacheOf* cache = cache_of(heap, cpu);
      if (FREEWAY_UNLIKELY(cache == nullptr)) break;
      Entry<Env>& entry = cache->entries[c];
      const u64 base = entry.base.load_relaxed(), free = entry.free.load_relaxed();
      if (FREEWAY_UNLIKELY(base == 0 || free == 0)) return refill(heap, *cache, cpu, c);
      if (FREEWAY_LIKELY(backing_->store_if(cpu, entry.free, free, entry.base, base, free & (free - 1))))
        return block_of(*reinterpret_cast<SliceOf*>(base), lowest_bit(free));
    }
    return allocate_direct(heap, c);
  }

  // The same without a cache.
  FREEWAY_NOINLINE void* allocate_direct(RecordOf& heap, unsigned c) {
    SliceOf* slice = slices_->hold_slice(heap, c, [&] { return cut(heap, nullptr, 0, c, kShapes[c].first, 1); });
    if (slice == nullptr) return nullptr;
    const unsigned block = lowest_bit(cell::free_of(slice->word.load_relaxed()));  // not 0: only the holder clears bits
    slices_->take(*slice, u64{1} << block);
    void* address = block_of(*slice, block);
    slices_->let_go_slice(heap, *slice);
    return address;
  }

  // The only block of a slice of its own, which begins at a multiple of `alignment` (above a unit).
  void* allocate_aligned(RecordOf& heap, unsigned c, std::size_t alignment) {
    SliceOf* slice = cut(heap, nullptr, 0, c, units_for(c, 1), static_cast<unsigned>(alignment / kUnitSize));
    if (slice == nullptr) return nullptr;
    slices_->take(*slice, 1);
    void* address = block_of(*slice, 0);
    slices_->let_go_slice(heap, *slice);
    return address;
  }

  // Frees the block, which is the caller's; false: it was free already.
  FREEWAY_INLINE bool free(RecordOf& heap, SliceOf& slice, u64 block) {
    const u64 base = reinterpret_cast<u64>(&slice);
    for (unsigned tries = 0; tries < kTries; ++tries) {
      const u32 cpu = backing_->cpu();
      CacheOf* cache = known_cache(heap, cpu);
      if (cache == nullptr) break;
      Entry<Env>& entry = cache->entries[slice.size_class.load_relaxed()];
      if (entry.base.load_relaxed() != base) break;
      const u64 free = entry.free.load_relaxed();
      if (FREEWAY_UNLIKELY((free & block) != 0)) return false;
      if (FREEWAY_LIKELY(backing_->store_if(cpu, entry.free, free, entry.base, base, free | block))) return true;
    }
    return (slices_->free_blocks(heap, slice, block) & block) == 0;
  }

  // What this CPU has in hand goes back to the lists.
  void empty_own(RecordOf& heap) {
    const u32 cpu = backing_->cpu();
    CacheOf* cache = known_cache(heap, cpu);
    if (cache == nullptr) return;
    for (unsigned c = kClassCount; c-- > 0;) {
      Entry<Env>& entry = cache->entries[c];
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
      for (auto& entry : cache.entries) entry.base.store_relaxed(0);
      cache.cut.store_relaxed(0);
      pools_[id].push(index, slices_->links());
    }
    heap.caches.store_relaxed(0);
  }

  // How many blocks of the slice a CPU has in hand; whether this one is among them.
  u32 cached(const RecordOf& heap, const SliceOf& slice) const { return popcount(in_hand(heap, slice)); }
  bool has(const RecordOf& heap, const SliceOf& slice, u64 block) const { return (in_hand(heap, slice) & block) != 0; }

  static void* block_of(const SliceOf& slice, unsigned number) {
    return reinterpret_cast<void*>(slice.address.load_relaxed() + u64{number} * slice.size.load_relaxed());
  }

 private:
  u64 in_hand(const RecordOf& heap, const SliceOf& slice) const {
    u64 blocks = 0;
    for (u32 index = heap.caches.load_acquire(); index != 0;) {  // [A1] pairs with [R1]
      const auto& cache = slices_->template at<CacheOf>(index);
      const Entry<Env>& entry = cache.entries[slice.size_class.load_relaxed()];
      if (entry.base.load_relaxed() == reinterpret_cast<u64>(&slice)) blocks |= entry.free.load_relaxed();
      index = cache.next.load_relaxed();
    }
    return blocks;
  }

  CacheOf* known_cache(RecordOf& heap, u32 cpu) {
    if (FREEWAY_UNLIKELY(cpu >= ids_)) return nullptr;
    const u32 index = heap.cache_of[cpu].load_acquire();  // [A2] pairs with [R2]
    return index == 0 ? nullptr : &slices_->template at<CacheOf>(index);
  }
  CacheOf* cache_of(RecordOf& heap, u32 cpu) {
    if (CacheOf* cache = known_cache(heap, cpu); FREEWAY_LIKELY(cache != nullptr)) return cache;
    return cpu < ids_ ? make_cache(heap, cpu) : nullptr;
  }

  FREEWAY_NOINLINE CacheOf* make_cache(RecordOf& heap, u32 cpu) {
    u32 index = pools_[cpu].pop(slices_->links());
    if (index == 0 && (index = backing_->make(kRecordUnits<CacheOf>)) == 0) return nullptr;
    auto& cache = slices_->template at<CacheOf>(index);
    cache.self.store_relaxed(index);
    cache.id.store_relaxed(cpu);
    Env::step("heap.cache");
    u32 none = 0;
    if (!heap.cache_of[cpu].cas_release(none, index)) {  // [R2] pairs with [A2]
      pools_[cpu].push(index, slices_->links());
      return known_cache(heap, cpu);
    }
    Env::step("heap.cached");
    u32 head = heap.caches.load_relaxed();
    do cache.next.store_relaxed(head);
    while (!heap.caches.cas_release(head, index));  // [R1] pairs with [A1]
    return &cache;
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
      Env::step("heap.taken_out");
      free = slices_->take(*slice, cell::kFree);
      if (free == 0) slices_->let_go_slice(heap, *slice);
    }
    if (free == 0) {
      slice = slices_->hold_slice(heap, c, [&] {
        const u64 bit = u64{1} << c, seen = cache.cut.load_relaxed();
        cache.cut.store_relaxed(seen | bit);
        return cut(heap, &cache, cpu, c, (seen & bit) != 0 ? kShapes[c].next : kShapes[c].first, 1);
      });
      if (slice == nullptr) return nullptr;
      free = slices_->take(*slice, cell::kFree);
    }
    void* block = block_of(*slice, lowest_bit(free));
    Env::step("heap.refilling");
    put_in(heap, cache, cpu, c, reinterpret_cast<u64>(slice), free & (free - 1));
    return block;
  }

  // What the caller holds goes into the entry if that is empty, else back.
  void put_in(RecordOf& heap, CacheOf& cache, u32 cpu, unsigned c, u64 base, u64 free) {
    Entry<Env>& entry = cache.entries[c];
    const u64 seen = entry.free.load_relaxed();
    if (seen == free || backing_->store_if(cpu, entry.free, seen, entry.base, 0, free)) {
      Env::step("heap.putting_in");
      if (backing_->store_if(cpu, entry.base, 0, entry.free, free, base)) return;
    }
    put_back(heap, c, base, free);
  }
  void put_back(RecordOf& heap, unsigned c, u64 base, u64 free) {
    if (c == 0) {
      auto& region = *reinterpret_cast<RegionOf*>(base);
      if (free != 0) slices_->free_to(heap.lists[0], region, free);
      slices_->let_go(heap.lists[0], region);
    } else {
      auto& slice = *reinterpret_cast<SliceOf*>(base);
      if (free != 0) slices_->free_to(heap.lists[c], slice, free);  // held: no more than its bits
      slices_->let_go_slice(heap, slice);
    }
  }

  // Holds a new slice; null: no memory, or the limit. `cache`: whose region it is cut from, if it can be.
  SliceOf* cut(RecordOf& heap, CacheOf* cache, u32 cpu, unsigned c, unsigned units, unsigned step) {
    if (cache != nullptr) {
      Entry<Env>& entry = cache->entries[0];
      const u64 base = entry.base.load_relaxed(), free = entry.free.load_relaxed();
      const u64 run = base == 0 ? 0 : cell::run(free, units, step);
      if (run != 0 && backing_->store_if(cpu, entry.free, free, entry.base, base, free & ~run))
        return &slices_->make_slice(*reinterpret_cast<RegionOf*>(base), lowest_bit(run), units, c);
      if (base != 0 && run == 0 && backing_->store_if(cpu, entry.base, base, entry.free, free, 0))
        put_back(heap, 0, base, free);
    }
    RegionOf* region = slices_->hold_region(heap, units, step);
    if (region == nullptr) return nullptr;
    const u64 run = cell::run(cell::free_of(region->word.load_relaxed()), units, step);
    slices_->take(*region, run);
    SliceOf& slice = slices_->make_slice(*region, lowest_bit(run), units, c);
    Env::step("heap.cut");
    if (cache != nullptr)
      put_in(heap, *cache, cpu, 0, reinterpret_cast<u64>(region), slices_->take(*region, cell::kFree));
    else
      slices_->let_go(heap.lists[0], *region);
    return &slice;
  }

  Backing* backing_ = nullptr;
  Slices<Env, Backing>* slices_ = nullptr;
  u32 ids_ = 0;
  TaggedStack<Env> pools_[kMostIds];  // caches of each CPU that are no heap's
};

}  // namespace freeway::heap
