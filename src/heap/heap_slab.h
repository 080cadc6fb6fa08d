// SPDX-License-Identifier: MIT
// heap_slab.h: the slab that a heap of the program's has for a CPU: a malloc's slab, whose magazines do not grow, and a
// strip.
//
// The strip is two words: base: 0 -> the Run, which the CPU has open -> 0; and where its next block begins, while there
// is a base. It serves the sizes of which the magazine is empty, by one section (malloc_own in
// malloc/*/own_sections.S), which stores the block's kind and then moves the next one behind it.
//
// Moves     take out: base -> 0; who did it has the strip open
//           put in: next := value, then base := the strip, both while base is 0: of two that do so at once the second
//           store of one finds the base, or another next, and it closes its strip
// Who       threads of the CPU, in sections; who has seized the slab (slab_place.h)
// Lost if killed, until the heap is destroyed: a strip between take out and put in; what is seized
#pragma once

#include <cstddef>

#include "cache/rseq_sections.h"
#include "cache/slab.h"
#include "heap/records.h"
#include "os/machine.h"
#include "sync/claim.h"

namespace freeway::heap {

// Blocks of strips have at most so many bytes: larger ones would leave too much of a strip's end unused.
constexpr bool has_strips(unsigned c) { return c != 0 && kSizeClasses[c].size <= 8 * kKiB; }
// No more than about half a MiB of a heap on a CPU: what grows beyond that lives for long, and superblocks find its
// free blocks faster. Without slabs four in all: each miss looks for its one block in them.
constexpr u32 kMostStrips = 10, kMostDirect = 4;
constexpr u64 kTightFrames = 64;  // a limit of so many frames, or less, is not spent on superblocks of small blocks

struct alignas(64) HeapSlab {
  std::byte words[offsetof(Slab, big)];  // a Slab's, without the magazines that have grown
  alignas(16) Atomic<u64> strip_base;    // address of the Run that is open; 0: none
  Atomic<u64> strip_next;                // where its next block begins
  Claim<Machine> claim;                  // who has seized it (slab_place.h)
  Atomic<u32> self, link;                // its index; see TaggedStack
  Atomic<u32> next;                      // the heap's next slab
  Atomic<u32> id;                        // the CPU's number, for ever
  Atomic<u32> strips;                    // how many it has had of this heap

  Slab& slab() { return reinterpret_cast<Slab&>(*this); }
};

struct HeapShapes : SlabShapes {
  static constexpr u32 big(unsigned c) { return small(c); }
};
constexpr u64 kStripBase = offsetof(HeapSlab, strip_base), kStripNext = offsetof(HeapSlab, strip_next);
static_assert(kStripNext == (kStripBase ^ 8));

}  // namespace freeway::heap
