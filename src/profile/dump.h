// SPDX-License-Identifier: MIT
// dump.h: the profile as text.
//
// What google/pprof reads ("heap_v2"): a line of sums, then one for each site: blocks and bytes that are live [and all that were
// allocated] @ return addresses, then /proc/self/maps. Counts are those of the samples; the reader scales them by the interval.
// Lines that begin with # are for `freeway profile`, and comments to others: freeway-profile(5). Two kinds of them tell what only
// the engine knows: what its size classes hold, and what each sampled block pins.
//
// Who may call  any thread, any handler, beside any other. Only write, and open, read and close of /proc/self/maps.
#pragma once

#include "base/integers.h"

namespace freeway::profile {

// A size class that has superblocks: blocks of `from` to `size` bytes lie there.
struct ClassFigures {
  u64 from, size;
  u64 superblocks, sampled;  // all of them, and those for blocks that a profile samples
  u64 bytes, live, cached;   // of all of them, bytes; of these, those of live blocks, and of blocks in caches
};

// A block's share of what its superblock wastes, if it lay at its place, and how long blocks of its class are; bytes.
struct Pin {
  u64 share, size;
};

// What an engine tells of superblocks, wherever dumps are written. Any thread, always with the same.
struct Superblocks {
  // Calls take(to, figures) for each class.
  void (*each_class)(void (*take)(void* to, const ClassFigures& figures), void* to);
  // What a sampled block of so many bytes, whose place is known (profiler.h), pins.
  Pin (*pinned)(uptr block, u32 place, u64 bytes);
};
void know_superblocks(const Superblocks* known);

// Writes it to `fd`: 0, or the error (an errno). An empty profile, of a process that never began one, is one, too.
int dump(int fd);

}  // namespace freeway::profile
