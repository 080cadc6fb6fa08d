// SPDX-License-Identifier: MIT
// LargeBlocks: blocks that are not in superblocks. A run of frames each; from `huge_from` frames on, a mapping of their
// own ("huge"): 256 MiB in the flagship, everything in engines whose paper goes "straight to the OS". A run that is to
// grow and has no room becomes huge, too, from `lift_from` frames on ("lifted"): its pages move, nothing is copied.
//
// Word      the FrameInfo of the block's first frame: {kind, length in frames}
// Moves     birth: 0 -> {kind, n} by the frames' owner      free, move: {kind, n} -> 0 (CAS): the winner owns the block
//           resize: {kind, n} -> {kind, m} (CAS)
//           lift: {large, n} -> 0 (CAS), pages move, 0 -> {huge, m} elsewhere; then the frames, which are zero now, are
//           given back. They stay ours until the mapping has grown: where it cannot, all that moved is copied back
//           kept: mappings that the kernel would not end (at its limit even munmap fails), a chain through their first
//           words: pushed (CAS), taken whole (exchange). They are tried again when huge blocks come and go
// Duties    who takes the entry away gives the frames back, or puts an entry back. The entry goes *before* the memory: a
//           mapping that someone else gets at the same address must not be described by ours
// Double free  the second CAS fails: seen exactly, while the frames are not a new block's
// Orders    [R1] a kept mapping's link is published with it; [A1] who takes the chain sees it
// Lost if killed: the block, lifting: its frames and the new place; address space of kept mappings in hand
// Checked   tests/model/pages_large_model.cc, tests/unit/large_test.cc, tests/abi
#pragma once

#include "pages/frames.h"
#include "pages/page_map.h"

namespace freeway {

template <class Env>
class LargeBlocks {
 public:
  static constexpr std::size_t kHugeFrames = 256 * kMiB / kFrameSize;

  // `huge_from`: frames, 1 to kHugeFrames. Where the kernel refuses such a mapping, a block below kHugeFrames is a run.
  // Shorter runs are copied: their frames have memory, new mappings get theirs page by page (docs/decisions/024).
  static constexpr std::size_t kLiftFrames = 8 * kMiB / kFrameSize;

  void init(Frames<Env>* frames, PageMap<Env>* map, std::size_t huge_from = kHugeFrames,
            std::size_t lift_from = kLiftFrames) {
    frames_ = frames;
    map_ = map;
    huge_from_ = huge_from;
    lift_from_ = lift_from;
  }

  // Whether runs lose their contents when they are freed; else when it suits.
  void empty_freed(bool empties) { empties_.store_relaxed(empties); }

  struct Block {
    uptr address = 0;  // 0: no memory
    bool zero = false;  // all of it reads as zero
  };

  // A block of `bytes` > 0 (at most PTRDIFF_MAX) at a multiple of `alignment` (a power of two).
  Block take(std::size_t bytes, std::size_t alignment) {
    const std::size_t frames = ceil_div(bytes, kFrameSize);
    if (frames > kMaxFrames || alignment > (std::size_t{1} << 46)) return {};
    // A run at a multiple of so much would need all that lies before it to be accessible.
    const bool far = alignment >= kHugeFrames * kFrameSize;
    if (frames >= huge_from_ || far) {
      const Block block = take_huge(frames, alignment);
      if (block.address != 0 || frames >= kHugeFrames || far) return block;
    }
    Run run = frames_->take(frames, clamp(alignment / kFrameSize, 1, alignment));
    if (!run) return {};
    Env::step("large.taken");
    if (map_->set(run.address, 1, FrameInfo::large(frames), 0)) return {run.address, run.dirty == 0};
    frames_->give(run.address, frames, 0);
    return {};
  }

  // Frees the block whose entry is `info`; false if somebody else did it first.
  bool give(uptr address, FrameInfo info, u64 now) {
    if (Env::mutant("entry after memory")) {
      give_memory(address, info, now);
      return map_->claim(address, info);
    }
    if (!map_->claim(address, info)) return false;
    Env::step("large.claimed");
    give_memory(address, info, now);
    return true;
  }

  // Makes the block `bytes` long where it is. False: it is as it was.
  bool resize(uptr address, FrameInfo info, std::size_t bytes, u64 now) {
    const std::size_t old_frames = info.value();
    const std::size_t frames = ceil_div(bytes, kFrameSize);
    if (frames == old_frames) return true;
    if (frames > kMaxFrames) return false;
    if (info.kind() == FrameInfo::kHuge) return frames >= least_huge() && resize_huge(address, info, frames);
    if (frames >= huge_from_) return false;
    uptr old_end = address + old_frames * kFrameSize;
    if (frames > old_frames && !frames_->take_behind(address, old_end, frames - old_frames)) return false;
    Env::step("large.extended");
    if (!map_->replace(address, info, FrameInfo::large(frames))) {  // freed under our feet: the program's error
      if (frames > old_frames) frames_->give(old_end, frames - old_frames, now);
      return false;
    }
    Env::step("large.resized");
    if (frames < old_frames) frames_->give(address + frames * kFrameSize, old_frames - frames, now);
    return true;
  }

