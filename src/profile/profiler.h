// SPDX-License-Identifier: MIT
// profiler.h: the process's heap profile.
//
// Words     wanted: its users, and bytes between two samples on average (wanted.h)
//           lottery: up one step for each draw. samples, lost: counts
// Tables    sites.h, live_blocks.h, stack_copies.h: made by the first start, for good, before it is wanted
// Progress  wait-free, but for the first start (maps memory)       Lost if killed: see the tables
#pragma once

#include "base/compiler.h"
#include "os/machine.h"
#include "profile/live_blocks.h"
#include "profile/sites.h"
#include "profile/stack_copies.h"
#include "profile/wanted.h"

namespace freeway::profile {

constexpr u64 kUsualInterval = 512 * kKiB;
constexpr u32 kUsualSites = 8192, kUsualBlocks = 65536, kCopies = 2048;
constexpr u32 kLeastEntries = 64, kMostEntries = u32{1} << 26;

// The tables' sizes, in entries; powers of two, kLeastEntries to kMostEntries. Before the first start.
void set_sizes(u32 sites, u32 blocks);
// The bytes of each stack that are kept for programs without frame pointers, a multiple of 64; 0: none. Before the
// first start.
void set_copy(u64 bytes);

// Begins a profile: 0, EINVAL (interval 0, or over 2^62 - 1), EBUSY (one with another interval is being made), ENOMEM.
// With the last one's interval it goes on where that ended; else the last one's samples are no longer shown. The caller
// tells the engine.
int start(u64 interval);
void stop();
// The same for tracers (probes.h), if it differs from the state. Whether anything changed. A program's own profile goes
// first.
bool follow_listeners();
// Bytes; 0: no profile is made.
u64 interval();
// The same, for a thread that has stored its consequences: confirms that they still hold (wanted.h: followers).
u64 confirm_interval();
inline bool is_on() { return interval() != 0; }

// Keeps what was live when most was, of the profile with this interval, from now on.
void keep_peak(u64 interval);

// A gap to begin with (gap.h); 0 only with kEveryBlock. Whether an uncounted block of so many bytes is to be sampled.
u64 next_gap();
bool draws(std::size_t bytes);

// A block of `bytes` was sampled: notes it under the stack of the caller, and follows it up to its free. Without room
// for that it counts as lost. `place`: its place if it were not sampled, in the engine's words; 0: not known.
void sampled(uptr block, std::size_t bytes, u32 place = 0);
// A block is freed that may have been sampled: forget() takes its sample out before it is given away (address 0: it has
// none); that has ended then, or is put back where the block is still live.
LiveBlock forget(uptr block);
void ended(const LiveBlock& sample);
void put_back(const LiveBlock& sample);
void freed(uptr block);
// Whether any block was ever sampled.
bool has_samples();

// The calling thread's tag (see freeway_tag); returns the one before.
u64 tag(u64 value);

struct Figures {
  u64 interval;  // of the current profile, or the last one
  u64 samples, lost_stacks, lost_blocks;
};
Figures figures();
u64 now_ms();  // since the first profile was begun

// Dumps and readers from outside (freeway/debug.h) look at this: tables of no entries until the first profile is begun.
struct Profile {
  Sites<Machine> sites;
  LiveBlocks<Machine> blocks;
  StackCopies<Machine> copies;
  Wanted<Machine> wanted;
  Peak<Machine> peak;
  Atomic<u64> began_ms;
  Atomic<u64> samples, lost_stacks, lost_blocks;
};
extern FREEWAY_HIDDEN constinit Profile process_profile;

}  // namespace freeway::profile
