// SPDX-License-Identifier: MIT
// dump.h: the profile as text.
//
// google/pprof's form ("heap_v2"): a line of sums, then one for each site: blocks and bytes that are live [and all that
// were allocated] @ return addresses, then /proc/self/maps. Counts are those of the samples; the reader scales them by
// the interval. Lines that begin with # are for `freeway profile`, and comments to others: freeway-profile(5). Two
// kinds of them hold the engine's own figures: the contents of its size classes, and the memory that each sampled block
// pins.
//
// Who may call  any thread, any handler, beside any other. Only write, and open, read and close of /proc/self/maps.
#pragma once

#include "base/integers.h"
#include "look/summary.h"

namespace freeway::profile {

// A block's share of its superblock's waste, if it lay at its place, and the length of its class's blocks; bytes.
struct Pin {
  u64 share, size;
};

// The engine's figures on superblocks, for all dumps. Any thread may set them, always the same.
struct Superblocks {
  void (*each_class)(TakeClass* take, void* to);
  // The pin of a sampled block of so many bytes whose place is known (profiler.h).
  Pin (*pinned)(uptr block, u32 place, u64 bytes);
};
void know_superblocks(const Superblocks* known);

// Writes it to `fd`: 0, or the error (an errno). A process that never began a profile writes an empty one.
int dump(int fd);

}  // namespace freeway::profile
