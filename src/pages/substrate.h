// SPDX-License-Identifier: MIT
// Substrate: what the heap and the papers stand on: frames, the page map, memory for metadata, large blocks, options.
//
// Word      primary_: address | reserved or chosen | log2(bytes) of the primary arena's place, once (os/once.h); the loser of
//           a race gives a reservation back. Everything else that start() stores has one value only, so it may be run by several at once
// Who       any thread, any signal handler, the child of any fork
// Lost if killed: an unpublished reservation (address space)
// Checked   tests/abi, tests/signal (first_call)
#pragma once

#include "freeway/freeway.h"
#include "os/fault.h"
#include "os/machine.h"
#include "os/once.h"
#include "os/options.h"
#include "os/process.h"
#include "pages/large.h"
#include "pages/metadata.h"

namespace freeway {

class Substrate {  // all zero until start()
 public:
  using ClassByte = PageMap<Machine>::ClassByte;

  // Finds a place for the primary arena (a smaller one where addresses are short) and tells the layers about it. `classes`:
  // a byte a primary frame for the page map, or null. `huge_from`: see LargeBlocks. False: there is no memory at all.
  bool start(ClassByte* classes, std::size_t huge_from);
  // Reads the environment; for when it can be read. `speak`: complaints go to fd 2.
  void read_environment(bool speak);

  Frames<Machine>& frames() { return frames_; }
  PageMap<Machine>& map() { return map_; }
  Metadata<Machine>& metadata() { return metadata_; }
  LargeBlocks<Machine>& large() { return large_; }
  const Options& options() const { return options_; }
  // CPUs this process may run on, at least 1, and what is above all CPU numbers (see process::Cpus).
  unsigned cpus() const { return cpus_.usable; }
  unsigned id_bound() const { return cpus_.id_bound; }

  // `frames` frames at a multiple of `alignment` frames, all with FrameInfo::small(value) in the page map; 0 if refused.
  // They may hold old data. prepare(address) comes first and says what byte the frames have for the fast path, below 0 if
  // it was refused memory.
  template <class Prepare>
  uptr take_span(std::size_t frames, std::size_t alignment, u32 value, Prepare&& prepare);
  uptr take_span(std::size_t frames, std::size_t alignment, u32 value) {
    return take_span(frames, alignment, value, [](uptr) { return 0; });
  }
  void give_span(uptr address, std::size_t frames);
  // Gives free frames back to the kernel, but for `keep` bytes, or what was asked to be ready if that is more.
  void purge_beyond(std::size_t keep);

  // What a pointer is that belongs to no superblock, large or huge block. Follows nothing: reads only our own maps.
  Fault classify_outside(uptr address);

  // --- Accounts. -----------------------------------------------------------------------------------------------------
  u64 large_blocks() const { return large_count_.load_relaxed(); }
  void count_large(i64 change) { large_count_.fetch_add_relaxed(static_cast<u64>(change)); }
  // Fills in what the substrate knows, and `small`, the account of the blocks in superblocks. The rest of `stats` is left
  // alone.
  template <class Account>
  void fill_stats(freeway_stats_t& stats, const Account& small) {
    fill_page_stats(stats);
    stats.live = small.live_bytes + stats.large + stats.huge;
    stats.live_blocks = small.live_blocks + stats.large_blocks;
    stats.cached = small.cached_bytes;
    stats.free_in_superblocks = small.free_bytes;
    stats.superblocks = small.superblocks;
    stats.slow_mallocs = small.slow_mallocs;
    stats.slow_frees = small.slow_frees;
    stats.refills = small.refills;
    stats.flushes = small.flushes;
  }
  // Counts each frame of every arena; owns(value, address) says whether a small frame's owner knows of it. What `audit`
  // holds already is the engine's own account.
  template <class Owns>
  void audit_frames(freeway_audit_t& audit, Owns&& owns);
  // Address space that was made accessible and holds no memory now: free frames that are not dirty.
  u64 retained_bytes();

 private:
  friend struct Describe;  // malloc/describe.cc
  void fill_page_stats(freeway_stats_t& stats);
  // In the order in which a small program touches the fewest pages: what all use lies between large tables.
  PageMap<Machine> map_;
  Frames<Machine> frames_;
  Metadata<Machine> metadata_;
  LargeBlocks<Machine> large_;
  Options options_;
  process::Cpus cpus_ = {};
  Once<Machine> primary_;
  Atomic<u64> large_count_;
  Atomic<std::size_t> span_frames_;
  Chunk<Machine> chunks_[kPrimaryBytes / kChunkSize];
  u32 frame_infos_[kPrimaryFrames] = {};  // an Atomic<u32> each (clang counts constructors against a limit)
};

template <class Prepare>
uptr Substrate::take_span(std::size_t frames, std::size_t alignment, u32 value, Prepare&& prepare) {
  const Run run = frames_.take(frames, alignment);
  if (!run) return 0;
  Machine::step("span.taken");
  const int size_class = prepare(run.address);
  if (size_class >= 0 && map_.set(run.address, frames, FrameInfo::small(value), static_cast<unsigned>(size_class))) {
    Machine::step("span.mapped");
    span_frames_.fetch_add_relaxed(frames);
    return run.address;
  }
  frames_.give(run.address, frames, process::coarse_time_ns());
  return 0;
}

}  // namespace freeway

#include "pages/audit_frames.h"
