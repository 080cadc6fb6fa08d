// SPDX-License-Identifier: MIT
// Caches: what CPUs have in hand of heaps, so that most blocks come and go without an atomic instruction.
//
// An entry is a magazine of freed blocks, and a slice, which it holds, with blocks of that in hand; entry 0 a region and units.
// Beside them a strip, which it has open, and where its next block begins: it serves the classes that have no slice there.
// All that is done to it are restartable sections. give and lay are each one; the others are of one kind: if this thread runs on
// the cache's CPU, whose the cache is, and both words, base and free, are what they were, then one of them is stored. So who
// succeeded decided by what was there. Whoever takes the heap's caches apart seizes them (cache_place.h), interrupts all sections,
// and does what he likes.
//
// Words     top: moves by a slot.   base: 0 -> slice, or strip -> 0.   free: bits of it, or the strip's next address, while
//           there is a base.   kinds of a strip's blocks (strip.h) from there on: give's alone
// Moves     give: the top block of the magazine, else one of free, else the strip's next, whose kind it stores before
//           lay: a freed block on top of the magazine
//           take out: base -> 0; who did it holds the slice and has its bits
//           put in: free := bits, then base := slice, both while base is 0: of two that do so at once the second store of one
//           finds the base, or other bits, and its slice goes back to the list
// Who       threads of the CPU, handlers on top of them, the child of a fork; who has seized the cache
// Orders    plain: a CPU sees its own stores; the kernel orders what threads of a CPU, or of an mm_cid, do one after the other
// Progress  lock-free: a section fails only if the thread has moved, the cache is seized, or another was faster; then it goes to
//           the lists
// Lost if killed, until the heap is destroyed: a slice, region or strip between take out and put in, with what is free in it; what
//           is seized
// Checked   tests/unit/heap_caches_test.cc, tests/abi/heap_test.cc, tests/rseq
//
// Backing also has:
//   cpu()                                                  -> the CPU's number; kNoCpu: no section can be entered
//   store_if(owner, word, expected, other, other's, value) the section: whether word := value was done
//   give(heap, class)                                      the section on this CPU's cache: a block, 0: there is none
//   lay(heap, class, slice, address, block)                the same: Laid; of a strip's block slice and block are 0
//   pop(owner, top)                                        the top block of a magazine, 0: it is empty
//   claimant()                                             who asks
//   interrupt_sections()                                   interrupts them all; false: the kernel refuses
//   region_at(block)                                       the record of the region that the block lies in
#pragma once

#include "heap/cache_place.h"
#include "heap/slices.h"