  // Moves the pages of a huge block, or of a run that is long enough, to a mapping of `bytes` (more than it has), copying
  // nothing. 0: it is as it was.
  uptr move(uptr address, FrameInfo info, std::size_t bytes, u64 now) {
    const std::size_t frames = ceil_div(bytes, kFrameSize);
    if (frames > kMaxFrames || frames <= info.value()) return 0;
    if (info.kind() == FrameInfo::kLarge && info.value() < lift_from_) return 0;
    if constexpr (requires { Env::can_move(bytes); })
      if (!Env::can_move((frames - info.value()) * kFrameSize)) return 0;
    return info.kind() == FrameInfo::kHuge ? move_huge(address, info, frames) : lift(address, info, frames, now);
  }

  // Copies a block to another one and gives its memory back behind the copy: there is never much more than one of them.
  static void carry(uptr from, uptr to, std::size_t bytes) {
    for (; bytes > kCarryBytes; from += kCarryBytes, to += kCarryBytes, bytes -= kCarryBytes) {
      Env::copy(to, from, kCarryBytes);
      Env::purge(from, kCarryBytes);
    }
    Env::copy(to, from, bytes);
  }

  // Ends what mappings could not be ended earlier.
  void release_kept() {
    if (kept_.load_relaxed() == 0) return;
    bool refused = false;
    for (uptr here = kept_.exchange_acquire(0); here != 0;) {  // [A1] pairs with [R1]
      const uptr next = kept_at(here)->next.get();
      const std::size_t bytes = kept_at(here)->bytes.get(), charged = kept_at(here)->charged.get();
      Env::step("large.kept");
      refused = refused || !Env::release(here, bytes);
      refused ? push_kept(here, bytes, charged) : limits().uncharge(charged);
      here = next;
    }
  }

  std::size_t huge_count() const { return huge_count_.load_relaxed(); }
  std::size_t huge_bytes() const { return huge_.load_relaxed() * kFrameSize; }

 private:
  static constexpr std::size_t kCarryBytes = 2 * kMiB;

  struct Kept {
    typename Env::template Plain<uptr> next;
    typename Env::template Plain<std::size_t> bytes;
    typename Env::template Plain<std::size_t> charged;  // frames
  };
  static Kept* kept_at(uptr address) { return reinterpret_cast<Kept*>(address); }

  Limits<Env>& limits() { return frames_->limits(); }
  // Frames of a huge block that need not be copied into a run when it shrinks.
  std::size_t least_huge() const { return huge_from_ < lift_from_ ? huge_from_ : lift_from_; }

  // Address space for the block, which is then in nobody's hands but ours; 0: it is as it was.
  uptr claim_for(uptr address, FrameInfo info, std::size_t bytes) {
    const uptr target = Env::reserve(bytes, kFrameSize);
    if (target == 0) return 0;
    // Its entry, while the place is ours: from here on set() finds it. A move that is refused may make it another's.
    const bool has_entry = map_->set(target, 1, FrameInfo{}, 0);
    Env::step("large.target");
    if (has_entry && map_->claim(address, info)) return target;
    Env::release(target, bytes);
    return 0;
  }

  uptr move_huge(uptr address, FrameInfo info, std::size_t frames) {
    const std::size_t more = frames - info.value();
    if (!frames_->charge_mapping(more)) return 0;
    const uptr target = claim_for(address, info, frames * kFrameSize);
    if (target == 0) return limits().uncharge(more), 0;
    Env::step("large.moving");
    if (!Env::move(address, info.value() * kFrameSize, target, frames * kFrameSize)) {
      map_->set(address, 1, info, 0);
      return limits().uncharge(more), 0;
    }
    huge_.fetch_add_relaxed(frames - info.value());
    map_->set(target, 1, FrameInfo::huge(frames), 0);
    return target;
  }

