// SPDX-License-Identifier: MIT
// LargeBlocks: blocks that are not in superblocks. A run of frames each; from `huge_from` frames on, a mapping of their
// own ("huge"): 256 MiB in Freeway, everything in engines whose paper goes "straight to the OS". A run that must grow
// and has no room becomes huge, too, from `lift_from` frames on ("lifted"): its pages move, nothing is copied.
//
// Word      the FrameInfo of the block's first frame: {kind, guarded, length in frames}
// Moves     birth: 0 -> {kind, n} by the frames' owner      free, move: {kind, n} -> 0 (CAS): the winner owns the block
//           resize: {kind, n} -> {kind, m} (CAS)
//           lift: {large, n} -> 0 (CAS), pages move, 0 -> {huge, m} elsewhere; then the frames, which are zero now, are
//           given back. They stay ours until the mapping has grown: if it cannot grow, all moved pages are copied back
//           blocks with a guard are resized in hand: {kind, n} -> 0 (CAS) -> {kind, m}
// Kept      (kept_memory.h) mappings that the kernel would not end, and frames whose last page it would not open again
//           (guarded_ends.h): tried again when huge blocks, or blocks with a guard, come and go
// Duties    the thread that takes the entry away gives the frames back, or puts an entry back. The entry goes *before*
//           the memory: our entry must not describe another's mapping at the same address
// Double free  the second CAS fails: detected exactly, while the frames are not a new block's
// Lost if killed: the block, also while it is resized if it is guarded; lifting: its frames and the new place; address
//           space of kept mappings in hand
// Checked   tests/pages/large_model.cc, tests/pages/large_test.cc, tests/pages/large_guarded_test.cc, tests/abi
#pragma once

#include "pages/frames.h"
#include "pages/guarded_ends.h"
#include "pages/kept_memory.h"
#include "pages/page_map.h"

