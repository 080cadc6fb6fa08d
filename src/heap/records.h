// SPDX-License-Identifier: MIT
// records.h: what is known of the program's heaps, of their strips and large blocks.
//
// All lie in a Metadata of their own, named by index, and are type-stable: a record's memory is never anything else, so
// whoever comes late reads and moves words of the kind that it expects.
//
// Record    a heap.  handle: its address, and which of the record's lives it is (22 bits); 0: it does not exist.  runs,
//           slabs, superblocks_made: all it has, pushed only
// Run       a frame that is a strip (strip.h), with a byte for each of its 16 bytes behind the record; or a run of
//           frames, which is one block (*whole*).  A record without frames is vacant
// Frames    the page map's entry for a frame of a heap names a Run, or a superblock's descriptor: their first words are
//           the same, and say which it is, and whose
// Plain     words are stored before anybody can know of the record's new life, and read by whoever holds it, or owns a
//           block of it
#pragma once

#include <cstddef>

#include "heap/strip.h"
#include "pages/metadata.h"
#include "superblock/descriptor.h"
#include "sync/tagged_stack.h"

namespace freeway::heap {

constexpr std::size_t kNameBytes = 32;

template <class Env> struct alignas(64) Run {
  typename Env::template Atomic<u64> word;        // of a strip: strip.h; of a whole block: 1 while it lives
  typename Env::template Atomic<u64> address;     // of its frames
  typename Env::template Atomic<u32> link;        // see TaggedStack
  typename Env::template Atomic<u32> size_class;  // 0, always
  typename Env::template Atomic<u32> self, next;  // its index; the heap's next run
  typename Env::template Atomic<u32> frames, is_whole;
  typename Env::template Atomic<u64> end;  // of a strip: of its blocks
  typename Env::template Atomic<u64> heap;
  typename Env::template Atomic<u64> kinds;  // of a strip: the kind of address a is at kinds + a / 16

  static constexpr std::size_t kKinds = kFrameSize / strip::kGranule;
};

template <class Env> struct alignas(64) Record {
  typename Env::template Atomic<u64> handle;
  typename Env::template Atomic<u32> ids;        // CPU numbers below it may have a slab: constant
  typename Env::template Atomic<u32> next_heap;  // of all that were ever made, for ever
  typename Env::template Atomic<u64> lives;      // how many it had: only its maker changes it
  typename Env::template Atomic<u64> held;       // frames, and the limit, see pages/limits.h: limit_word
  typename Env::template Atomic<u64> denials;    // frames that the limit did not allow
  typename Env::template Atomic<u64> refusals;   // requests that failed because of the limit
  typename Env::template Atomic<u64> marked;     // classes of which strips have marked blocks: a hint
  typename Env::template Atomic<u32> self, link;
  TaggedStack<Env> runs, slabs, superblocks_made;  // all it has had, by their `next`
  TaggedStack<Env> strips;                         // with marked blocks
  TaggedStack<Env> vacant[2];                      // its runs without frames: strips', whole blocks'
  typename Env::template Atomic<u8> name[kNameBytes];
  typename Env::template Atomic<u32> is_sampled;           // whether it may have blocks that a profile has sampled
  typename Env::template Atomic<u64> visitor;              // visit.h
  typename Env::template Atomic<u64> age_seen, age_since;  // cache/slab_age.h

  // How many frames more it may have.
  u64 room() const { return limit_word::room(held.load_relaxed()); }
  bool charge(u64 frames) {
    u64 seen = held.load_relaxed();
    u64 now;
    do {
      now = limit_word::charged(seen, frames);
      if (now == seen) return denials.fetch_add_relaxed(1), false;
    } while (!held.cas_relaxed(seen, now));
    return true;
  }
  void uncharge(u64 frames) { held.fetch_sub_relaxed(frames); }
};

constexpr unsigned kAddressBits = 48;  // of a record's address, of which the lowest 6 are 0
constexpr u64 handle_of(uptr record, u64 life) {
  return record | (life & low_bits(6)) | (life >> 6 & low_bits(64 - kAddressBits)) << kAddressBits;
}
constexpr uptr record_of(u64 handle) { return handle & low_bits(kAddressBits) & ~low_bits(6); }

}  // namespace freeway::heap
