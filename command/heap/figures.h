// SPDX-License-Identifier: MIT
// figures.h: what a heap adds up to: as freeway_stats says it of the own process, and by size class.
#pragma once

#include <array>
#include <optional>

#include "freeway/freeway.h"
#include "heap/heap.h"

namespace freeway_command {

freeway_stats_t stats_of(const Heap& heap);

struct ClassFigures {
  std::uint64_t superblocks = 0, blocks = 0, live = 0, cached = 0, free = 0;  // counts; blocks = live + cached + free
  std::uint64_t bytes = 0;                                                    // of the superblocks
  std::uint64_t waste = 0;                                                    // of these, bytes that are not live
  // Superblocks of which so many tenths are live, or live or cached: [0]: less than one … [9]: nine or all.
  std::array<std::uint64_t, 10> live_tenths = {}, taken_tenths = {};
};
// By class; class 0 is empty.
std::vector<ClassFigures> class_figures_of(const Heap& heap);

// Free frames that are accessible and read as zero: address space without memory.
std::uint64_t retained_bytes(const Heap& heap);
// Bytes of the whole process that are in memory; none of a core file.
std::optional<std::uint64_t> resident_bytes(const Memory& memory);
// "rseq", "claimed", "hardened", as freeway_stats_t's JSON says.
std::string mode_of(const Heap& heap);
// Why per-CPU caches are not used; empty: they are, or the text cannot be read (of a core file without its library).
std::string rseq_reason_of(const Heap& heap);

}  // namespace freeway_command
