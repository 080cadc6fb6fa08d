// SPDX-License-Identifier: MIT
// figures.h: what a heap adds up to: as freeway_stats says it of the own process, and by size class.
#pragma once

#include <array>
#include <optional>

#include "freeway/freeway.h"
#include "heap/heap.h"

namespace freeway_command {

freeway_stats_t stats_of(const Walk& walk);

struct ClassFigures : freeway::look::ClassAccount {  // blocks = live + cached + free
  std::uint64_t bytes = 0;                           // of the superblocks
  std::uint64_t waste = 0;                           // of these, bytes that are not live
  // Superblocks of which so many tenths are live: [0]: less than one … [9]: nine or all.
  std::uint64_t live_tenths[10] = {};
};
// By class; class 0 is empty.
std::vector<ClassFigures> class_figures_of(const Heap& heap);

// Bytes of the whole process that are in memory; none of a core file.
std::optional<std::uint64_t> resident_bytes(const Memory& memory);
// Why per-CPU caches are not used; empty: they are, or the text cannot be read (of a core file without its library).
std::string rseq_reason_of(const Walk& walk);

}  // namespace freeway_command
