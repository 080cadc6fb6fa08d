// SPDX-License-Identifier: MIT
// records.h: what is known of heaps, of their regions and slices, and of what CPUs have in hand of them.
//
// All lie in a Metadata of their own, named by index, and are type-stable: a record's memory is never anything else, so who
// comes late reads and moves words of the kind that he expects. Each begins with a cell, by which lists name it.
//
// Record    a heap.  handle: its address, and which of the record's lives it is (22 bits); 0: it does not exist.  lists[0]: its
//           regions that have free units; lists[c]: its slices of class c that have free blocks.  regions, caches: all it
//           has, pushed only
// Region    a frame, cut into slices; or a run of frames, which is one block (*whole*).  A record without frames is vacant
// Slice     blocks of one class side by side in a region.  Its record lies in the region's, by its first unit.  One of class 0 is
//           a strip (strip.h)
// Cache     what one CPU has in hand of one heap: for each class a magazine of freed blocks, and a slice, which it holds, with
//           blocks of that which nobody else has; for class 0 a region and units; a strip, and how far it is used.  It is made
//           for one CPU number, for ever, whichever heap it serves; whose it is: cache_place.h
// Plain     words that are no cell's are stored before anybody can know of the record's new life, and read by who holds it, or
//           owns a block of it
#pragma once

#include <array>

#include "heap/shapes.h"
#include "pages/metadata.h"
#include "sync/tagged_stack.h"

namespace freeway::heap {

constexpr u8 kNoSlice = 0xff;
constexpr std::size_t kNameBytes = 32;

template <class Env>
struct Cell {
  typename Env::template Atomic<u64> word;
  typename Env::template Atomic<u32> link;  // see TaggedStack
  typename Env::template Atomic<u32> self;  // its index
};

template <class Env>
struct alignas(64) Slice : Cell<Env> {
  typename Env::template Atomic<u64> address;
  typename Env::template Atomic<u32> size, magic, blocks;  // see SizeClass
  typename Env::template Atomic<u32> region;
  typename Env::template Atomic<u8> size_class, unit, units;
  typename Env::template Atomic<u64> end, kinds;  // of a strip: of its blocks; kind of address a: at kinds + a / 16
};

template <class Env>
struct alignas(64) Region : Cell<Env> {
  typename Env::template Atomic<u64> address;
  typename Env::template Atomic<u64> heap;  // whose it is: the record's address
  typename Env::template Atomic<u32> next;  // the next of that heap
  typename Env::template Atomic<u32> frames, is_whole;
  typename Env::template Atomic<u8> has_kinds;  // it has had strips
  typename Env::template Atomic<u8> is_new;     // of a bunch (record_pool.h): behind its first line it reads as zero
  typename Env::template Atomic<u32> bunch;     // how many records there are
  alignas(64) typename Env::template Atomic<u8> slice_of[64];  // of each unit: the slice's first one, or kNoSlice
  Slice<Env> slices[kUnits];
  u8 kinds[kFrameSize / strip::kGranule];  // Atomic<u8>: of each 16 bytes, 0 also where no strip is (strip.h)
};

// Blocks that a magazine has room for. It lies between two words that are 0; in its unused slots is 1.
constexpr unsigned slots_of(unsigned c) {
  const u32 size = kSizeClasses[c].size;
  return c == 0 ? 0 : size <= 128 ? 32 : size <= 512 ? 16 : size <= kKiB ? 8 : size <= 4 * kKiB ? 4 : 2;
}
// The lowest slot of each class, as an index; behind them all, how many words there are.
constexpr std::array<u16, kClassCount + 1> make_magazines() {
  std::array<u16, kClassCount + 1> first{};
  unsigned next = 1;
  for (unsigned c = 0; c < kClassCount; next += slots_of(c++) + 1) first[c] = static_cast<u16>(next);
  first[kClassCount] = static_cast<u16>(next);
  return first;
}
inline constexpr auto kFirstSlot = make_magazines();

template <class Env>
struct Hand {
  typename Env::template Atomic<u64> base;  // address of the Slice, or Region, that is held; 0: none
  typename Env::template Atomic<u64> free;  // items of it in hand, or of a strip the next address; without a base nothing
};

template <class Env>
struct Entry : Hand<Env> {
  typename Env::template Atomic<u64> top;               // address of the slot above the uppermost block
  typename Env::template Atomic<u32> size, size_class;  // of a block that strips have; else more than any strip has
};

template <class Env>
struct alignas(64) Cache : Cell<Env> {
  typename Env::template Atomic<u64> cut;   // of which classes it had slices: a hint
  typename Env::template Atomic<u32> next;  // the heap's next cache
  typename Env::template Atomic<u32> id;    // the CPU's number, for ever
  Hand<Env> strip;
  typename Env::template Atomic<u32> strips;  // how many it has had of this heap
  typename Env::template Atomic<u64> owner;   // its CPU's number, or who has seized it
  alignas(64) Entry<Env> entries[kClassCount];
  typename Env::template Atomic<u64> slots[kFirstSlot[kClassCount]];
};

template <class Env>
struct alignas(64) Record : Cell<Env> {
  typename Env::template Atomic<u64> handle;
  typename Env::template Atomic<u64> lives;     // how many it had: only its maker changes it
  typename Env::template Atomic<u64> held;      // frames, and the limit, see pages/limits.h: limit_word
  typename Env::template Atomic<u64> whole;     // units of listed slices whose blocks are all free: a hint
  typename Env::template Atomic<u64> denials;   // frames that the limit did not allow
  typename Env::template Atomic<u64> marked;    // classes of which strips have marked blocks: a hint
  typename Env::template Atomic<u32> regions, caches;
  typename Env::template Atomic<u32> next;  // of all that were ever made, for ever
  typename Env::template Atomic<u32> ids;   // CPU numbers below it may have a cache: constant
  typename Env::template Atomic<u8> name[kNameBytes];
  typename Env::template Atomic<u64> refusals;  // requests that failed because of the limit
  TaggedStack<Env> lists[kClassCount];
  TaggedStack<Env> strips;                                     // with marked blocks
  TaggedStack<Env> vacant;                                     // its region records without frames
  alignas(64) typename Env::template Atomic<u64> cache_of[8];  // really one for each CPU number: addresses

  static constexpr std::size_t bytes(u32 ids) { return sizeof(Record) - sizeof(cache_of) + align_up(ids * sizeof(u64), 64); }
};

template <class T>
constexpr u32 kRecordUnits = sizeof(T) / 64;

constexpr unsigned kAddressBits = 48;  // of a record's address, of which the lowest 6 are 0
constexpr u64 handle_of(uptr record, u64 life) {
  return record | (life & low_bits(6)) | (life >> 6 & low_bits(64 - kAddressBits)) << kAddressBits;
}
constexpr uptr record_of(u64 handle) { return handle & low_bits(kAddressBits) & ~low_bits(6); }

}  // namespace freeway::heap
