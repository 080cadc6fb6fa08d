// SPDX-License-Identifier: MIT
// figures.h: Freeway's statistics as jemalloc counts them. mallctl("epoch") takes them anew; until then all names tell
// of the same moment.
//
// Words     g_taken[]: the figures; g_epoch: how often they were taken, 0: never
// Who       take: any thread, any signal handler. Two at the same time may mix theirs, figure by figure
// Orders    [F1] the epoch publishes the figures; [F2] sees them
// Progress  wait-free but for freeway_stats, which is lock-free. Lost if killed: nothing
#pragma once

#include <cstddef>
#include <cstdint>

namespace freeway_jemalloc {

// allocated <= active <= resident <= mapped. Bytes, but for `purges`.
struct Figures {
  std::uint64_t allocated;  // in the program's hands, by block size
  std::uint64_t active;     // whole pages that hold or may give blocks
  std::uint64_t metadata;
  std::uint64_t resident;  // what the kernel backs or may back
  std::uint64_t mapped;
  std::uint64_t dirty;   // free, and not given back
  std::uint64_t cached;  // in magazines
  std::uint64_t small;   // of allocated: blocks in superblocks, or with pages of their own for a guard
  std::uint64_t large;   // of allocated: the others
  std::uint64_t purges;  // how often memory was given back
  std::uint64_t purged;  // and how much, so far
};

// The figures of now.
Figures measure();

// Takes them for read(); returns the new epoch.
std::uint64_t take();
std::uint64_t epoch();

// One of those that were taken last.
std::uint64_t read(std::uint64_t Figures::* which);

std::size_t page_size();

}  // namespace freeway_jemalloc
