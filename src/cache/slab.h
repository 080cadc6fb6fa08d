// SPDX-License-Identifier: MIT
// Slab: one CPU's cache of free blocks, a magazine per size class, and the superblock each class is being cut from.
//
// Words     top[c]: address past the uppermost block of class c's magazine; `closed` while the class has none
//           current[c]: descriptor index of the superblock that the slab holds for class c, 0 = none
//           capacity[c]: slots of the magazine; a hint, the sentinels say the truth
// Moves     pop, push: one store of top[c] (push first fills the slot)     current: exchange, replace
// Magazine  slots between two zeros; unfilled slots are not 0. A class's first magazine lies in `small`, a grown one in
//           `big`. Growing inside `big` moves the upper zero by one store
// Invariant a slab is consistent at every instruction: each mutation is one store. Whoever may enter it (a thread of
//           its CPU in a restartable section; the thread that has a spare slab; a drainer that took it out) may stop
//           anywhere and another may enter
// Blocks    in a magazine are in somebody's hands as far as their superblock knows: their bits are clear
// Checked   tests/cache/slab_test.cc, tests/cache/rseq
#pragma once

#include <concepts>
#include <cstddef>

#include "arch/atomic.h"
#include "base/compiler.h"
#include "cache/loans.h"

namespace freeway {

// How many blocks a class's magazine has room for.
struct MagazineShape {
  u32 small;     // slots of its first magazine
  u32 big;       // slots of its largest one; == small: it never grows
  u32 small_at;  // slot index in Slab::small of its first slot
  u32 big_at;    // slot index in Slab::big
};

namespace slab_detail {

constexpr std::size_t kSmallBytes = 64 * kKiB;  // blocks that a first magazine may hold, in bytes
constexpr std::size_t kBigBytes = 512 * kKiB;
constexpr u32 kSmallSlots = 128;
constexpr u32 kBigSlots = 8192;

constexpr u32 small_slots(unsigned c) {
  return static_cast<u32>(clamp(kSmallBytes / kSizeClasses[c].size, 4, kSmallSlots));
}
constexpr u32 big_slots(unsigned c) {
  u32 slots = static_cast<u32>(clamp(kBigBytes / kSizeClasses[c].size, 4, kBigSlots));
  return slots < 4 * small_slots(c) ? small_slots(c) : slots;
}

constexpr std::array<MagazineShape, kClassCount> make_shapes() {
  std::array<MagazineShape, kClassCount> shapes{};
  u32 small = 1, big = 1;  // slot 0 is the zero below the first magazine; each one's upper zero is the next one's lower
  for (const bool borrows : {false, true})  // the classes that every process uses lie together
    for (unsigned c = 1; c < kClassCount; ++c) {
      if ((loans::cost_of(c) != 0) != borrows) continue;
      shapes[c] = {small_slots(c), big_slots(c), small, big};
      small += shapes[c].small + 1;
      if (shapes[c].big != shapes[c].small) big += shapes[c].big + 1;
    }
  shapes[0] = {0, 0, small, big};  // the totals
  return shapes;
}

}  // namespace slab_detail

inline constexpr std::array<MagazineShape, kClassCount> kMagazines = slab_detail::make_shapes();

// A count that loses one when the CPU changes in between.
class LossyCount {
 public:
  u64 operator++() {
    const u64 next = value_.load_relaxed() + 1;
    value_.store_relaxed(next);
    return next;
  }
  operator u64() const { return value_.load_relaxed(); }  // OPTIMISTIC: counters

 private:
  Atomic<u64> value_;
};

// Counts of calls that left the fast path.
struct ClassCounters {
  LossyCount slow_mallocs, slow_frees, refills, flushes;
};

struct Slab {
  static constexpr unsigned kClasses = 64;  // room for kClassCount, at a round distance