  // What the run is charged for is the mapping's, once its pages are there.
  uptr lift(uptr run, FrameInfo info, std::size_t frames, u64 now) {
    const std::size_t old_bytes = info.value() * kFrameSize, bytes = frames * kFrameSize;
    if (!limits().has_room(frames - info.value())) return 0;  // before anything has moved
    const uptr target = claim_for(run, info, bytes);
    if (target == 0) return 0;
    Env::step("large.lifting");
    // The kernel moves pages to a place of their own length. The room behind is what it may grow into then.
    const bool fits = Env::release(target + old_bytes, bytes - old_bytes);
    if (!fits) Env::release(target, bytes);
    if (!fits || !Env::move_out(run, old_bytes, target)) {
      map_->set(run, 1, info, 0);
      return 0;
    }
    Env::step("large.lifted");
    const FrameInfo lifted = FrameInfo::huge(info.value());
    huge_.fetch_add_relaxed(info.value());
    huge_count_.fetch_add_relaxed(1);
    map_->set(target, 1, lifted, 0);
    if (Env::mutant("frames given too early")) frames_->give_zero(run, info.value(), now);
    const uptr grown = resize_huge(target, lifted, frames) ? target : move_huge(target, lifted, frames);
    if (grown == 0) {
      lower(target, run, info);
      return 0;
    }
    Env::step("large.grown");
    if (!Env::mutant("frames given too early")) frames_->give_zero(run, info.value(), now);
    if (!frames_->policy().is_never()) frames_->purge_some(frames);  // what smaller blocks left when this one was copied is of no use to it any more
    return grown;
  }

  // What was lifted goes back to its run.
  void lower(uptr lifted, uptr run, FrameInfo info) {
    carry(lifted, run, info.value() * kFrameSize);
    map_->claim(lifted, FrameInfo::huge(info.value()));
    Env::step("large.lowered");
    give_huge(lifted, info.value(), /*charged=*/0);
    map_->set(run, 1, info, 0);
  }

  Block take_huge(std::size_t frames, std::size_t alignment) {
    release_kept();
    if (!frames_->charge_mapping(frames)) return {};
    uptr address = Env::map(frames * kFrameSize, alignment < kFrameSize ? kFrameSize : alignment);
    if (address == 0) return limits().uncharge(frames), Block{};
    Env::step("large.mapped");
    if (!map_->set(address, 1, FrameInfo::huge(frames), 0)) {
      Env::release(address, frames * kFrameSize);
      return limits().uncharge(frames), Block{};
    }
    huge_.fetch_add_relaxed(frames);
    huge_count_.fetch_add_relaxed(1);
    return {address, true};
  }

  void give_memory(uptr address, FrameInfo info, u64 now) {
    if (info.kind() == FrameInfo::kHuge) return give_huge(address, info.value(), info.value());
    if (empties_.load_relaxed()) Env::purge(address, info.value() * kFrameSize);
    frames_->give(address, info.value(), now);
  }

  void give_huge(uptr address, std::size_t frames, std::size_t charged) {
    huge_.fetch_sub_relaxed(frames);
    huge_count_.fetch_sub_relaxed(1);
    if (Env::release(address, frames * kFrameSize)) {
      limits().uncharge(charged);
      return release_kept();
    }
    const std::size_t kept = Env::purge(address, frames * kFrameSize) ? clamp(charged, 0, 1) : charged;
    // The program may have protected it.
    const bool has_link = Env::commit(address, kFrameSize);
    limits().uncharge(charged - (has_link ? kept : 0));
    if (has_link) push_kept(address, frames * kFrameSize, kept);
  }

  void push_kept(uptr address, std::size_t bytes, std::size_t charged) {
    uptr top = kept_.load_relaxed();
    do {
      kept_at(address)->next.set(top);
      kept_at(address)->bytes.set(bytes);
      kept_at(address)->charged.set(charged);
      Env::step("large.keep");
    } while (!kept_.cas_release(top, address));  // [R1] pairs with [A1]
  }

  bool resize_huge(uptr address, FrameInfo info, std::size_t frames) {
    const std::size_t more = frames > info.value() ? frames - info.value() : 0;
    if (!frames_->charge_mapping(more)) return false;
    if (!map_->claim(address, info)) return limits().uncharge(more), false;
    Env::step("large.resizing");
    const std::size_t bytes = frames * kFrameSize, old_bytes = info.value() * kFrameSize;
    const bool done = Env::resize(address, old_bytes, bytes);
    if (done) huge_.fetch_add_relaxed(frames - info.value());
    limits().uncharge(!done ? more : bytes < old_bytes ? info.value() - frames : 0);
    // A mapping that cannot be cut (at the kernel's limit) stays as long as it is.
    if (!done && bytes < old_bytes) Env::purge(address + bytes, old_bytes - bytes);
    map_->set(address, 1, done ? FrameInfo::huge(frames) : info, 0);
    return done || bytes < old_bytes;
  }

  Frames<Env>* frames_ = nullptr;
  PageMap<Env>* map_ = nullptr;
  std::size_t huge_from_ = 0, lift_from_ = 0;
  typename Env::template Atomic<std::size_t> huge_, huge_count_;  // frames, blocks
  typename Env::template Atomic<uptr> kept_;
  typename Env::template Atomic<bool> empties_;
};

}  // namespace freeway
