// SPDX-License-Identifier: MIT
// Quarantine: freed blocks rest before malloc may hand them out again (FREEWAY_HARDEN=1).
//
// A class has a row of magazines in each slab, the *beds*. free pushes onto the first one, malloc pops from none of
// them. When the first one is full, its blocks move to the bed that was filled longest ago; if that is not empty yet,
// its blocks go to the superblocks' bitmaps first. A refill takes the blocks of one of the older half of the beds, or
// of a superblock (scattered.h). So a block rests until `beds` / 2 x `slots` more blocks of its class were freed on its
// CPU.
//
// Words     rest[c] of the slab, and for the other beds words of their own behind the slab: `top`, as in slab.h. The
//           sections and PlainSlab treat a bed like any magazine: its row is the number of its word in the slab
//           turn[c]: the next bed: a hint
// Hints     a thread that is moved to another CPU in between may find a bed full that should be empty: then the blocks
//           in its hands go to the superblocks at once
// Verified  by FREEWAY_HARDEN=1,fill: blocks that leave a bed are checked (Heap::leaves_rest)
// Lost if killed: the batch in hand
// Checked   tests/harden/quarantine_test.cc, tests/abi/hardened_test.cc, tests/whole/signal
#pragma once

#include "cache/magazines.h"
#include "os/random.h"