namespace freeway {

template <class Env> class LargeBlocks {
 public:
  static constexpr std::size_t kHugeFrames = 256 * kMiB / kFrameSize;

  // `huge_from`: frames, 1 to kHugeFrames. If the kernel refuses such a mapping, a block below kHugeFrames becomes a
  // run. Shorter runs than kLiftFrames are copied: their frames have memory, new mappings get theirs page by page
  // (decision 024).
  static constexpr std::size_t kLiftFrames = 8 * kMiB / kFrameSize;

  void init(Frames<Env>* frames, PageMap<Env>* map, std::size_t huge_from = kHugeFrames,
            std::size_t lift_from = kLiftFrames) {
    frames_ = frames;
    map_ = map;
    huge_from_ = huge_from;
    lift_from_ = lift_from;
  }

  // Whether runs lose their contents as soon as they are freed; else the purge policy decides.
  void empty_freed(bool empties) { empties_.store_relaxed(empties); }

  // From now on new blocks end with an inaccessible page of `bytes` bytes.
  void guard_ends(std::size_t bytes) { ends_.start(bytes); }
  // Bytes of a block that the program may use.
  std::size_t bytes_of(FrameInfo info) const { return ends_.usable(info); }
  std::size_t guarded_count() const { return ends_.count(); }
  // Frames of a block of `bytes` like the one whose entry is `info`: it does not get a guard when it is resized.
  std::size_t frames_for(std::size_t bytes, FrameInfo info) const {
    return ceil_div(bytes + (info.is_guarded() ? ends_.bytes() : 0), kFrameSize);
  }

  struct Block {
    uptr address = 0;   // 0: no memory
    bool zero = false;  // all of it reads as zero
  };

  // A block of `bytes` > 0 (at most PTRDIFF_MAX) at a multiple of `alignment` (a power of two).
  Block take(std::size_t bytes, std::size_t alignment) {
    return FREEWAY_LIKELY(ends_.bytes() == 0) ? take_as(bytes, alignment, /*guarded=*/false)
                                              : take_guarded(bytes, alignment);
  }

  // Frees the block whose entry is `info`; false if another thread did it first.
  bool give(uptr address, FrameInfo info, u64 now) {
    if (!map_->claim(address, info)) return false;
    Env::step("large.claimed");
    ends_.dismiss(info);
    give_memory(address, info, now);
    return true;
  }

  // Makes the block `bytes` long where it is. False: it is as it was.
  FREEWAY_NOINLINE bool resize(uptr address, FrameInfo info, std::size_t bytes, u64 now) {
    const std::size_t old_frames = info.frames();
    const std::size_t frames = frames_for(bytes, info);
    if (frames == old_frames) return true;
    if (frames > kMaxFrames) return false;
    if (info.kind() == FrameInfo::kHuge) return frames >= least_huge() && resize_huge(address, info, frames);
    if (frames >= huge_from_) return false;
    if (info.is_guarded()) return resize_guarded(address, info, frames, now);
    uptr old_end = address + old_frames * kFrameSize;
    if (frames > old_frames && !frames_->take_behind(address, old_end, frames - old_frames)) return false;
    Env::step("large.extended");
    if (!map_->replace(address, info,
                       FrameInfo::large(frames))) {  // freed by another thread meanwhile: the program's error
      if (frames > old_frames) frames_->give(old_end, frames - old_frames, now);
      return false;
    }
    Env::step("large.resized");
    if (frames < old_frames) frames_->give(address + frames * kFrameSize, old_frames - frames, now);
    return true;
  }

  // Moves the pages of a huge block, or of a run that is long enough, to a mapping of `bytes` (more than it has),
  // copying nothing. 0: it is as it was.
  FREEWAY_NOINLINE uptr move(uptr address, FrameInfo info, std::size_t bytes, u64 now) {
    const std::size_t frames = frames_for(bytes, info);
    if (frames > kMaxFrames || frames <= info.frames()) return 0;
    if (info.kind() == FrameInfo::kLarge && info.frames() < lift_from_) return 0;
    if constexpr (requires { Env::can_move(bytes); })
      if (!Env::can_move((frames - info.frames()) * kFrameSize)) return 0;
    return info.kind() == FrameInfo::kHuge ? move_huge(address, info, frames) : lift(address, info, frames, now);
  }

  // Copies a block to another one and gives its memory back behind the copy: there is never much more than one of them.
  // If the policy gives nothing back by itself, it only copies.
  void carry(uptr from, uptr to, std::size_t bytes) const {
    const bool purges = !frames_->policy().is_never();
    for (; bytes > kCarryBytes; from += kCarryBytes, to += kCarryBytes, bytes -= kCarryBytes) {
      Env::copy(to, from, kCarryBytes);
      if (purges) Env::purge(from, kCarryBytes);
    }
    Env::copy(to, from, bytes);
  }

  // Whether a block in hand, of which the first `bytes` were not written, has no memory there yet; false for lengths
  // that carry only copies.
  bool is_new(uptr address, std::size_t bytes) const {
    if (bytes <= kCarryBytes) return false;
    Arena<Env>* arena = frames_->arena_of(address);
    return arena == nullptr || !arena->any_dirty(address, bytes / kFrameSize);
  }

  // Ends the mappings that could not be ended earlier.
  void release_kept() {
    kept_.retry(
        [this](uptr address, std::size_t bytes, std::size_t charged) { return end_kept(address, bytes, charged); });
  }

  std::size_t huge_count() const { return huge_count_.load_relaxed(); }
  std::size_t huge_bytes() const { return huge_.load_relaxed() * kFrameSize; }

 private:
  static constexpr std::size_t kCarryBytes = 2 * kMiB;

  FREEWAY_NOINLINE Block take_guarded(std::size_t bytes, std::size_t alignment) {
    release_kept();
    if (!ends_.admit()) return take_as(bytes, alignment, /*guarded=*/false);
    const Block block = take_as(bytes + ends_.bytes(), alignment, /*guarded=*/true);
    if (block.address == 0) ends_.dismiss(FrameInfo{}.guarded(true));
    return block;
  }

  Block take_as(std::size_t bytes, std::size_t alignment, bool guarded) {
    const std::size_t frames = ceil_div(bytes, kFrameSize);
    if (frames > kMaxFrames || alignment > (std::size_t{1} << 46)) return {};
    // A run at such a multiple would need all memory before it to be accessible.
    const bool far = alignment >= kHugeFrames * kFrameSize;
    if (frames >= huge_from_ || far) {
      const Block block = take_huge(frames, alignment, guarded);
      if (block.address != 0 || frames >= kHugeFrames || far) return block;
    }
    Run run = frames_->take(frames, clamp(alignment / kFrameSize, 1, alignment));
    if (!run) return {};
    Env::step("large.taken");
    const FrameInfo info = FrameInfo::large(frames).guarded(guarded);
    ends_.close(run.address, info, run.dirty == 0);
    if (map_->set(run.address, 1, info, 0)) return {run.address, run.dirty == 0};
    give_run(run.address, info, 0);
    return {};
  }

  Limits<Env>& limits() { return frames_->limits(); }

  // A huge block of at least so many frames need not be copied into a run when it shrinks.
  std::size_t least_huge() const { return huge_from_ < lift_from_ ? huge_from_ : lift_from_; }

  // The same for a run with a guard, in hand: no other thread owns the end that is closed or the one that is opened.
  bool resize_guarded(uptr address, FrameInfo info, std::size_t frames, u64 now) {
    const std::size_t old_frames = info.frames();
    const bool grows = frames > old_frames;
    const std::size_t fewer = grows ? old_frames : frames, change = (grows ? frames : old_frames) - fewer;
    const uptr rest = address + fewer * kFrameSize;  // the frames that are taken, or given back
    if (grows && !frames_->take_behind(address, rest, change)) return false;
    Env::step("ends.extended");
    const bool claimed = map_->claim(address, info);
    const bool done = claimed && ends_.open(address, info);
    const FrameInfo resized = done ? info.with(frames) : info;
    if (done) ends_.close(address, resized);
    if (claimed) map_->set(address, 1, resized, 0);
    Env::step("ends.resized");
    if (done != grows) frames_->give(rest, change, now);
    return done;
  }

  // Address space for the block, which then only this thread has in hand; 0: it is as it was.
  uptr claim_for(uptr address, FrameInfo info, std::size_t bytes) {
    const uptr target = Env::reserve(bytes, kFrameSize);
    if (target == 0) return 0;
    // Its entry, while the place is ours: from here on set() finds it. After a refused move the place may be another's.
    const bool has_entry = map_->set(target, 1, FrameInfo{}, 0);
    Env::step("large.target");
    if (has_entry && map_->claim(address, info)) {
      if (ends_.open(address, info)) return target;
      map_->set(address, 1, info, 0);
    }
    Env::release(target, bytes);
    return 0;
  }

  uptr move_huge(uptr address, FrameInfo info, std::size_t frames) {
    const std::size_t more = frames - info.frames();
    if (!frames_->charge_mapping(more)) return 0;
    const uptr target = claim_for(address, info, frames * kFrameSize);
    if (target == 0) return limits().uncharge(more), 0;
    Env::step("large.moving");
    if (!Env::move(address, info.frames() * kFrameSize, target, frames * kFrameSize)) {
      put_back(address, info);
      return limits().uncharge(more), 0;
    }
    huge_.fetch_add_relaxed(frames - info.frames());
    put_back(target, info.with(frames));
    return target;
  }

  // The entry of a block in hand, which has one already.
  void put_back(uptr address, FrameInfo info) {
    ends_.close(address, info);
    map_->set(address, 1, info, 0);
  }

  // The run's charge passes to the mapping, once its pages are there.
  uptr lift(uptr run, FrameInfo info, std::size_t frames, u64 now) {
    const std::size_t old_bytes = info.frames() * kFrameSize, bytes = frames * kFrameSize;
    if (!limits().has_room(frames - info.frames())) return 0;  // before anything has moved
    const uptr target = claim_for(run, info, bytes);
    if (target == 0) return 0;
    Env::step("large.lifting");
    // The kernel moves pages to a place of their own length. The mapping may then grow into the room behind.
    const bool fits = Env::release(target + old_bytes, bytes - old_bytes);
    if (!fits) Env::release(target, bytes);
    if (!fits || !Env::move_out(run, old_bytes, target)) {
      put_back(run, info);
      return 0;
    }
    Env::step("large.lifted");
    const FrameInfo lifted = info.as_huge();  // its end is not closed yet
    huge_.fetch_add_relaxed(info.frames());
    huge_count_.fetch_add_relaxed(1);
    map_->set(target, 1, lifted, 0);
    const uptr grown = resize_huge(target, lifted, frames) ? target : move_huge(target, lifted, frames);
    if (grown == 0) {
      lower(target, run, info);
      return 0;
    }
    Env::step("large.grown");
    frames_->give_zero(run, info.frames(), now);
    // Runs that smaller blocks left when this one was copied are of no use to it any more.
    if (!frames_->policy().is_never()) frames_->purge_some(frames);
    return grown;
  }

  // Returns the pages of a lifted block to its run.
  void lower(uptr lifted, uptr run, FrameInfo info) {
    carry(lifted, run, ends_.usable(info));
    map_->claim(lifted, info.as_huge());
    Env::step("large.lowered");
    give_huge(lifted, info.frames(), /*charged=*/0);
    put_back(run, info);
  }

  Block take_huge(std::size_t frames, std::size_t alignment, bool guarded) {
    release_kept();
    if (!frames_->charge_mapping(frames)) return {};
    uptr address = Env::map(frames * kFrameSize, alignment < kFrameSize ? kFrameSize : alignment);
    if (address == 0) return limits().uncharge(frames), Block{};
    Env::step("large.mapped");
    frames_->huge_pages().advise(address, frames * kFrameSize);
    const FrameInfo info = FrameInfo::huge(frames).guarded(guarded);
    ends_.close(address, info, /*fresh=*/true);
    if (!map_->set(address, 1, info, 0)) {
      Env::release(address, frames * kFrameSize);
      return limits().uncharge(frames), Block{};
    }
    huge_.fetch_add_relaxed(frames);
    huge_count_.fetch_add_relaxed(1);
    return {address, true};
  }

  void give_memory(uptr address, FrameInfo info, u64 now) {
    if (info.kind() == FrameInfo::kHuge) return give_huge(address, info.frames(), info.frames());
    give_run(address, info, now);
  }

  void give_run(uptr address, FrameInfo info, u64 now) {
    const std::size_t frames = info.frames();
    if (empties_.load_relaxed()) Env::purge(address, frames * kFrameSize);
    if (ends_.open(address, info)) return frames_->give(address, frames, now);
    // The frame whose last page stays closed waits; if the frame is one page, it has no room for a link and is lost.
    if (frames > 1) frames_->give(address, frames - 1, now);
    if (ends_.bytes() < kFrameSize) kept_.push(address + (frames - 1) * kFrameSize, kFrameSize, /*charged=*/0);
  }

  // Whether a kept piece is given back now.
  bool end_kept(uptr address, std::size_t bytes, std::size_t charged) {
    if (frames_->arena_of(address) == nullptr) {
      const bool ended = Env::release(address, bytes);
      if (ended) limits().uncharge(charged);
      return ended;
    }
    if (!ends_.open(address, FrameInfo::large(1).guarded(true))) return false;
    frames_->give(address, 1, 0);
    return true;
  }

  void give_huge(uptr address, std::size_t frames, std::size_t charged) {
    huge_.fetch_sub_relaxed(frames);
    huge_count_.fetch_sub_relaxed(1);
    if (Env::release(address, frames * kFrameSize)) {
      limits().uncharge(charged);
      return release_kept();
    }
    const bool purged = Env::purge(address, frames * kFrameSize);
    // The program may have protected it.
    const bool has_link = Env::commit(address, kFrameSize);
    const std::size_t kept = !purged ? charged : has_link ? clamp(charged, 0, 1) : 0;  // frames that are backed for now
    limits().uncharge(charged - kept);
    if (has_link) kept_.push(address, frames * kFrameSize, kept);
  }

  bool resize_huge(uptr address, FrameInfo info, std::size_t frames) {
    const std::size_t more = frames > info.frames() ? frames - info.frames() : 0;
    if (!frames_->charge_mapping(more)) return false;
    if (!map_->claim(address, info)) return limits().uncharge(more), false;
    Env::step("large.resizing");
    const std::size_t bytes = frames * kFrameSize, old_bytes = info.frames() * kFrameSize;
    const bool open = ends_.open(address, info), done = open && Env::resize(address, old_bytes, bytes);
    if (done) huge_.fetch_add_relaxed(frames - info.frames());
    limits().uncharge(!done ? more : bytes < old_bytes ? info.frames() - frames : 0);
    // A mapping that cannot be cut (at the kernel's limit) stays as long as it is.
    if (!done && bytes < old_bytes) Env::purge(address + bytes, old_bytes - bytes);
    put_back(address, done ? info.with(frames) : info);
    return done || bytes < old_bytes;
  }

  Frames<Env>* frames_ = nullptr;
  PageMap<Env>* map_ = nullptr;
  std::size_t huge_from_ = 0, lift_from_ = 0;
  typename Env::template Atomic<std::size_t> huge_, huge_count_;  // frames, blocks
  KeptMemory<Env> kept_;
  typename Env::template Atomic<bool> empties_;
  GuardedEnds<Env> ends_;
};

}  // namespace freeway
