// SPDX-License-Identifier: MIT
// Arena: a range of frames (64 KiB), handed out in runs.
//
// Words     per chunk of 64 frames: used (1 = the frame has an owner) and dirty (1 = may hold something other than
//           zeros)
// Moves     take: CAS on used sets a run's bits      give, trim: dirty bits set, then fetch_and clears used bits
//           purge: take a free dirty run, give its memory back, clear its dirty bits, clear its used bits
// Invariant a dirty bit is changed only by the owner of its frame; a free frame with a clear dirty bit reads as zero
// Who       any thread, any signal handler
// Orders    [R1] giving a run publishes its contents (and its dirty bits); [A1] the taker sees them.
//           [R2] a taker that moves the hint over a chunk and then finds the chunk full has published that move to
//           every thread that gives a frame of the chunk after that, [A2]
// Search    from the lowest chunk that may have a free frame, in address order: full chunks stay full, empty ones go.
//           Below `hint_` no frame is free, but for a moment: the thread that moves it over a chunk looks at the chunk
//           once more, a thread that gives a frame looks at the hint; one of the two sees the other and moves it back
// Longer    runs of more than 64 frames begin behind the last used frame of a chunk, take chunk after chunk upwards and
//           roll back when one is not free; so does a shorter one that fits into no chunk, but across the end of one
// Holes     frames that can never be accessible (committed_range.h) look free until a run touches them; its taker then
//           sets the used bits of all the hole's frames in its chunks, for ever, gives the others back as they were,
//           and tries again. The bits only save others the attempt: each run is checked after its memory was asked for
// Progress  lock-free       Lost if killed: the run in hand. A thread killed between a chunk's word and the hint may
//           hide the free frames of that one chunk until another frame is given back there or below
// Checked   tests/pages/arena_model.cc, tests/pages/chunk_word_test.cc, tests/pages/arena_test.cc
#pragma once

#include "base/check.h"
#include "pages/chunk_word.h"
#include "pages/committed_range.h"
#include "pages/huge_pages.h"
#include "size/size_classes.h"

