// SPDX-License-Identifier: MIT
// Limits: how much memory the heap holds, and how much it may hold.
//
// Counted   memory that the kernel backs or may back: owned frames, free frames that are dirty, huge blocks, and tables
//           (descriptors, slabs, leaves of the page map), in frames of 64 KiB, always: so a limit that is set
//           later is as exact as one from the start
// Words     held : 32 | hard : 31 (0: none) | whether it was set : 1, one word, so that a charging thread sees the
//           limit that holds at its step. soft, and the mark of the next pressure: hints
// Moves     charge: held += n (CAS) if it stays within hard.  Before the memory can be touched: frames once they are
//           the caller's, mappings before they are made
//           uncharge: held -= n, after the memory has gone: purged, unmapped
//           set: hard = h (CAS). From that step on no charge, by any thread, goes beyond h; held may already be more.
//           Of two at once the soft limit may be the other's
//           begin: the same unless it was set before: several may initialise, and one of them late
// Invariant backed memory is never more than held, but for 2 MiB of a run that comes back from a mapping that could not
//           grow. So it is within a hard limit that held was within when it was set. (With huge pages, or under
//           mlockall(MCL_FUTURE), the kernel backs more than was asked for: Freeway asks for no huge pages while there
//           is a limit, decision 034.)
// Moved     memory that changes its kind keeps its charge: a dirty frame that is taken or given, a run that is lifted
// Pressure  above soft nothing dirty is kept; and a thread that is about to charge more empties the caches first, once
//           for each 64th of soft that held has grown since (decision 034)
// Who       any thread, any signal handler, the child of any fork, which inherits both limits and held
// Orders    relaxed: the word counts. It publishes nothing, and between it and the memory there is a system call
// Progress  charge, set: lock-free; uncharge: wait-free     Lost if killed: room. Memory that was charged and not yet
//           used, or is gone and still charged: a run, a huge block, or the memory that a purge has in hand (at most 4
//           MiB). While a thread is stopped there the others have so much less below the hard limit
// Checked   tests/pages/limits_model.cc, tests/pages/limits_test.cc, tests/abi/limit_test.cc
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

namespace freeway {

namespace limit_word {

constexpr u64 kMostFrames = low_bits(32), kMostHard = low_bits(31), kSet = u64{1} << 63;

constexpr u64 make(u64 held, u64 hard) { return kSet | hard << 32 | held; }
constexpr u64 held(u64 word) { return word & kMostFrames; }
constexpr u64 hard(u64 word) { return word >> 32 & kMostHard; }
constexpr bool was_set(u64 word) { return (word & kSet) != 0; }
// How many frames more may be charged.
constexpr u64 room(u64 word) {
  const u64 most = hard(word) == 0 ? kMostFrames : hard(word);
  return most > held(word) ? most - held(word) : 0;
}
// The word with so many frames more, or, if they are too many, as it was.
constexpr u64 charged(u64 word, u64 frames) { return frames <= room(word) ? word + frames : word; }
constexpr u64 limited(u64 word, u64 frames) { return make(held(word), frames); }

}  // namespace limit_word

template <class Env> class Limits {
 public:
  static constexpr u64 kLeastStep = 16;  // frames between two pressures

  // Frames; 0: no limit. A limit beyond the counter's range is none.
  void set(u64 soft, u64 hard) {
    if (hard > limit_word::kMostHard) hard = 0;
    u64 seen = word_.load_relaxed();
    soft_.store_relaxed(soft);  // before: begin() stores none once the word says that it was set
    while (!word_.cas_relaxed(seen, limit_word::limited(seen, hard))) {}
    next_.store_relaxed(0);
  }
  // The same, once, for the thread that reads the environment.
  void begin(u64 soft, u64 hard) {
    if (hard > limit_word::kMostHard) hard = 0;
    u64 seen = word_.load_relaxed();
    do {
      if (limit_word::was_set(seen)) return;
    } while (!word_.cas_relaxed(seen, limit_word::limited(seen, hard)));
    u64 none = 0;
    soft_.cas_relaxed(none, soft);  // or set() was faster by now
  }

  // False: with `frames` more, held would be above the hard limit.
  bool charge(u64 frames) {
    u64 seen = word_.load_relaxed();
    for (;;) {
      const u64 next = limit_word::charged(seen, frames);
      if (next == seen && frames != 0) return false;
      if (frames == 0) return true;
      Env::step("limits.seen");
      if (word_.cas_relaxed(seen, next)) return true;
    }
  }
  FREEWAY_INLINE void uncharge(u64 frames) {
    if (frames != 0) word_.fetch_sub_relaxed(frames);
  }
  // The same for a table: refused only when no free frame is dirty.
  bool charge_table(u64 frames) {
    if (charge(frames)) return true;
    if (make_room_ != nullptr) make_room_(make_room_context_, frames);
    return charge(frames) || (note_refusal(), false);
  }
  // f(context, frames) gives dirty frames back until so many may be charged, or there are none. Once, or again with the
  // same.
  using MakeRoom = void (*)(void* context, u64 frames);
  void on_full(void* context, MakeRoom f) {
    make_room_context_ = context;
    make_room_ = f;
  }

  // Whether `more` frames would be above the soft limit.
  bool is_above_soft(u64 more) const {
    const u64 soft = soft_.load_relaxed();
    return FREEWAY_UNLIKELY(soft != 0) && held() + more > soft;
  }
  // Whether a thread that is about to charge `more` should empty caches first. True: that is its duty now.
  bool is_due(u64 more) {
    if (!is_above_soft(more)) return false;
    const u64 soft = soft_.load_relaxed(), now = held() + more;
    u64 next = next_.load_relaxed();
    const u64 step = soft / 64 > kLeastStep ? soft / 64 : kLeastStep;
    if (now + step < next) next_.store_relaxed(now + step);  // it has shrunk since
    if (now < next || !next_.cas_relaxed(next, now + step)) return false;
    pressures_.fetch_add_relaxed(1);
    return true;
  }
  FREEWAY_INLINE void note_refusal() { refusals_.fetch_add_relaxed(1); }

  bool has_room(u64 frames) const { return frames <= limit_word::room(word_.load_relaxed()); }
  FREEWAY_INLINE u64 held() const { return limit_word::held(word_.load_relaxed()); }
  FREEWAY_INLINE u64 hard() const { return limit_word::hard(word_.load_relaxed()); }
  FREEWAY_INLINE u64 soft() const { return soft_.load_relaxed(); }
  u64 refusals() const { return refusals_.load_relaxed(); }
  u64 pressures() const { return pressures_.load_relaxed(); }

 private:
  using Word = typename Env::template Atomic<u64>;
  Word word_;
  Word soft_, next_;  // frames; next_: held at the next pressure
  Word refusals_, pressures_;
  MakeRoom make_room_ = nullptr;
  void* make_room_context_ = nullptr;
};

}  // namespace freeway
