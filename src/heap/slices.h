// SPDX-License-Identifier: MIT
// Slices: how slices and regions of a heap are found, cut, listed and given back, without anything that belongs to a CPU.
//
// Words     the cells of slices and regions (cell.h), the words and kinds of strips (strip.h), the lists of their heap, held,
//           whole and marked (records.h)
// Who       free_to, free_blocks, mark: any thread that owns the items.   take, let_go, retire: the holder.   hold: any thread
// Invariant a cell or strip is in at most one list, once; only its holder clears its bits, or takes its marked blocks, so that
//           what is taken is one thread's.  A frame is given back by the holder of its region, once all its units are free
// Orders    [R1] freeing publishes what was done to the block; [A1] who takes the items sees that.  [R2] letting go publishes
//           the holder's view, and leaves the link to the next; [A2] who frees, or pops, sees it.  [R3] publishes a region's
//           record; [A3] walks see it
// Progress  lock-free       Lost if killed, until the heap is destroyed: the slice, strip, region or record in hand, or all that
//           sweep, or gather of all strips, took; a block between its mark and the count. For good: frames that are not yet, or
//           no more, in their region's record; what record_pool.h says
// Checked   tests/model/heap_slices_model.cc, heap_strips_model.cc, tests/abi/heap_test.cc
//
// Backing is where frames and records come from:
//   at(index)                                -> address of the record
//   make(units)                              -> index of so many new units of 64 bytes, all zero; 0 without memory
//   take_frames(frames, alignment, index, z) -> address of frames that the page map says are the record's, 0 without memory;
//                                               z: whether they read as zero
//   give_frames(address, frames)             takes the map's entries away and gives them back
#pragma once

#include <string.h>

#include "heap/cells.h"
#include "heap/record_pool.h"
#include "pages/limits.h"

namespace freeway::heap {

template <class Env, class Backing>
class Slices : public Cells<Env, Backing> {
  using Base = Cells<Env, Backing>;
  using Base::backing_, Base::hold, Base::hold_all, Base::each_listed;

 public:
  using Base::free_to, Base::take, Base::let_go, Base::links, Base::index_of;
  using typename Base::CellOf, typename Base::List;
  using SliceOf = Slice<Env>;
  using RegionOf = Region<Env>;
  using RecordOf = Record<Env>;

  void init(Backing* backing) {
    backing_ = backing;
    pool_.init(backing);
  }

  template <class T>
  T& at(u32 index) const {
    return Base::template at<T>(index);
  }
  static RecordOf& heap_of(const RegionOf& region) { return *reinterpret_cast<RecordOf*>(region.heap.load_relaxed()); }

  // Frees blocks of the slice, which the caller owns; what its word was.
  u64 free_blocks(RecordOf& heap, SliceOf& slice, u64 items) {
    const u32 blocks = slice.blocks.load_relaxed(), units = slice.units.load_relaxed();
    const u64 seen = free_to(heap.lists[slice.size_class.load_relaxed()], slice, items);
    if (!cell::is_held(seen) && cell::is_whole(seen | items, blocks)) heap.whole.fetch_add_relaxed(units);
    return seen;
  }

  // Holder only: the slice's free blocks; if there are none it lets it go.
  u64 take_or_let_go(RecordOf& heap, SliceOf& slice) {
    u64 none = cell::kHeld;
    if (slice.word.cas_release(none, 0)) return 0;  // [R2] pairs with [A2]
    const u64 free = take(slice, cell::kFree);
    if (free == 0) let_go_slice(heap, slice);
    return free;
  }
  void let_go_slice(RecordOf& heap, SliceOf& slice) {
    const u32 blocks = slice.blocks.load_relaxed(), units = slice.units.load_relaxed();
    if (cell::is_whole(let_go(heap.lists[slice.size_class.load_relaxed()], slice), blocks))
      heap.whole.fetch_add_relaxed(units);
  }