  Atomic<u64> top[kClasses];
  Atomic<u8> home[kClasses];   // see homes.h
  Atomic<u32> patience;        // foreign frees until blocks are sent home: a hint
  Atomic<u32> node;            // NUMA node on which the slab was last used off the fast path: a hint
  Atomic<u64> rest[kClasses];  // `top` of the magazines of blocks that rest (quarantine.h); else closed
  Atomic<u64> gap;             // bytes up to the next one that the profile samples (profile/gap_word.h)
  Atomic<u64> current[kClasses];
  Atomic<u64> capacity[kClasses];
  Atomic<u64> grown_bytes;             // block bytes by which magazines outgrew their first size
  Atomic<u32> refills_seen[kClasses];  // refills up to the last flush: whether the class swings
  ClassCounters counters[kClassCount];
  Atomic<u64> seen, since;  // see slab_age.h
  Atomic<u64> small[kMagazines[0].small_at];
  Atomic<u64> big[kMagazines[0].big_at];
};
// The part of a slab that the fast path reads, in words: so much there is of the null slab.
inline constexpr std::size_t kSlabHeadWords = offsetof(Slab, current) / 8;

inline constexpr u64 offset_of_current(unsigned c) { return offsetof(Slab, current) + u64{c} * 8; }
inline constexpr u64 offset_of_capacity(unsigned c) { return offsetof(Slab, capacity) + u64{c} * 8; }
inline constexpr u64 offset_of_small(unsigned c) { return offsetof(Slab, small) + u64{kMagazines[c].small_at} * 8; }
inline constexpr u64 offset_of_big(unsigned c) { return offsetof(Slab, big) + u64{kMagazines[c].big_at} * 8; }

// How many slots the magazines of class `c` have, and where they lie in a slab: the malloc's. Slabs with other
// magazines have the same words before them, and shapes of their own.
struct SlabShapes {
  static constexpr u32 small(unsigned c) { return kMagazines[c].small; }
  static constexpr u32 big(unsigned c) { return kMagazines[c].big; }
  static constexpr u64 offset_of_small(unsigned c) { return freeway::offset_of_small(c); }
  static constexpr u64 offset_of_big(unsigned c) { return freeway::offset_of_big(c); }
};

namespace slab_words {

inline Atomic<u64>* slot(u64 address) { return reinterpret_cast<Atomic<u64>*>(address); }
inline Atomic<u64>& word(Slab& slab, u64 offset) { return *slot(reinterpret_cast<u64>(&slab) + offset); }

// The `top` of class `c`; of other magazines than the ordinary one of a class, c is their row (quarantine.h).
inline Atomic<u64>& top_of(Slab& slab, unsigned c) { return word(slab, u64{c} * 8); }
// The slot on top of the class's ordinary magazine; 0: it is empty.
inline u64 on_top(const Slab& slab, unsigned c) { return slot(slab.top[c].load_relaxed() - 8)->load_relaxed(); }

}  // namespace slab_words

// The operations that magazines are written against: PlainSlab's, or RseqSlabs' (rseq_slabs.h), the same in restartable
// sections.
template <class A>
concept SlabAccess = requires(const A access, unsigned c, u64 word, void** out, void* const* blocks, u32 descriptor) {
  { access.pop(c) } -> std::same_as<u64>;
  { access.push(c, word) } -> std::same_as<bool>;
  { access.pop_batch(c, out, c) } -> std::same_as<unsigned>;
  { access.push_batch(c, blocks, c) } -> std::same_as<unsigned>;
  { access.push_run(c, word, word, c) } -> std::same_as<unsigned>;
  { access.take_current(c) } -> std::same_as<u32>;
  { access.put_current(c, descriptor) } -> std::same_as<bool>;
  { access.open(c, word, word, word) } -> std::same_as<bool>;
  { access.move(c, word, word, word, word) } -> std::same_as<bool>;
  { access.grow(word, word, word, word) } -> std::same_as<u64>;
  { access.replace(word, word, word) } -> std::same_as<bool>;
};

// For a slab that the caller has to itself (claimed, kept, or taken out by a drainer). Each operation commits with one
// store, so that a fork's child can go on with a slab whose user it does not have.
class PlainSlab {
 public:
  explicit PlainSlab(Slab& slab) : slab_(slab) {}