namespace freeway {

template <class Env> struct Chunk {
  typename Env::template Atomic<u64> used;
  typename Env::template Atomic<u64> dirty;
};

// A run of frames in its owner's hands.
struct Run {
  uptr address = 0;      // 0: none
  unsigned dirty = 0;    // how many of its frames may hold something; 0 = all of it reads as zero
  bool refused = false;  // none because the kernel refused memory: other places in this arena will not help
  bool ended = false;    // none because the arena has no place for more: only its lower frames can be had
  bool hole = false;     // none because it touched a hole, which is marked now: worth trying again
  explicit operator bool() const { return address != 0; }
};

// How a purge ended: few enough frames are dirty; there was nothing more to purge; the kernel refused.
enum class PurgeEnd { kReached, kExhausted, kRefused };

template <class Env> class Arena {
 public:
  // Once, before any other thread sees the arena. `chunks` points at `bytes` / 4 MiB zeroed chunks.
  void init(Space space, std::size_t bytes, Chunk<Env>* chunks) {
    range_.init(space, bytes);
    chunks_ = chunks;
    count_ = bytes / kChunkSize;
  }

  uptr base() const { return range_.base(); }
  std::size_t bytes() const { return range_.bytes(); }
  bool contains(uptr address) const { return range_.contains(address); }
  std::size_t committed() const { return range_.committed(); }
  NewMemory<Env>& new_memory() { return new_memory_; }
  std::size_t chunk_count() const { return count_; }
  u64 used_word(std::size_t chunk) const { return chunks_[chunk].used.load_relaxed(); }
  u64 dirty_word(std::size_t chunk) const { return chunks_[chunk].dirty.load_relaxed(); }

  // The frames of a chunk that can never be accessible, as bits.
  u64 holes_of(std::size_t chunk) const {
    u64 bits = 0;
    range_.each_hole([&](std::size_t from, std::size_t to) {
      const std::size_t begin = chunk * kChunkSize;
      const std::size_t first = clamp(from, begin, begin + kChunkSize), last = clamp(to, first, begin + kChunkSize);
      bits |= low_bits(static_cast<unsigned>((last - begin) / kFrameSize)) &
              ~low_bits(static_cast<unsigned>((first - begin) / kFrameSize));
    });
    return bits;
  }

  // Frames below the watermark that lie in holes.
  std::size_t hole_frames() const {
    std::size_t frames = 0;
    range_.each_hole([&](std::size_t from, std::size_t to) { frames += (to - from) / kFrameSize; });
    return frames;
  }

  // Frames that are free and may hold something; exact while no thread moves.
  std::size_t free_and_dirty() const {
    std::size_t frames = 0;
    for (std::size_t c = 0; c < used_chunks(); ++c) frames += popcount(dirty_word(c) & ~used_word(c));
    return frames;
  }

  // The end of the used frames, in frames from the start; a run whose owner vanished may lie above the accessible
  // range.
  std::size_t end_of_used() const {
    const std::size_t accessible = ceil_div(range_.committed(), kFrameSize);
    std::size_t chunk = count_;
    while (chunk * kChunkFrames > accessible && used_word(chunk - 1) == 0) --chunk;
    const std::size_t begin = (chunk == 0 ? 0 : chunk - 1) * kChunkFrames;  // of the last chunk in question
    const bool above =
        chunk * kChunkFrames > accessible && (accessible <= begin || used_word(chunk - 1) >> (accessible - begin) != 0);
    return above ? chunk * kChunkFrames : accessible;
  }

  // A run of `frames` frames whose address is a multiple of `alignment` frames (a power of two).
  Run take(std::size_t frames, std::size_t alignment) {
    if (frames > kChunkFrames || alignment > kChunkFrames) return take_long(frames, alignment);
    return take_short(frames, alignment);
  }

  // Gives the frames [address, address + frames) back, all of them dirty now, or `zero`: their memory is gone already.
  // They need not be a whole run (trim).
  void give(uptr address, std::size_t frames, bool zero = false) {
    each_part(address, frames, [this, zero](std::size_t chunk, u64 mask) {
      auto& dirty = chunks_[chunk].dirty;
      if (zero) dirty.fetch_and_relaxed(~mask);
      else if ((dirty.load_relaxed() & mask) != mask) dirty.fetch_or_relaxed(mask);
      Env::step("arena.giving");
      release_bits(chunk, mask);
      return true;
    });
  }

  // Gives an untouched run back as it was when it was taken.
  void put_back(uptr address, std::size_t frames) {
    each_part(address, frames, [this](std::size_t chunk, u64 mask) {
      release_bits(chunk, mask);
      return true;
    });
  }

  // Whether any frame of a run in hand might have held something when it was taken.
  bool any_dirty(uptr address, std::size_t frames) {
    const uptr end = address + frames * kFrameSize;
    return each_part(address, frames,
                     [this](std::size_t chunk, u64 mask) { return (dirty_word(chunk) & mask) == 0; }) != end;
  }

  // Takes the `frames` frames from `address` on if all are free (allocation at an address).
  Run take_at(uptr address, std::size_t frames) {
    if (!contains(address) || range_.bytes() - (address - base()) < frames * kFrameSize) return {};
    return claim(address, frames);
  }

  // Gives the memory of free dirty frames back to the kernel, highest chunks first, until `target` frames or fewer are
  // dirty and free by the count of `dirty()`. Calls purged(address, frames, dirty) for each run while it still owns it;
  // `dirty`: how many of its frames were. Stops where the kernel refuses (locked memory): it would refuse the next run
  // too.
  template <class Dirty, class Purged> PurgeEnd purge(Dirty&& dirty, std::size_t target, Purged&& purged) {
    for (std::size_t chunk = used_chunks(); chunk-- > 0;) {
      u64 tried = 0;
      for (;;) {
        if (dirty() <= target) return PurgeEnd::kReached;
        u64 used = chunks_[chunk].used.load_relaxed();
        u64 candidates = chunks_[chunk].dirty.load_relaxed() & ~used & ~tried;
        if (candidates == 0) break;
        u64 run = chunk_word::lowest_run(candidates);
        const bool owned = chunks_[chunk].used.cas_acquire(used, used | run);  // [A1] pairs with [R1]
        if (!owned) continue;
        tried |= run;
        // Only now may we read the run's dirty bits: it may have been purged, or used, since.
        if (!run_purge(chunk, run, purged)) return PurgeEnd::kRefused;
      }
    }
    return PurgeEnd::kExhausted;
  }

 private:
  // Chunks that may ever have been used.
  std::size_t used_chunks() const { return ceil_div(range_.committed(), kChunkSize); }
  uptr address_of(std::size_t chunk, unsigned frame) const { return base() + chunk * kChunkSize + frame * kFrameSize; }

  void release_bits(std::size_t chunk, u64 mask) {
    chunks_[chunk].used.fetch_and_acq_rel(~mask);  // [R1] [A2] pairs with [A1] [R2]
    lower_hint(chunk);
  }

  void lower_hint(std::size_t chunk) {
    std::size_t hint = hint_.load_relaxed();
    while (chunk < hint && !hint_.cas_relaxed(hint, chunk)) {}
  }

  // Calls f(chunk, mask) for each chunk that the frames lie in, upwards, until it returns false. Returns where it
  // stopped.
  template <class F> uptr each_part(uptr address, std::size_t frames, F&& f) {
    while (frames > 0) {
      std::size_t offset = address - base();
      auto first = static_cast<unsigned>(offset % kChunkSize / kFrameSize);
      auto here = static_cast<unsigned>(clamp(frames, 1, kChunkFrames - first));
      if (!f(offset / kChunkSize, chunk_word::run_mask(first, here))) break;
      address += here * kFrameSize;
      frames -= here;
    }
    return address;
  }

  Run take_short(std::size_t frames, std::size_t alignment) {
    const auto n = static_cast<unsigned>(frames);
    const auto a = static_cast<unsigned>(alignment);
    for (std::size_t chunk = hint_.load_relaxed(); chunk < count_; ++chunk) {
      u64 used = chunks_[chunk].used.load_relaxed();  // OPTIMISTIC: frames
      for (;;) {
        unsigned first = chunk_word::find_run(used, n, a);
        if (first == kChunkFrames) break;
        u64 mask = chunk_word::run_mask(first, n);
        if (!chunks_[chunk].used.cas_acquire(used, used | mask)) continue;  // [A1] pairs with [R1]
        Env::step("arena.taken");
        const Run run =
            made_usable(address_of(chunk, first), frames, popcount(chunks_[chunk].dirty.load_relaxed() & mask));
        if (!run.hole) return run;
        used = chunks_[chunk].used.load_relaxed();  // OPTIMISTIC: frames
      }
      if (~used == 0) {
        advance_hint(chunk);
      } else if (a == 1 && chunk + 1 < count_) {
        const Run run = take_across(chunk, used, frames);
        if (run || run.refused || run.ended) return run;
      }
    }
    return {};
  }

  void advance_hint(std::size_t full_chunk) {
    std::size_t hint = full_chunk;
    if (hint_.load_relaxed() != hint || !hint_.cas_relaxed(hint, full_chunk + 1)) return;
    Env::step("arena.hint");
    // A change that changes nothing: it sees the newest word, or a thread that gives a frame later sees it.
    if (~chunks_[full_chunk].used.fetch_or_release(0) == 0) return;  // [R2] pairs with [A2]
    lower_hint(full_chunk);                                          // a frame was given meanwhile
  }

  // A run of at most 64 frames that begins in `chunk` and ends in the next one.
  Run take_across(std::size_t chunk, u64 used, std::size_t frames) {
    const u64 next = chunks_[chunk + 1].used.load_relaxed();
    const unsigned above = free_above(used);
    const unsigned below = next == 0 ? kChunkFrames : lowest_bit(next);
    if (above == 0 || above + below < frames) return {};
    return claim(address_of(chunk, kChunkFrames - above), frames);
  }

  // Free frames at the end of a chunk.
  static unsigned free_above(u64 used) { return used == 0 ? kChunkFrames : kChunkFrames - 1 - log2_floor(used); }

  Run take_long(std::size_t frames, std::size_t alignment) {
    for (std::size_t chunk = hint_.load_relaxed(); chunk < count_;) {
      const unsigned above = free_above(chunks_[chunk].used.load_relaxed());
      const uptr start = align_up(address_of(chunk, kChunkFrames - above), alignment * kFrameSize);
      if (!contains(start) || range_.bytes() - (start - base()) < frames * kFrameSize) break;
      std::size_t blocked = count_;
      each_part(start, frames, [&](std::size_t c, u64 mask) {
        if ((chunks_[c].used.load_relaxed() & mask) == 0) return true;
        blocked = c;
        return false;
      });
      if (blocked == count_) {
        Run run = claim(start, frames);
        if (run || run.refused || run.ended) return run;
        if (run.hole) continue;  // from behind it
      }
      // The blocking chunk may have free frames above; a chunk that was tried from there on is done.
      chunk = blocked == count_ || blocked == chunk ? chunk + 1 : blocked;
    }
    return {};
  }

  Run claim(uptr start, std::size_t frames) {
    unsigned dirty = 0;
    uptr end = start + frames * kFrameSize;
    uptr reached = each_part(start, frames, [&](std::size_t c, u64 mask) {
      u64 used = chunks_[c].used.load_relaxed();
      do {
        if ((used & mask) != 0) return false;
      } while (!chunks_[c].used.cas_acquire(used, used | mask));  // [A1] pairs with [R1]
      dirty += popcount(chunks_[c].dirty.load_relaxed() & mask);
      Env::step("arena.claimed");
      return true;
    });
    if (reached == end) return made_usable(start, frames, dirty);
    Env::step("arena.rolling_back");
    put_back(start, (reached - start) / kFrameSize);
    return {};
  }

  // The run, once its memory is accessible; none, and its bits given back, where it cannot be.
  Run made_usable(uptr start, std::size_t frames, unsigned dirty) {
    const Access access = range_.ensure(start - base(), start - base() + frames * kFrameSize);
    if (access == Access::kYes) return {start, dirty};
    each_part(start, frames, [this, access](std::size_t c, u64 mask) {
      const u64 holes = access == Access::kHole ? holes_of(c) : 0;
      if (holes != 0) chunks_[c].used.fetch_or_relaxed(holes);
      Env::step("arena.retiring");
      if ((mask & ~holes) != 0) release_bits(c, mask & ~holes);
      return true;
    });
    return {0, 0, access == Access::kRefused, access == Access::kEnded, access == Access::kHole};
  }

  // False if the kernel refused.
  template <class Purged> bool run_purge(std::size_t chunk, u64 run, Purged&& purged) {
    const unsigned first = lowest_bit(run);
    const unsigned frames = popcount(run);
    u64 dirty = chunks_[chunk].dirty.load_relaxed() & run;
    Env::step("arena.purge");
    const bool done = dirty == 0 || Env::purge(address_of(chunk, first), frames * kFrameSize);
    if (done && dirty != 0) {
      chunks_[chunk].dirty.fetch_and_relaxed(~run);
      purged(address_of(chunk, first), frames, popcount(dirty));
    }
    Env::step("arena.purged");
    release_bits(chunk, run);
    return done;
  }

  CommittedRange<Env> range_;
  Chunk<Env>* chunks_ = nullptr;
  std::size_t count_ = 0;
  typename Env::template Atomic<std::size_t> hint_;
  NewMemory<Env> new_memory_;
};

}  // namespace freeway