  // Holds a listed slice of class `c`, with its free blocks in hand; null: there is none.
  SliceOf* hold_slice(RecordOf& heap, unsigned c, u64& free) {
    const u32 index = heap.lists[c].pop(links());
    if (index == 0) return nullptr;
    auto& slice = at<SliceOf>(index);
    free = hold_all(slice);
    if (cell::is_whole(free, slice.blocks.load_relaxed())) heap.whole.fetch_sub_relaxed(slice.units.load_relaxed());
    return &slice;
  }

  // Whether its limit lets the heap have one more frame.
  static bool may_grow(const RecordOf& heap) {
    const u64 held = heap.held.load_relaxed();
    return limit_word::charged(held, 1) != held;
  }

  // --- Strips. ---------------------------------------------------------------------------------------------------------

  // A strip in units that the caller took from the region, the first of them `unit`; it is open, and in the caller's hands.
  SliceOf& make_strip(RegionOf& region, unsigned unit, unsigned units) {
    SliceOf& one = make_slice(region, unit, units, 0);
    one.end.store_relaxed(one.address.load_relaxed() + bytes_of_strip(units));
    one.kinds.store_relaxed(reinterpret_cast<uptr>(region.kinds) - region.address.load_relaxed() / strip::kGranule);
    one.word.store_relaxed(strip::born());
    region.has_kinds.store_relaxed(1);
    return one;
  }
  static bool is_strip(const SliceOf& one) { return one.size_class.load_relaxed() == 0; }
  using Kind = typename Env::template Atomic<u8>;
  static Kind& kind_of(const SliceOf& one, uptr block) {
    return *reinterpret_cast<Kind*>(one.kinds.load_relaxed() + block / strip::kGranule);
  }
  static Kind& kind_in(RegionOf& region, uptr block) {
    return reinterpret_cast<Kind&>(region.kinds[block % kFrameSize / strip::kGranule]);
  }
  static u64 granules_of(unsigned c) { return kSizeClasses[c].size / strip::kGranule; }
  // The kind of what begins at the address, in that region: 0 also where no block of a strip can.
  static u8 kind_at(const RegionOf& region, uptr address) {
    if (FREEWAY_UNLIKELY(address % strip::kGranule != 0)) return 0;
    return kind_in(const_cast<RegionOf&>(region), address).load_relaxed();
  }

  static bool is_live(u8 kind) { return kind - 1u < strip::kMarked - 1u; }
  // Where the block begins that the address, which is in a strip, lies in; 0: there is none. Neither the strip's word nor what
  // CPUs have in hand is asked: a block that lives is found whoever has the strip.
  static uptr begin_of(const RegionOf& region, uptr address) {
    const uptr frame = align_down(address, kFrameSize);
    for (uptr block = align_down(address, strip::kGranule); block >= frame; block -= strip::kGranule)
      if (const u8 kind = kind_at(region, block))
        return address - block < kSizeClasses[kind & ~strip::kMarked].size ? block : 0;
    return 0;
  }

  // Frees a block of class `c`, which the caller owns, in the region; false: it is free already.
  bool mark(RecordOf& heap, RegionOf& region, SliceOf& one, uptr block, unsigned c) {
    const u32 index = index_of(one), units = one.units.load_relaxed();
    u8 kind = static_cast<u8>(c);
    Env::step("own.marking");
    if (!kind_in(region, block).cas_release(kind, static_cast<u8>(c | strip::kMarked))) return false;  // [R1] pairs with [A1]
    Env::step("own.marked");
    u64 seen = one.word.load_relaxed();
    cell::Next next;
    do {
      next = strip::marked(seen, granules_of(c));
      if (Env::mutant("marked and listed by nobody")) next = {seen + granules_of(c), cell::Duty::kNone};
    } while (!one.word.cas_acq_rel(seen, next.word));  // [R1] [A2] pairs with [A1] [R2]
    // LAST TOUCH: one
    Env::step("own.counted");
    if (const u64 bit = u64{1} << c; (heap.marked.load_relaxed() & bit) == 0) heap.marked.fetch_or_relaxed(bit);
    if (next.duty == cell::Duty::kList) heap.strips.push(index, links());
    if (!cell::is_held(seen) && strip::is_whole(next.word)) heap.whole.fetch_add_relaxed(units);
    return true;
  }