namespace freeway {

namespace quarantine {

constexpr u64 kMostBytes = kMiB, kUsualBytes = 64 * kKiB;  // of FREEWAY_HARDEN=1,quarantine=
constexpr u32 kMostBeds = 64;                              // beside the first one
constexpr u64 kBedBytes = 16 * kKiB;                       // blocks in a bed

// Slots of each of the class's beds: a batch.
constexpr u32 slots_of(unsigned c) { return static_cast<u32>(clamp(kBedBytes / kSizeClasses[c].size, 2, kBatchMax)); }
// Beds that hold about `bytes` of blocks, beside the first one.
constexpr u32 beds_of(unsigned c, u64 bytes) {
  return static_cast<u32>(clamp(bytes / (u64{slots_of(c)} * kSizeClasses[c].size), 0, kMostBeds));
}

// The words behind a slab. Each bed's upper zero is the next one's lower.
constexpr u64 kTops = align_up(sizeof(Slab), 64) / 8;
constexpr u64 kTurns = kTops + u64{kClassCount} * kMostBeds;
constexpr u64 kSlots = kTurns + kClassCount;
constexpr std::array<u64, kClassCount + 1> make_first_slots() {
  std::array<u64, kClassCount + 1> first{};
  u64 at = kTurns + kClassCount + 1;
  for (unsigned c = 1; c < kClassCount; ++c, first[c] = at) {
    first[c] = at;
    at += (u64{kMostBeds} + 1) * (slots_of(c) + 1);
  }
  return first;
}
inline constexpr std::array<u64, kClassCount + 1> kFirstSlot = make_first_slots();
// A slab's bytes, with its beds.
constexpr std::size_t kSlabBytes = kFirstSlot[kClassCount] * 8;

// Bed 0 is the first one, which takes the freed blocks.
constexpr unsigned row(unsigned c, u32 bed) {
  return static_cast<unsigned>(bed == 0 ? offsetof(Slab, rest) / 8 + c : kTops + u64{c} * kMostBeds + bed - 1);
}
constexpr u64 area(unsigned c, u32 bed) { return (kFirstSlot[c] + u64{bed} * (slots_of(c) + 1)) * 8; }
constexpr u64 offset_of_turn(unsigned c) { return (kTurns + c) * 8; }

inline Atomic<u64>& top(Slab& slab, unsigned c, u32 bed) { return slab_words::top_of(slab, row(c, bed)); }
// A new slab's beds have no magazines yet.
inline void close(Slab& slab, u64 closed) {
  for (unsigned c = 1; c < kClassCount; ++c)
    for (u32 bed = 1; bed <= kMostBeds; ++bed) top(slab, c, bed).store_relaxed(closed);
}

}  // namespace quarantine

// Asked of its heap, beside a MagazineHeap's.
template <class H>
concept QuarantineHeap = MagazineHeap<H> && requires(H heap, unsigned c, void* const* slots, unsigned count) {
  // These blocks, as they lie in slots, have rested.
  { heap.leaves_rest(c, slots, count) } -> std::same_as<void>;
};

template <class Heap> class Quarantine {
 public:
  // Once (or again with the same). `bytes`: about so much rests for each class and CPU.
  void init(Heap* owner, Magazines<Heap>* magazines, u64 bytes) {
    static_assert(QuarantineHeap<Heap>);
    heap_ = owner;
    magazines_ = magazines;
    bytes_ = bytes;
  }
  u32 beds(unsigned c) const { return quarantine::beds_of(c, bytes_); }

  // Puts a freed block of class `c` into the first bed; false if there is no slab.
  template <SlabAccess Access> FREEWAY_COLD bool lay_down(const Access& access, Slab& slab, unsigned c, void* block) {
    const u64 slot = slots::of(block, heap_->is_far(reinterpret_cast<uptr>(block)));
    for (unsigned tries = 0; tries < 4; ++tries) {
      if (access.push(quarantine::row(c, 0), slot)) return true;
      if (!open(access, c, 0)) turn(access, slab, c);
    }
    return access.push(quarantine::row(c, 0), slot);
  }

  // Writes the slots of blocks that have rested, at most kBatchMax, to `out`. Returns how many.
  template <SlabAccess Access>
  FREEWAY_COLD unsigned rouse(const Access& access, Slab& slab, unsigned c, random::Stream& random, void** out) {
    const u32 beds = this->beds(c), old = beds / 2;
    if (old == 0) return 0;
    const u64 turn = slab_words::word(slab, quarantine::offset_of_turn(c)).load_relaxed();
    const u32 first = random.below(old);
    for (u32 i = 0; i < old; ++i) {
      const u32 bed = static_cast<u32>((turn + (first + i) % old) % beds) + 1;
      if (const unsigned got = access.pop_batch(quarantine::row(c, bed), out, quarantine::slots_of(c))) {
        Heap::Env::step("quarantine.roused");
        heap_->leaves_rest(c, out, got);
        return got;
      }
    }
    return 0;
  }

  // Empties the beds of a slab that only the caller uses, and closes them.
  FREEWAY_COLD void empty(Slab& slab) {
    for (unsigned c = 1; c < kClassCount; ++c)
      for (u32 bed = 0; bed <= beds(c); ++bed) {
        wake(PlainSlab(slab), c, bed);
        quarantine::top(slab, c, bed).store_relaxed(heap_->closed());
      }
  }
  // Returns the blocks that `access` finds in all beds of class `c` to the superblocks.
  template <SlabAccess Access> void empty_class(const Access& access, unsigned c) {
    for (u32 bed = 0; bed <= beds(c); ++bed) wake(access, c, bed);
  }

 private:
  template <SlabAccess Access> bool open(const Access& access, unsigned c, u32 bed) {
    return access.open(quarantine::row(c, bed), quarantine::area(c, bed), u64{quarantine::slots_of(c)} * 8,
                       heap_->closed());
  }

  // Makes room in the first bed.
  template <SlabAccess Access> FREEWAY_COLD void turn(const Access& access, Slab& slab, unsigned c) {
    ++slab.counters[c].flushes;
    const u32 beds = this->beds(c);
    if (beds == 0) return wake(access, c, 0);
    auto& turn = slab_words::word(slab, quarantine::offset_of_turn(c));
    const u64 now = turn.load_relaxed();
    const u32 bed = static_cast<u32>(now < beds ? now + 1 : 1);
    turn.store_relaxed(bed);
    wake(access, c, bed);
    lay_over(access, c, bed);
  }

  // Moves the first bed's blocks to another bed.
  template <SlabAccess Access> FREEWAY_COLD void lay_over(const Access& access, unsigned c, u32 bed) {
    void* blocks[kBatchMax];
    const unsigned got = access.pop_batch(quarantine::row(c, 0), blocks, quarantine::slots_of(c));
    Heap::Env::step("quarantine.turning");
    unsigned left = got - access.push_batch(quarantine::row(c, bed), blocks, got);
    if (left > 0 && open(access, c, bed)) left -= access.push_batch(quarantine::row(c, bed), blocks, left);
    if (left > 0) end_rest(c, blocks, left);
  }

  // Empties a bed to the superblocks.
  template <SlabAccess Access> FREEWAY_COLD void wake(const Access& access, unsigned c, u32 bed) {
    void* blocks[kBatchMax];
    const unsigned got = access.pop_batch(quarantine::row(c, bed), blocks, quarantine::slots_of(c));
    Heap::Env::step("quarantine.waking");
    if (got > 0) end_rest(c, blocks, got);
  }

  FREEWAY_COLD void end_rest(unsigned c, void** blocks, unsigned count) {
    heap_->leaves_rest(c, blocks, count);
    magazines_->flush(c, blocks, count);
  }

  Heap* heap_ = nullptr;
  Magazines<Heap>* magazines_ = nullptr;
  u64 bytes_ = 0;
};

}  // namespace freeway
