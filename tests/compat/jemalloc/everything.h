// SPDX-License-Identifier: MIT
// everything.h: a turn through all that may be done in a signal handler or in the child of a threaded fork.
#pragma once

#include <atomic>

#include "jemalloc/jemalloc.h"

inline std::atomic<unsigned> faults{0};  // answers that were wrong

// Asks for no memory but by what is under test, and nothing of stdio.
inline void use_everything(unsigned turn) {
  const auto demand = [](bool holds) { faults += !holds; };
  std::uint64_t epoch = 1;
  std::size_t size = sizeof epoch;
  demand(mallctl("epoch", &epoch, &size, &epoch, sizeof epoch) == 0);
  std::size_t value = 0;
  size = sizeof value;
  // Figures are sums of what is counted while others allocate: any value may come.
  demand(mallctl("stats.allocated", &value, &size, nullptr, 0) == 0 && size == sizeof value);
  std::size_t mib[4], length = 4;
  demand(mallctlnametomib("stats.arenas.0.pactive", mib, &length) == 0);
  demand(mallctlbymib(mib, length, &value, &size, nullptr, 0) == 0 && size == sizeof value);
  unsigned arena = 0;
  size = sizeof arena;
  demand(mallctl("arenas.create", &arena, &size, nullptr, 0) == 0);
  const std::size_t bytes = 1 + turn * 37 % 20000;
  auto* block = static_cast<unsigned char*>(mallocx(bytes, MALLOCX_ZERO | MALLOCX_ARENA(arena)));
  demand(block != nullptr && block[bytes - 1] == 0 && sallocx(block, 0) >= nallocx(bytes, 0));
  block[bytes - 1] = 1;
  block = static_cast<unsigned char*>(rallocx(block, bytes * 2, MALLOCX_ZERO));
  demand(block != nullptr && block[bytes - 1] == 1 && block[bytes * 2 - 1] == 0);
  sdallocx(block, bytes * 2, 0);
  // arena.<n>.destroy, by its numbers: nothing here may ask stdio.
  length = 3;
  demand(mallctlnametomib("arena.0.destroy", mib, &length) == 0);
  mib[1] = arena;
  demand(mallctlbymib(mib, length, nullptr, nullptr, nullptr, 0) == 0);
  if (turn % 50 == 0) demand(mallctl("arena.0.purge", nullptr, nullptr, nullptr, 0) == 0);
  if (turn % 50 == 25) {
    const bool on = true, off = false;
    demand(mallctl("prof.active", nullptr, nullptr, const_cast<bool*>(&on), sizeof on) == 0);
    demand(mallctl("prof.active", nullptr, nullptr, const_cast<bool*>(&off), sizeof off) == 0);
    std::size_t printed = 0;
    malloc_stats_print([](void* opaque, const char* text) { *static_cast<std::size_t*>(opaque) += text[0] != 0; },
                       &printed, "J");
    demand(printed > 50);
  }
}