  // Who has it open only: nothing will be taken off it any more, `next` is where the next block would begin. Somebody may have
  // stored its kind, and then not have taken it.
  void close(RecordOf& heap, SliceOf& one, uptr next) {
    if (next < one.end.load_relaxed()) kind_of(one, next).store_relaxed(0);
    const u64 granules = (next - one.address.load_relaxed()) / strip::kGranule;
    leave_strip(heap, one, [=](u64 word) { return strip::closed(word, granules); });
  }
  // The same, if all that was taken off it has come back.
  bool is_unused(const SliceOf& one, uptr next) const {
    return strip::marked_of(one.word.load_relaxed()) * strip::kGranule == next - one.address.load_relaxed();
  }

  // Looks through a listed strip that may have a marked block of class `c`, and offers each marked block to f(block, its class),
  // which says whether it takes it; whether there was one. `all`: through all that are listed, whatever they have.
  template <class F>
  bool gather(RecordOf& heap, unsigned c, bool all, F&& f) {
    const u64 bit = u64{1} << c;
    if (!all && (heap.marked.load_relaxed() & bit) == 0) return false;
    heap.marked.fetch_and_relaxed(~bit);
    bool found = false, has_had = false;
    const auto offer = [&](uptr block, unsigned of) {
      const bool is_taken = f(block, of);
      has_had |= is_taken && of == c;
      return is_taken;
    };
    const auto look = [&](u32 index) {
      found = true;
      auto& one = at<SliceOf>(index);
      const u64 seen = hold(one);
      if (strip::is_whole(seen))
        heap.whole.fetch_sub_relaxed(one.units.load_relaxed());
      else
        take_marked(one, offer);
      leave_strip(heap, one, strip::let_go);
    };
    if (all)
      each_listed(heap.strips, look);
    else if (const u32 index = heap.strips.pop(links()))
      look(index);
    if (has_had) heap.marked.fetch_or_relaxed(bit);
    return found;
  }

  // Holds a region that has so many free units side by side, the first at a multiple of `step`; null: no memory, or the limit.
  RegionOf* hold_region(RecordOf& heap, unsigned units, unsigned step) {
    if (RegionOf* region = hold_listed(heap, units, step)) return region;
    const u64 held = limit_word::held(heap.held.load_relaxed());
    const bool is_worth_it = heap.whole.load_relaxed() > kUnits * (1 + held / kSweptShare);
    if (is_worth_it && sweep(heap) != 0)
      if (RegionOf* region = hold_listed(heap, units, step)) return region;
    if (RegionOf* region = make_region(heap)) return region;
    sweep(heap);
    if (RegionOf* region = hold_anywhere(heap, units, step)) return region;
    return make_region(heap);
  }

  // A slice of class `c` in units that the caller took from the region, the first of them `unit`; the caller holds it, and has
  // all its blocks in hand.
  SliceOf& make_slice(RegionOf& region, unsigned unit, unsigned units, unsigned c) {
    SliceOf& slice = region.slices[unit];
    const u32 index = index_of(region), blocks = blocks_in(c, units);
    slice.self.store_relaxed(index + static_cast<u32>(&slice - region.slices) + kSlicesAt);
    slice.address.store_relaxed(region.address.load_relaxed() + unit * kUnitSize);
    slice.size.store_relaxed(kSizeClasses[c].size);
    slice.magic.store_relaxed(kSizeClasses[c].magic);
    slice.blocks.store_relaxed(blocks);
    slice.region.store_relaxed(index);
    slice.size_class.store_relaxed(static_cast<u8>(c));
    slice.unit.store_relaxed(static_cast<u8>(unit));
    slice.units.store_relaxed(static_cast<u8>(units));
    for (unsigned i = 0; i < units; ++i) region.slice_of[unit + i].store_relaxed(static_cast<u8>(unit));
    slice.word.store_relaxed(cell::kHeld);
    return slice;
  }