namespace freeway::heap {

constexpr u32 kNoCpu = ~u32{0};
// What became of a block that is freed: nothing; it lies in the magazine; it was free already.
enum class Laid : u32 { kNot, kDone, kTwice };
enum class Freed { kOk, kTwice, kInterior };

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
    return refill(heap, *cache, c);
  }

  // The same without a cache.
  FREEWAY_NOINLINE void* allocate_direct(RecordOf& heap, unsigned c) {
    u64 free = 0;
    SliceOf* slice = slices_->hold_slice(heap, c, free);
    if (slice == nullptr) slice = cut(heap, known_cache(heap, backing_->cpu()), c, kShapes[c].first, 1, free);
    return slice == nullptr ? nullptr : keep_one(heap, c, *slice, free);
  }

  // The first block of a slice of its own, which begins at a multiple of `alignment` (above a unit).
  void* allocate_aligned(RecordOf& heap, unsigned c, std::size_t alignment) {
    u64 free = 0;
    SliceOf* slice = cut(heap, nullptr, c, units_for(c, 1), static_cast<unsigned>(alignment / kUnitSize), free);
    return slice == nullptr ? nullptr : keep_one(heap, c, *slice, free);
  }

  // Frees the block, the caller's, of the region at the address.
  FREEWAY_INLINE Freed free(RecordOf& heap, RegionOf& region, uptr address) {
    SliceOf* slice = slices_->slice_around(region, address);
    if (FREEWAY_UNLIKELY(slice == nullptr)) return Freed::kInterior;
    if (slices_->is_strip(*slice)) {
      const u8 kind = slices_->kind_at(region, address);
      if (FREEWAY_UNLIKELY(!slices_->is_live(kind))) return kind == 0 ? Freed::kInterior : Freed::kTwice;
      const Laid laid = backing_->lay(heap, kind, nullptr, address, 0);
      if (FREEWAY_LIKELY(laid == Laid::kDone)) return Freed::kOk;
      return laid == Laid::kNot && slices_->mark(heap, region, *slice, address, kind) ? Freed::kOk : Freed::kTwice;
    }
    const u64 block = slices_->block_at(*slice, address);
    if (FREEWAY_UNLIKELY(block == 0)) return Freed::kInterior;
    if (FREEWAY_UNLIKELY((slice->word.load_relaxed() & block) != 0)) return Freed::kTwice;
    const Laid laid = backing_->lay(heap, slice->size_class.load_relaxed(), slice, address, block);
    if (FREEWAY_LIKELY(laid == Laid::kDone)) return Freed::kOk;
    return laid == Laid::kNot && (slices_->free_blocks(heap, *slice, block) & block) == 0 ? Freed::kOk : Freed::kTwice;
  }

  // What CPUs have in hand goes back to the lists, but for strips of which blocks are live. If sections cannot be interrupted,
  // what this CPU has.
  void empty_all(RecordOf& heap) {
    if (CacheOf* cache = known_cache(heap, backing_->cpu())) {
      empty_magazines(heap, *cache, kInSections);
      empty_hands(heap, *cache, kInSections);
    }
    u32 seized = 0;
    each_cache(heap, [&](CacheOf& cache) {
      if (!has_something(cache) || !Place::seize(place_of(heap, cache), cache, backing_->claimant())) return;
      cache.link.store_relaxed(seized);
      seized = slices_->index_of(cache);
    });
    if (seized == 0) return;
    const bool is_mine = backing_->interrupt_sections();
    const auto each = [&](auto&& f) {
      for (u32 index = seized, next; index != 0; index = next) {
        auto& cache = slices_->template at<CacheOf>(index);
        next = cache.link.load_relaxed();
        f(cache);
      }
    };
    // A strip is unused once its blocks have come out of all magazines.
    if (is_mine) each([&](CacheOf& cache) { empty_magazines(heap, cache, kSeized); });
    if (is_mine) each([&](CacheOf& cache) { empty_hands(heap, cache, kSeized); });
    each([&](CacheOf& cache) { Place::put(place_of(heap, cache), cache); });
  }

  // For who destroys the heap: its caches are anybody's.
  void recycle_all(RecordOf& heap) {
    u32 next;
    for (u32 index = heap.caches.load_acquire(); index != 0; index = next) {  // [A1] pairs with [R1]
      auto& cache = slices_->template at<CacheOf>(index);
      next = cache.next.load_relaxed();
      const u32 id = cache.id.load_relaxed();
      heap.cache_of[id].store_relaxed(0);
      cache.owner.store_relaxed(id);
      for (unsigned c = 0; c < kClassCount; ++c) {
        cache.entries[c].base.store_relaxed(0);
        cache.entries[c].top.store_relaxed(bottom(cache, c));
      }
      cache.strip.base.store_relaxed(0);
      cache.strips.store_relaxed(0);
      cache.cut.store_relaxed(0);
      pools_[id].push(index, slices_->links());
    }
    heap.caches.store_relaxed(0);
  }

  // Calls f(cache) for each cache of the heap.
  template <class F>
  void each_cache(const RecordOf& heap, F&& f) const {
    for (u32 index = heap.caches.load_acquire(); index != 0;) {  // [A1] pairs with [R1]
      auto& cache = slices_->template at<CacheOf>(index);
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
  // Where the strip's next block begins, or would have, once it is closed. If it is open and nobody has it, its end: behind its
  // blocks there are no kinds.
  uptr next_of(const RecordOf& heap, const SliceOf& one) const {
    const u64 word = one.word.load_relaxed();
    const u64 length = strip::length_of(word) * strip::kGranule;
    uptr next = strip::is_open(word) ? one.end.load_relaxed() : one.address.load_relaxed() + length;
    each_cache(heap, [&](const CacheOf& cache) {
      if (cache.strip.base.load_relaxed() == reinterpret_cast<u64>(&one)) next = cache.strip.free.load_relaxed();
    });
    return next;
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
  bool seems_to_have(const RecordOf& heap, unsigned c, const SliceOf& slice, uptr address, u64 block) const {
    bool found = false;
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
  using Place = CachePlace<Env>;
  enum Access { kInSections, kSeized };  // how a cache is taken apart
  static Word& slot(u64 at) { return *reinterpret_cast<Word*>(at); }
  static u64 bottom(const CacheOf& cache, unsigned c) { return reinterpret_cast<u64>(&cache.slots[kFirstSlot[c]]); }

  CacheOf* known_cache(RecordOf& heap, u32 cpu) {
    if (FREEWAY_UNLIKELY(cpu >= ids_)) return nullptr;
    return reinterpret_cast<CacheOf*>(Place::there(heap.cache_of[cpu]));
  }
  CacheOf* cache_of(RecordOf& heap, u32 cpu) {
    CacheOf* cache = known_cache(heap, cpu);
    if (FREEWAY_LIKELY(cache != nullptr && Place::is_settled(*cache))) return cache;
    return cpu < ids_ ? make_cache(heap, cpu) : nullptr;
  }

  static Word& place_of(RecordOf& heap, const CacheOf& cache) { return heap.cache_of[cache.id.load_relaxed()]; }

  // One that exists and is in no place is seized, or was by a thread that a fork left behind, or is a spare one.
  FREEWAY_NOINLINE CacheOf* make_cache(RecordOf& heap, u32 cpu) {
    bool is_made = false;
    each_cache(heap, [&](CacheOf& cache) {
      if (cache.id.load_relaxed() != cpu) return;
      is_made = true;
      Place::settle(heap.cache_of[cpu], cache, backing_->claimant());
    });
    if (is_made) return known_cache(heap, cpu);
    u32 index = pools_[cpu].pop(slices_->links());
    const bool is_new = index == 0;
    if (is_new && (index = backing_->make(kRecordUnits<CacheOf>)) == 0) return nullptr;
    auto& cache = slices_->template at<CacheOf>(index);
    if (is_new) {
      cache.self.store_relaxed(index);
      cache.id.store_relaxed(cpu);
      for (unsigned c = 0; c < kClassCount; ++c) {
        cache.entries[c].top.store_relaxed(bottom(cache, c));
        cache.entries[c].size.store_relaxed(has_strips(c) ? kSizeClasses[c].size : ~u32{0});
        cache.entries[c].size_class.store_relaxed(c);
        for (unsigned i = 0; i < slots_of(c); ++i) cache.slots[kFirstSlot[c] + i].store_relaxed(1);
      }
    }
    cache.owner.store_relaxed(backing_->claimant().self);
    Env::step("own.cache");
    // First: who destroys the heap then finds each cache that anybody may have used, wherever this thread ends.
    u32 head = heap.caches.load_relaxed();
    do cache.next.store_relaxed(head);
    while (!heap.caches.cas_release(head, index));  // [R1] pairs with [A1]
    Env::step("own.cached");
    Place::put(heap.cache_of[cpu], cache);
    return known_cache(heap, cpu);  // if another was faster, this one is spare
  }

  static bool has_something(const CacheOf& cache) {
    bool found = cache.strip.base.load_relaxed() != 0;
    for (unsigned c = 0; !found && c < kClassCount; ++c)
      found = cache.entries[c].base.load_relaxed() != 0 || cache.entries[c].top.load_relaxed() != bottom(cache, c);
    return found;
  }
  void empty_magazines(RecordOf& heap, CacheOf& cache, Access access) {
    for (unsigned c = 1; c < kClassCount; ++c)
      while (const u64 block = pop(cache, cache.entries[c].top, access)) give_back(heap, block);
  }
  // Strips that are not unused stay.
  void empty_hands(RecordOf& heap, CacheOf& cache, Access access) {
    leave_strip(heap, cache, /*unused_only=*/true, access);
    for (unsigned c = 0; c < kClassCount; ++c) {
      Entry<Env>& entry = cache.entries[c];
      const u64 base = entry.base.load_relaxed(), free = entry.free.load_relaxed();
      if (base != 0 && take_out(cache, entry, base, free, access)) put_back(heap, c, base, free);
    }
  }
  u64 pop(CacheOf& cache, Word& top, Access access) {
    if (access == kInSections) return backing_->pop(cache.owner, top);
    const u64 at = top.load_relaxed() - sizeof(u64), block = slot(at).load_relaxed();
    if (block != 0) top.store_relaxed(at);
    Env::step("own.popped");
    return block;
  }
  bool take_out(CacheOf& cache, Hand<Env>& hand, u64 base, u64 free, Access access) {
    if (access == kInSections) return backing_->store_if(cache.owner, hand.base, base, hand.free, free, 0);
    hand.base.store_relaxed(0);
    Env::step("own.emptied");
    return true;
  }

  // The entry has no block in hand. It gets the free ones of its slice, or of another slice; or magazines get blocks that were
  // freed into strips; or there is a new strip, or slice. One of the blocks is the caller's.
  FREEWAY_NOINLINE void* refill(RecordOf& heap, CacheOf& cache, unsigned c) {
    Entry<Env>& entry = cache.entries[c];
    SliceOf* slice = nullptr;
    u64 free = 0;
    const u64 base = entry.base.load_relaxed();
    if (base != 0 && backing_->store_if(cache.owner, entry.base, base, entry.free, 0, 0)) {
      slice = reinterpret_cast<SliceOf*>(base);
      Env::step("own.taken_out");
      free = slices_->take_or_let_go(heap, *slice);
    }
    if (free == 0) slice = slices_->hold_slice(heap, c, free);
    if (free == 0) {
      if (void* block = gather(heap, cache, c, /*all=*/false)) return block;
      if (const u64 block = backing_->give(heap, c)) return reinterpret_cast<void*>(block);  // the strip has room
      // Where strips have become free of other classes, or there is no frame for one, a slice does.
      const bool may_open = cache.strips.load_relaxed() < kMostStrips && heap.strips.peek() == 0 && slices_->may_grow(heap);
      if (has_strips(c) && may_open)
        if (void* block = open_strip(heap, cache, c)) return block;
      slice = cut_for(heap, cache, c, free);
      if (slice == nullptr) return gather(heap, cache, c, /*all=*/true);
    }
    void* block = block_of(*slice, lowest_bit(free));
    Env::step("own.refilling");
    put_in_or_back(heap, cache, c, reinterpret_cast<u64>(slice), free & (free - 1));
    return block;
  }

  // A slice of the length that suits the class now, or at least one block.
  SliceOf* cut_for(RecordOf& heap, CacheOf& cache, unsigned c, u64& free) {
    const u64 bit = u64{1} << c, seen = cache.cut.load_relaxed();
    cache.cut.store_relaxed(seen | bit);
    const unsigned units = (seen & bit) != 0 ? kShapes[c].next : kShapes[c].first, least = units_for(c, 1);
    SliceOf* slice = cut(heap, &cache, c, units, 1, free);
    return slice != nullptr || units == least ? slice : cut(heap, &cache, c, least, 1, free);
  }

  // A block that was freed into a strip. Others of there go into this CPU's magazines, up to their middle, so that the next ones
  // find room as well. Null: none is found.
  void* gather(RecordOf& heap, CacheOf& cache, unsigned wanted, bool all) {
    uptr mine = 0;
    const auto take = [&](uptr block, unsigned c) {
      if (c == wanted && mine == 0) return mine = block, true;
      const u64 laid = (cache.entries[c].top.load_relaxed() - bottom(cache, c)) / sizeof(u64);
      return laid < slots_of(c) / 2 && backing_->lay(heap, c, nullptr, block, 0) == Laid::kDone;
    };
    if (all)
      slices_->gather(heap, wanted, true, take);
    else
      for (unsigned tries = 0; mine == 0 && tries < 2 && slices_->gather(heap, wanted, false, take);) ++tries;
    return reinterpret_cast<void*>(mine);
  }

  // The first block of a new strip, which this CPU then has in hand; null: no memory, or the limit.
  void* open_strip(RecordOf& heap, CacheOf& cache, unsigned c) {
    if (cache.strip.base.load_relaxed() != 0) leave_strip(heap, cache, /*unused_only=*/false, kInSections);
    const u32 number = cache.strips.load_relaxed();
    const unsigned units = units_of_strip(number);
    unsigned unit;
    RegionOf* region = cut_units(heap, &cache, units, 1, unit);
    if (region == nullptr) return nullptr;
    SliceOf& one = slices_->make_strip(*region, unit, units);
    const uptr block = one.address.load_relaxed(), next = block + kSizeClasses[c].size;
    slices_->kind_of(one, block).store_relaxed(static_cast<u8>(c));
    cache.strips.store_relaxed(number + 1);
    Env::step("own.opening");
    if (!put_in(cache, cache.strip, reinterpret_cast<u64>(&one), next)) slices_->close(heap, one, next);
    return reinterpret_cast<void*>(block);
  }
  // Takes the strip out and closes it. `unused_only`: if all its blocks have come back.
  void leave_strip(RecordOf& heap, CacheOf& cache, bool unused_only, Access access) {
    Hand<Env>& hand = cache.strip;
    const u64 base = hand.base.load_relaxed(), next = hand.free.load_relaxed();
    if (base == 0) return;
    auto& one = *reinterpret_cast<SliceOf*>(base);
    if (unused_only && !slices_->is_unused(one, next)) return;
    if (!take_out(cache, hand, base, next, access)) return;
    Env::step("own.closing");
    slices_->close(heap, one, next);
  }

  // What the caller holds goes there if nothing is, else nothing is done.
  bool put_in(CacheOf& cache, Hand<Env>& hand, u64 base, u64 free) {
    const u64 seen = hand.free.load_relaxed();
    if (seen != free && !backing_->store_if(cache.owner, hand.free, seen, hand.base, 0, free)) return false;
    Env::step("own.putting_in");
    return backing_->store_if(cache.owner, hand.base, 0, hand.free, free, base);
  }
  void put_in_or_back(RecordOf& heap, CacheOf& cache, unsigned c, u64 base, u64 free) {
    if (!put_in(cache, cache.entries[c], base, free)) put_back(heap, c, base, free);
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
    auto& region = slices_->template at<RegionOf>(backing_->region_at(address));
    SliceOf* slice = slices_->slice_around(region, address);
    if (slice == nullptr) return;
    if (slices_->is_strip(*slice))
      slices_->mark(heap, region, *slice, address, slices_->kind_at(region, address));
    else
      slices_->free_blocks(heap, *slice, slices_->block_at(*slice, address));
  }
  void* keep_one(RecordOf& heap, unsigned c, SliceOf& slice, u64 free) {
    void* block = block_of(slice, lowest_bit(free));
    Env::step("own.kept");
    put_back(heap, c, reinterpret_cast<u64>(&slice), free & (free - 1));
    return block;
  }

  // Holds a new slice, with all its blocks, `free`, in hand; null: no memory, or the limit. `cache`: whose region it is cut
  // from, if it can be.
  SliceOf* cut(RecordOf& heap, CacheOf* cache, unsigned c, unsigned units, unsigned step, u64& free) {
    free = low_bits(blocks_in(c, units));
    unsigned unit;
    RegionOf* region = cut_units(heap, cache, units, step, unit);
    return region == nullptr ? nullptr : &slices_->make_slice(*region, unit, units, c);
  }
  // Takes so many units side by side, the first of them `unit`; whose they are.
  RegionOf* cut_units(RecordOf& heap, CacheOf* cache, unsigned units, unsigned step, unsigned& unit) {
    if (cache != nullptr) {
      Entry<Env>& entry = cache->entries[0];
      const u64 base = entry.base.load_relaxed(), there = entry.free.load_relaxed();
      const u64 run = base == 0 ? 0 : cell::run(there, units, step);
      if (run != 0 && backing_->store_if(cache->owner, entry.free, there, entry.base, base, there & ~run)) {
        unit = lowest_bit(run);
        return reinterpret_cast<RegionOf*>(base);
      }
      if (base != 0 && run == 0 && backing_->store_if(cache->owner, entry.base, base, entry.free, there, 0))
        put_back(heap, 0, base, there);
    }
    RegionOf* region = slices_->hold_region(heap, units, step);
    if (region == nullptr) return nullptr;
    const u64 there = slices_->take(*region, cell::kFree), run = cell::run(there, units, step);
    unit = lowest_bit(run);
    Env::step("own.cut");
    if (cache != nullptr)
      put_in_or_back(heap, *cache, 0, reinterpret_cast<u64>(region), there & ~run);
    else
      put_back(heap, 0, reinterpret_cast<u64>(region), there & ~run);
    return region;
  }

  Backing* backing_ = nullptr;
  Slices<Env, Backing>* slices_ = nullptr;
  u32 ids_ = 0;
  TaggedStack<Env> pools_[kMostIds];  // caches of each CPU that are no heap's
};

}  // namespace freeway::heap
