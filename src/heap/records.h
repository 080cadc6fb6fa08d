// SPDX-License-Identifier: MIT
// records.h: what is known of heaps, of their regions and slices, and of what CPUs have in hand of them.
//
// All lie in a Metadata of their own, named by index, and are type-stable: a record's memory is never anything else, so who
// comes late reads and moves words of the kind that he expects. Each begins with a cell, by which lists name it.
//
// Record    a heap.  life: odd while it exists; a handle is index:26 | life:38.  lists[0]: its regions that have free units;
//           lists[c]: its slices of class c that have free blocks.  regions, caches: all it has, pushed only
// Region    a frame, cut into slices; or a run of frames, which is one block (*whole*).  A record without frames is vacant
// Slice     blocks of one class side by side in a region.  Its record lies in the region's, by its first unit
// Cache     what one CPU has in hand of one heap: for each class a slice, which it holds, and blocks of that which nobody else
//           has; for class 0 a region and units.  It belongs to one CPU number for ever, whichever heap it serves
// Plain     words that are no cell's are stored before anybody can know of the record's new life, and read by who holds it, or
//           owns a block of it
#pragma once

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
};

template <class Env>
struct alignas(64) Region : Cell<Env> {
  typename Env::template Atomic<u64> address;
  typename Env::template Atomic<u32> heap, next;  // whose it is; the next of that heap
  typename Env::template Atomic<u32> frames, is_whole;
  alignas(64) typename Env::template Atomic<u8> slice_of[64];  // of each unit: the slice's first one, or kNoSlice
  Slice<Env> slices[kUnits];
};

template <class Env>
struct Entry {
  typename Env::template Atomic<u64> base;  // address of the Slice, or Region, that is held; 0: none
  typename Env::template Atomic<u64> free;  // items of it in hand; without a base it means nothing
};

template <class Env>
struct alignas(64) Cache : Cell<Env> {
  typename Env::template Atomic<u64> cut;   // of which classes it had slices: a hint
  typename Env::template Atomic<u32> next;  // the heap's next cache
  typename Env::template Atomic<u32> id;    // the CPU's number, for ever
  alignas(64) Entry<Env> entries[kClassCount];
};

template <class Env>
struct alignas(64) Record : Cell<Env> {
  typename Env::template Atomic<u64> life;
  typename Env::template Atomic<u64> held;      // frames, and the limit, see pages/limits.h: limit_word
  typename Env::template Atomic<u64> whole;     // units of listed slices whose blocks are all free: a hint
  typename Env::template Atomic<u64> refusals;  // because of the limit
  typename Env::template Atomic<u32> regions, caches;
  typename Env::template Atomic<u32> next;  // of all that were ever made, for ever
  typename Env::template Atomic<u8> name[kNameBytes];
  alignas(64) TaggedStack<Env> lists[kClassCount];
  TaggedStack<Env> vacant;                                      // its region records without frames
  alignas(64) typename Env::template Atomic<u32> cache_of[16];  // really one for each CPU number

  static constexpr std::size_t bytes(u32 ids) { return sizeof(Record) - sizeof(cache_of) + align_up(ids * sizeof(u32), 64); }
};

template <class T>
constexpr u32 kRecordUnits = sizeof(T) / 64;

constexpr u64 handle_of(u32 index, u64 life) { return life << StackHead::kIndexBits | index; }
constexpr u32 index_of(u64 handle) { return StackHead::index(handle); }
constexpr u64 life_of(u64 handle) { return handle >> StackHead::kIndexBits; }
constexpr u64 kLifeMask = low_bits(64 - StackHead::kIndexBits);
constexpr bool exists(u64 life) { return (life & 1) != 0; }

}  // namespace freeway::heap