  static SliceOf* slice_around(RegionOf& region, uptr address) {
    const u8 first = region.slice_of[(address >> kUnitShift) % (kFrameSize / kUnitSize)].load_relaxed();
    return first == kNoSlice ? nullptr : &region.slices[first];
  }
  static u32 number_in(const SliceOf& slice, uptr address) {
    return static_cast<u32>(((address - slice.address.load_relaxed()) * slice.magic.load_relaxed()) >> 35);
  }
  // The bit of the slice's block that begins at the address; 0: none does.
  static u64 block_at(const SliceOf& slice, uptr address) {
    const u32 number = number_in(slice, address);
    const bool begins = slice.address.load_relaxed() + u64{number} * slice.size.load_relaxed() == address;
    return begins && number < slice.blocks.load_relaxed() ? u64{1} << number : 0;
  }

  // Gives back what is wholly free of the listed slices and regions; how many frames.
  std::size_t sweep(RecordOf& heap) {
    heap.whole.store_relaxed(0);
    for (unsigned c = 1; c < kClassCount; ++c)
      each_listed(heap.lists[c], [&](u32 index) {
        auto& slice = at<SliceOf>(index);
        const bool is_whole = cell::is_whole(hold(slice), slice.blocks.load_relaxed());
        if (!is_whole && !Env::mutant("retired with blocks in hand")) return let_go_slice(heap, slice);
        retire(heap, slice);
      });
    each_listed(heap.strips, [&](u32 index) {
      auto& one = at<SliceOf>(index);
      hold(one);
      leave_strip(heap, one, strip::let_go);
    });
    std::size_t frames = 0;
    each_listed(heap.lists[0], [&](u32 index) {
      auto& region = at<RegionOf>(index);
      if (!cell::is_whole(hold(region), kUnits)) return void(let_go(heap.lists[0], region));
      region.word.store_relaxed(0);
      give_back(heap, region);
      ++frames;
    });
    return frames;
  }

  // A block that is a run of frames; null: no memory, or the limit. `zero`: whether it reads as zero.
  RegionOf* make_whole(RecordOf& heap, std::size_t frames, std::size_t alignment, bool& zero) {
    RegionOf* region = make_run(heap, frames, alignment, zero);
    if (region == nullptr && sweep(heap) != 0) region = make_run(heap, frames, alignment, zero);
    if (region == nullptr) return nullptr;
    clear(*region);
    region->is_whole.store_relaxed(1);
    region->word.store_relaxed(kLive);
    return region;
  }
  // False: it was freed already.
  bool free_whole(RecordOf& heap, RegionOf& region) {
    u64 live = kLive;
    if (!region.word.cas_relaxed(live, 0)) return false;
    Env::step("own.claimed");
    give_back(heap, region);
    return true;
  }

  // Gives back all that the heap has, whatever is live in it: for who destroys it. f(region) sees each that has frames.
  template <class F>
  void give_all(RecordOf& heap, F&& f) {
    u32 next;
    for (u32 index = heap.regions.load_acquire(); index != 0; index = next) {  // [A3] pairs with [R3]
      auto& region = at<RegionOf>(index);
      next = region.next.load_relaxed();
      if (const u32 frames = region.frames.load_relaxed()) {
        f(region);
        region.word.store_relaxed(0);
        region.frames.store_relaxed(0);
        backing_->give_frames(region.address.load_relaxed(), frames);
      }
      Env::step("own.recycling");
      pool_.push(index);
    }
    heap.regions.store_relaxed(0);
    for (auto& list : heap.lists) list.take_all();
    heap.vacant.take_all();
    heap.strips.take_all();
    heap.whole.store_relaxed(0);
    heap.marked.store_relaxed(0);
  }

  // Gives back the memory of records that are no heap's.
  void purge_records(std::size_t page) { pool_.purge(page); }