  // The uppermost block, 0 if there is none.
  FREEWAY_INLINE u64 pop(unsigned c) const {
    const u64 top = top_of(c).load_relaxed();
    const u64 block = slot(top - 8)->load_relaxed();
    if (FREEWAY_LIKELY(block != 0)) top_of(c).store_relaxed(top - 8);
    return block;
  }
  // False: there is no room.
  FREEWAY_INLINE bool push(unsigned c, u64 block) const {
    const u64 top = top_of(c).load_relaxed();
    if (FREEWAY_UNLIKELY(slot(top)->load_relaxed() == 0)) return false;
    slot(top)->store_relaxed(block);
    top_of(c).store_release(top + 8);  // [R1] pairs with [A1]
    return true;
  }
  // The same; also false of the block that lies on top already.
  FREEWAY_INLINE bool push_once(unsigned c, u64 block) const {
    const u64 top = top_of(c).load_relaxed();
    return FREEWAY_LIKELY(slot(top - 8)->load_relaxed() != block) && push(c, block);
  }
  // How many were taken; the uppermost comes first.
  unsigned pop_batch(unsigned c, void** out, unsigned count) const {
    u64 top = top_of(c).load_acquire();  // [A1] pairs with [R1] (in a forked child: the slots behind the top are there)
    unsigned n = 0;
    for (; n < count; ++n) {
      const u64 block = slot(top - 8)->load_relaxed();
      if (block == 0) break;
      out[n] = reinterpret_cast<void*>(block);
      top -= 8;
    }
    top_of(c).store_relaxed(top);
    return n;
  }
  // How many found room: the last ones of `blocks`, the first of them on top.
  unsigned push_batch(unsigned c, void* const* blocks, unsigned count) const {
    return push_each(c, count, [=](unsigned i) { return reinterpret_cast<u64>(blocks[i]); });
  }
  // The same of `count` (at least 1) blocks side by side, the lowest on top.
  unsigned push_run(unsigned c, u64 lowest, u64 size, unsigned count) const {
    return push_each(c, count, [=](unsigned i) { return lowest + i * size; });
  }

  // The descriptor that class c was being cut from, now the caller's; 0 if none.
  u32 take_current(unsigned c) const {
    const u64 old = slab_.current[c].load_relaxed();
    slab_.current[c].store_relaxed(0);
    return static_cast<u32>(old);
  }
  // False: it has one.
  bool put_current(unsigned c, u32 d) const { return replace(offset_of_current(c), 0, d); }
  bool replace(u64 offset, u64 expected, u64 value) const {
    if (word(offset).load_relaxed() != expected) return false;
    word(offset).store_relaxed(value);
    return true;
  }

  // The class's magazine lies at `area` from now on, if it was closed.
  bool open(unsigned c, u64 area, u64 bytes, u64 closed) const {
    if (top_of(c).load_relaxed() != closed) return false;
    const u64 first = reinterpret_cast<u64>(&slab_) + area;
    fill(first, first + bytes);
    top_of(c).store_release(first);  // [R1] pairs with [A1]
    return true;
  }
  // It moves to `distance` behind, if it lay at old_area.
  bool move(unsigned c, u64 old_area, u64 old_bytes, u64 distance, u64 new_bytes) const {
    const u64 top = top_of(c).load_relaxed();
    const u64 old = reinterpret_cast<u64>(&slab_) + old_area;
    if (top - old > old_bytes) return false;
    for (u64 at = old; at < top; at += 8) slot(at + distance)->store_relaxed(slot(at)->load_relaxed());
    fill(top + distance, old + distance + new_bytes);
    slot(old + distance + new_bytes)->store_relaxed(0);  // it may lie where a larger one once was
    top_of(c).store_release(top + distance);             // [R1] pairs with [A1]
    return true;
  }
  // Its upper end moves from `end` by so many bytes: 1; 2: it has done so; 0: the capacity is not the expected one.
  u64 grow(u64 capacity_at, u64 expected, u64 end, u64 bytes) const {
    if (word(capacity_at).load_relaxed() != expected) return 0;
    const u64 at = reinterpret_cast<u64>(&slab_) + end;
    if (slot(at)->load_relaxed() != 0) return 2;
    slot(at + bytes)->store_relaxed(0);
    fill(at + 8, at + bytes);
    slot(at)->store_release(1);  // [R1] pairs with [A1]
    return 1;
  }

 private:
  static Atomic<u64>* slot(u64 address) { return slab_words::slot(address); }
  Atomic<u64>& word(u64 offset) const { return slab_words::word(slab_, offset); }
  Atomic<u64>& top_of(unsigned c) const { return slab_words::top_of(slab_, c); }
  static void fill(u64 from, u64 to) {
    for (; from < to; from += 8) slot(from)->store_relaxed(1);
  }
  template <class Block> unsigned push_each(unsigned c, unsigned count, Block&& block) const {
    u64 top = top_of(c).load_relaxed();
    unsigned left = count;
    for (; left > 0 && slot(top)->load_relaxed() != 0; --left, top += 8) slot(top)->store_relaxed(block(left - 1));
    top_of(c).store_release(top);  // [R1] pairs with [A1]
    return count - left;
  }

  Slab& slab_;
};
static_assert(SlabAccess<PlainSlab>);

}  // namespace freeway
