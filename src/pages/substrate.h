// SPDX-License-Identifier: MIT
// Substrate: the ground for the heap and the papers: frames, the page map, memory for metadata, large blocks, options.
//
// Word      primary_: address | reserved or chosen | log2(bytes) of the primary arena's place, once (sync/once.h); the
//           loser of a race gives its reservation back. All else that start() stores has one value only, so threads may
//           repeat it
// Who       any thread, any signal handler, the child of any fork
// Lost if killed: an unpublished reservation (address space)
// Checked   tests/abi, tests/whole/signal (first_call)
#pragma once

#include "freeway/freeway.h"
#include "os/fault.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/process.h"
#include "pages/large.h"
#include "pages/metadata.h"
#include "sync/once.h"

namespace freeway {

// Compiled once, in substrate.cc.
extern template class Extent<Machine, 64>;
extern template class CommittedRange<Machine>;
extern template class Arena<Machine>;
extern template class Limits<Machine>;
extern template class Frames<Machine>;
extern template class PageMap<Machine>;
extern template class Metadata<Machine>;
extern template class LargeBlocks<Machine>;

class Substrate {  // all zero until start()
 public:
  using FrameBytes = PageMap<Machine>::FrameBytes;

  // Finds a place for the primary arena (a smaller one where addresses are short) and tells the layers about it.
  // `bytes`: of each primary frame, for the page map, or null. `huge_from`: see LargeBlocks. False: there is no
  // memory at all.
  bool start(FrameBytes* bytes, std::size_t huge_from);
  // Reads the environment; not before it can be read. `speak`: complaints go to fd 2.
  void read_environment(bool speak);

  Frames<Machine>& frames() { return frames_; }
  PageMap<Machine>& map() { return map_; }
  Metadata<Machine>& metadata() { return metadata_; }
  LargeBlocks<Machine>& large() { return large_; }
  const Options& options() const { return options_; }
  // CPUs that this process may run on, at least 1; a bound above all CPU numbers (see process::Cpus).
  unsigned cpus() const { return cpus_.usable; }
  unsigned id_bound() const { return cpus_.id_bound; }

  // `frames` frames at a multiple of `alignment` frames, all with FrameInfo::small(value) in the page map; 0 if
  // refused. They may hold old data. prepare(address) comes first and returns the frames' byte for the fast path, below
  // 0 if it was refused memory.
  template <class Prepare> uptr take_span(std::size_t frames, std::size_t alignment, u32 value, Prepare&& prepare);
  uptr take_span(std::size_t frames, std::size_t alignment, u32 value) {
    return take_span(frames, alignment, value, [](uptr) { return 0; });
  }
  void give_span(uptr address, std::size_t frames);
  // Sets both limits, in bytes (pages/limits.h).
  void limit(std::size_t soft, std::size_t hard);
  // Gives free frames back to the kernel, but for `keep` bytes, or the bytes kept ready if that is more.
  void purge_beyond(std::size_t keep);

  // Classifies a pointer to no superblock, large or huge block. Follows nothing: reads only our own maps.
  Fault classify_outside(uptr address);

  // --- Accounts. -----------------------------------------------------------------------------------------------------
  u64 large_blocks() const { return large_count_.load_relaxed(); }
  void count_large(i64 change) { large_count_.fetch_add_relaxed(static_cast<u64>(change)); }
  // Of spans.
  u64 span_frames() const { return span_frames_.load_relaxed(); }
  // Counts each frame of every arena; owns(value, address) says whether a small frame's owner knows of it. `audit`
  // holds the engine's own account already.
  template <class Owns> void audit_frames(freeway_audit_t& audit, Owns&& owns);

 private:
  // In the order in which a small program touches the fewest pages: the first chunks, between large tables the members
  // that all use, the first infos (describe.cc checks it).
  Chunk<Machine> chunks_[kPrimaryBytes / kChunkSize];
  PageMap<Machine> map_;
  Frames<Machine> frames_;
  Metadata<Machine> metadata_;
  LargeBlocks<Machine> large_;
  Options options_;
  process::Cpus cpus_ = {};
  Once<Machine> primary_;
  Atomic<u64> large_count_;
  Atomic<std::size_t> span_frames_;
  u32 frame_infos_[kPrimaryFrames] = {};  // an Atomic<u32> each (clang counts constructors against a limit)
  FurtherArenas<Machine> further_;
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