  template <class F>
  void each_region(const RecordOf& heap, F&& f) const {
    for (u32 index = heap.regions.load_acquire(); index != 0;) {  // [A3] pairs with [R3]
      auto& region = at<RegionOf>(index);
      if (region.frames.load_relaxed() != 0) f(region);
      index = region.next.load_relaxed();
    }
  }

 private:
  static constexpr unsigned kTries = 4;       // regions that are looked at for units side by side
  static constexpr u64 kSweptShare = 8;       // what is wholly free is looked for once it is that share of all
  static constexpr u64 kLive = 1;             // the word of a whole block
  static constexpr u32 kSlicesAt = 2;         // lines before a region's slices

  RegionOf* hold_listed(RecordOf& heap, unsigned units, unsigned step) {
    RegionOf* unfit[kTries];
    RegionOf* found = nullptr;
    unsigned tries = 0;
    while (found == nullptr && tries < kTries) {
      const u32 index = heap.lists[0].pop(links());
      if (index == 0) break;
      auto& region = at<RegionOf>(index);
      if (cell::run(cell::free_of(hold(region)), units, step) != 0)
        found = &region;
      else
        unfit[tries++] = &region;
    }
    while (tries > 0) let_go(heap.lists[0], *unfit[--tries]);
    return found;
  }

  // The same, of all that are listed.
  RegionOf* hold_anywhere(RecordOf& heap, unsigned units, unsigned step) {
    RegionOf* found = nullptr;
    each_listed(heap.lists[0], [&](u32 index) {
      auto& region = at<RegionOf>(index);
      const bool fits = cell::run(cell::free_of(hold(region)), units, step) != 0;
      if (fits && found == nullptr)
        found = &region;
      else
        let_go(heap.lists[0], region);
    });
    return found;
  }

  // Holder only. Takes no more than it has seen counted.
  template <class F>
  void take_marked(SliceOf& one, F&& f) {
    u64 word = one.word.load_relaxed(), taken = 0;
    const uptr end = one.address.load_relaxed() + strip::length_of(word) * strip::kGranule;
    const u64 counted = strip::marked_of(word);
    u32 bytes;
    for (uptr block = one.address.load_relaxed(); block < end; block += bytes) {
      auto& kind = kind_of(one, block);
      const u8 seen = kind.load_acquire();  // [A1] pairs with [R1]
      const unsigned c = seen & ~strip::kMarked;
      bytes = kSizeClasses[c].size;
      if (FREEWAY_UNLIKELY(bytes == 0)) break;  // somebody uses a heap that is gone
      const bool is_counted = taken + granules_of(c) <= counted || Env::mutant("taken before it is counted");
      if (seen < strip::kMarked || !is_counted) continue;
      kind.store_relaxed(static_cast<u8>(c));
      Env::step("own.gathered");
      if (f(block, c))
        taken += granules_of(c);
      else
        kind.store_relaxed(seen);
    }
    while (!one.word.cas_relaxed(word, strip::taken(word, taken))) {}
  }
  // Who has it open, or holds it, only: moves its word as `move` says, and does what it says then.
  template <class Move>
  void leave_strip(RecordOf& heap, SliceOf& one, Move&& move) {
    const u32 index = index_of(one);
    u64 seen = one.word.load_relaxed();
    cell::Next next;
    do {
      next = move(seen);
      if (Env::mutant("closed and listed by nobody")) next.duty = cell::Duty::kNone;
      Env::step("own.leaving");
    } while (!one.word.cas_acq_rel(seen, next.word));  // [R2] [A1] pairs with [A2] [R1]
    Env::step("own.left");
    if (next.duty == cell::Duty::kRetire) return retire(heap, one);
    // LAST TOUCH: one
    if (next.duty == cell::Duty::kList) heap.strips.push(index, links());
  }

