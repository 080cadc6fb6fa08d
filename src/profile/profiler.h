// SPDX-License-Identifier: MIT
// profiler.h: the process's heap profile.
//
// Words     wanted: bytes between two samples on average << 2 | whether a tracer listens : 1 | whether the program wants it : 1;
//           0: no profile is made now. Any thread, by CAS
//           last_interval: of the profile that is made, or was made last: whose sites a dump shows
//           lottery: up one step for each draw. samples, lost: counts
// Tables    sites.h, live_blocks.h, stack_copies.h: made by the first start, for good
// Orders    profiler.cc:[R1] `wanted` comes after the tables; profiler.cc:[A1] who samples sees them
// Progress  wait-free, but for the first start (maps memory)       Lost if killed: see the tables
#pragma once

#include "base/compiler.h"
#include "os/machine.h"
#include "profile/live_blocks.h"
#include "profile/sites.h"
#include "profile/stack_copies.h"

namespace freeway::profile {

constexpr u64 kUsualInterval = 512 * kKiB;
constexpr u32 kUsualSites = 8192, kUsualBlocks = 65536, kCopies = 2048;
constexpr u32 kLeastEntries = 64, kMostEntries = u32{1} << 26;

// How large the tables are, in entries; powers of two, kLeastEntries to kMostEntries. Before the first start.
void set_sizes(u32 sites, u32 blocks);
// Of programs without frame pointers so many bytes of each stack are kept, a multiple of 64; 0: none. Before the first start.
void set_copy(u64 bytes);

// Begins a profile: 0, EINVAL (interval 0, or over 2^62 - 1), EBUSY (one with another interval is being made), ENOMEM. With the interval of the
// last one it goes on where that ended; else that one's samples are not shown any more. The engine is told by the caller.
int start(u64 interval);
void stop();
// The same for tracers (probes.h), where it differs from what is; whether anything changed. A program's own profile goes first.
bool follow_listeners();
// Bytes; 0: no profile is made.
u64 interval();
inline bool is_on() { return interval() != 0; }

// A gap to begin with (gap.h); not 0 but with kEveryBlock. Whether a block of so many bytes that nobody counted is to be sampled.
u64 next_gap();
bool draws(std::size_t bytes);

// A block of `bytes` was sampled: notes it under the stack of the caller, and follows it up to its free. Without room for that it
// is lost, and counted so. `place`: where it would lie if it were not sampled, in the engine's words; 0: not known.
void sampled(uptr block, std::size_t bytes, u32 place = 0);
// A block goes that may have been sampled.
void freed(uptr block);
// Whether any block was ever sampled.
bool has_samples();

// The calling thread's tag (see freeway_tag); returns the one before.
u64 tag(u64 value);

struct Figures {
  u64 interval;  // of the profile that is made, or was made last
  u64 samples, lost_stacks, lost_blocks;
};
Figures figures();
u64 now_ms();  // since the first profile was begun

// What dumps and readers from outside (freeway/debug.h) look at: tables of no entries until the first profile is begun.
struct Profile {
  Sites<Machine> sites;
  LiveBlocks<Machine> blocks;
  StackCopies<Machine> copies;
  Atomic<u64> last_interval, began_ms;
  Atomic<u64> samples, lost_stacks, lost_blocks;
};
extern FREEWAY_HIDDEN constinit Profile process_profile;

}  // namespace freeway::profile
