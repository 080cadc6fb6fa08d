// SPDX-License-Identifier: MIT
// resident.h: what the frames of a heap are, and how much of each is in memory.
//
// Address space is not memory: a superblock that was just begun has pages that nobody has touched. The kernel says of
// each page of a running process whether it is resident; a core file does not say it.
#pragma once

#include <array>
#include <optional>

#include "heap/heap.h"

namespace freeway_command {

// As map_page.h reads them.
enum Kind : unsigned { kClean, kDirty, kInHand, kHole, kLarge, kSmall };

struct Run {
  std::uint64_t frame = 0, frames = 0;
  Kind kind = kClean;
  const Superblock* superblock = nullptr;
};

// The arena's frames, in address order, without gaps.
std::vector<Run> runs_of(const Heap& heap, const ArenaView& arena);

// Bytes of superblocks, by the blocks that lie there: look/words.h.
struct Parts {
  std::uint64_t live = 0;    // of large blocks only what was touched
  std::uint64_t cached = 0;  // free blocks in per-CPU caches
  std::uint64_t stuck = 0;   // other free blocks, in superblocks that live or cached ones keep

  std::uint64_t all() const { return live + cached + stuck; }
  double live_share() const { return all() == 0 ? 0 : static_cast<double>(live) / static_cast<double>(all()); }
};

// Bytes of a heap.
struct Contents : Parts {
  std::uint64_t free = 0;      // free frames: what the next trim returns to the OS
  std::uint64_t metadata = 0;  // descriptors, slabs, maps, and tables of a heap profile
  std::array<Parts, FREEWAY_DEBUG_CLASSES> by_class = {};

  std::uint64_t all() const { return Parts::all() + free + metadata; }
};

// What is in memory. None of a core file, or where the kernel does not say it.
std::optional<Contents> resident_of(const Heap& heap);
// Address space, which is no less: for where that is not known.
Contents sizes_of(const Heap& heap);

}  // namespace freeway_command