  // Holder only, of a slice whose blocks are all free: gives its units back to the region.
  void retire(RecordOf& heap, SliceOf& slice) {
    auto& region = at<RegionOf>(slice.region.load_relaxed());
    const unsigned unit = slice.unit.load_relaxed(), units = slice.units.load_relaxed();
    for (unsigned i = 0; i < units; ++i) region.slice_of[unit + i].store_relaxed(kNoSlice);
    if (is_strip(slice)) clear_kinds(slice);
    slice.word.store_relaxed(0);
    Env::step("own.retiring");
    free_to(heap.lists[0], region, low_bits(units) << unit);
  }

  // Holder only, of a strip that is whole.
  static void clear_kinds(SliceOf& one) {
    const uptr begin = one.address.load_relaxed();
    const uptr next = begin + strip::length_of(one.word.load_relaxed()) * strip::kGranule;
    u32 bytes;
    for (uptr block = begin; block < next; block += bytes) {
      auto& kind = kind_of(one, block);
      bytes = kSizeClasses[kind.load_relaxed() & ~strip::kMarked].size;
      if (FREEWAY_UNLIKELY(bytes == 0)) break;  // somebody uses a heap that is gone
      kind.store_relaxed(0);
    }
  }

  // What it knows of an earlier life: nobody else knows it.
  static void clear(RegionOf& region) {
    memset(static_cast<void*>(region.slice_of), kNoSlice, sizeof(region.slice_of));
    if (region.has_kinds.load_relaxed() != 0) memset(region.kinds, 0, sizeof(region.kinds));
    region.has_kinds.store_relaxed(0);
  }

  RegionOf* make_region(RecordOf& heap) {
    bool zero;
    RegionOf* region = make_run(heap, 1, 1, zero);
    if (region == nullptr) return nullptr;
    clear(*region);
    region->is_whole.store_relaxed(0);
    region->word.store_relaxed(cell::born(kUnits));
    return region;
  }

  RegionOf* make_run(RecordOf& heap, std::size_t frames, std::size_t alignment, bool& zero) {
    if (!charge(heap, frames)) return heap.denials.fetch_add_relaxed(1), nullptr;
    RegionOf* region = take_record(heap);
    Env::step("own.record");
    const uptr address = region == nullptr ? 0 : backing_->take_frames(frames, alignment, index_of(*region), zero);
    if (address == 0) {
      if (region != nullptr) heap.vacant.push(index_of(*region), links());
      heap.held.fetch_sub_relaxed(frames);
      return nullptr;
    }
    region->address.store_relaxed(address);
    region->frames.store_relaxed(static_cast<u32>(frames));
    return region;
  }
  // The frames are the caller's, and nothing in them is anybody's.
  void give_back(RecordOf& heap, RegionOf& region) {
    const u32 frames = region.frames.load_relaxed(), index = index_of(region);
    region.frames.store_relaxed(0);
    backing_->give_frames(region.address.load_relaxed(), frames);
    Env::step("own.given");
    heap.held.fetch_sub_relaxed(frames);
    heap.vacant.push(index, links());
  }

  // A record without frames, in the caller's hands; null: no memory.
  RegionOf* take_record(RecordOf& heap) {
    if (const u32 index = heap.vacant.pop(links())) return &at<RegionOf>(index);
    u32 index = pool_.pop();
    if (index == 0 && (index = backing_->make(kRecordUnits<RegionOf>)) == 0) return nullptr;
    auto& region = at<RegionOf>(index);
    region.self.store_relaxed(index);
    region.heap.store_relaxed(reinterpret_cast<u64>(&heap));
    u32 head = heap.regions.load_relaxed();
    do {
      region.next.store_relaxed(head);
      Env::step("own.adding");
    } while (!heap.regions.cas_release(head, index));  // [R3] pairs with [A3]
    return &region;
  }

  static bool charge(RecordOf& heap, u64 frames) {
    u64 seen = heap.held.load_relaxed();
    u64 next;
    do {
      next = limit_word::charged(seen, frames);
      if (next == seen) return false;
    } while (!heap.held.cas_relaxed(seen, next));
    return true;
  }

  RecordPool<Env, Backing> pool_;
};

}  // namespace freeway::heap
