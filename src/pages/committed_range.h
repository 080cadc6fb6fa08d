// SPDX-License-Identifier: MIT
// CommittedRange: address space that becomes accessible from its start upwards, piece by piece.
//
// Space     usually a chosen place only: nothing is mapped there until it is needed, so a process has the address space
//           that it uses. Another's mapping may be in the way. Where no such space can be had it is reserved as a whole
// Words     watermark: frames from the start that are decided : 56 | holes : 8, one word; both only grow. Decided
//           frames are accessible for ever, but for the holes. hole[i]: first frame : 32 | behind its last : 32
// Moves     grow: (w, h) -> (w', h), after the piece [w, w') was mapped where nothing was
//           skip: hole[h] = [w, w') (CAS; an older proposal, of a lower w, is replaced), then (w, h) -> (w', h + 1)
// Duties    the thread that maps a piece owns it until its CAS publishes it. If the CAS fails the piece was skipped,
//           and the thread unmaps it: no other thread can have published a part of it, since none could map it
// Skipping  an occupied place is another's mapping, or the piece of a thread that is stopped before its CAS: the two
//           look alike. Shorter pieces are tried, the shortest one kTries times; then the place is given up as a hole,
//           as long as a piece would have been, or twice as long as the hole before it
// Invariant hole[i] does not change once h > i: a thread that would replace it has seen a w above that of the CAS that
//           made h > i
// Reserved  then mapping is idempotent: nothing is ever occupied, and a thread that loses the CAS has nothing to undo
// Who       any thread, any signal handler
// Orders    [R1] the watermark moves after the piece is mapped, and after the hole is noted; [A1], [A2] a thread that
//           sees the watermark may touch that memory, and sees that hole
// Steps     grow with the size (128 KiB … 64 MiB): a small process stays small, also under mlockall(MCL_FUTURE), under
//           which each mapping touches all its pages
// Progress  lock-free       Lost if killed: a piece (address space), and its place as a hole
// Checked   tests/pages/committed_range_model.cc, tests/pages/committed_range_test.cc
#pragma once

#include "base/compiler.h"
#include "base/space.h"
#include "pages/huge_pages.h"
#include "size/size_classes.h"

namespace freeway {

namespace range_word {

constexpr unsigned kHoleBits = 8;
constexpr u64 make(std::size_t end, unsigned holes) { return u64{end / kFrameSize} << kHoleBits | holes; }
constexpr std::size_t end_of(u64 word) { return (word >> kHoleBits) * kFrameSize; }
constexpr unsigned holes_of(u64 word) { return static_cast<unsigned>(word & low_bits(kHoleBits)); }

constexpr u64 make_hole(std::size_t begin, std::size_t end) { return u64{begin / kFrameSize} << 32 | end / kFrameSize; }
constexpr std::size_t hole_begin(u64 hole) { return (hole >> 32) * kFrameSize; }
constexpr std::size_t hole_end(u64 hole) { return (hole & low_bits(32)) * kFrameSize; }

// The length of a piece that begins `at` bytes from the start, and reaches `end` if it may.
constexpr std::size_t step(std::size_t at, std::size_t first_step) { return clamp(at / 4, first_step, 64 * kMiB); }
constexpr std::size_t piece(std::size_t at, std::size_t end, std::size_t first_step) {
  const std::size_t good = at + step(at, first_step);
  return align_up(good > end ? good : end, first_step) - at;
}

}  // namespace range_word

// How growing ended; kEnded: the range has no place for more, and never will.
enum class Growth { kDone, kRefused, kEnded };

// Holes of a range. Without room for any it takes none.
template <class Env, unsigned kHoles> struct Holes {
  using Word = typename Env::template Atomic<u64>;
  Word& operator[](unsigned i) { return words[i]; }
  const Word& operator[](unsigned i) const { return words[i]; }
  Word words[kHoles];
};
template <class Env> struct Holes<Env, 0> {
  using Word = typename Env::template Atomic<u64>;
  Word& operator[](unsigned) const { __builtin_unreachable(); }
};

// The words of a range, with room for kHoles holes; its owner knows its place and length.
template <class Env, unsigned kHoles> class Extent {
 public:
  FREEWAY_INLINE std::size_t end() const { return range_word::end_of(word_.load_relaxed()); }
  FREEWAY_INLINE u64 seen() const { return word_.load_acquire(); }  // [A2] pairs with [R1]

  // Decides all up to `end` (at most `bytes`), in pieces of `first_step` bytes or more where that is granted. `seen`
  // receives the word that says so.
  Growth grow(Space space, std::size_t bytes, std::size_t end, std::size_t first_step, u64& seen) {
    std::size_t most = bytes;  // the longest piece
    unsigned tries = 0;
    for (u64 before = 0;;) {
      seen = word_.load_acquire();  // [A1] pairs with [R1]
      const std::size_t now = range_word::end_of(seen);
      if (now >= end) return Growth::kDone;
      if (seen != before) most = bytes - now, tries = 0;
      before = seen;
      std::size_t length = clamp(range_word::piece(now, end, first_step), 0, most);
      Extended got = extend(space, now, length);
      if (got == Extended::kRefused) {
        length = clamp(align_up(end, kFrameSize) - now, 0, length);  // the needed length, if the wanted one is refused
        got = extend(space, now, length);
      }
      if (got == Extended::kRefused) return Growth::kRefused;
      if (got == Extended::kDone) publish(space, seen, length);
      else if (length > first_step) most = align_up(length / 2, first_step);
      else if (++tries >= kTries && !skip(seen, bytes, first_step)) return Growth::kEnded;
    }
  }

  // Calls f(begin, end) for each hole below what was `seen`.
  template <class F> void each_hole(u64 seen, F&& f) const {
    for (unsigned i = 0; i < range_word::holes_of(seen); ++i) {
      const u64 hole = holes_[i].load_relaxed();
      f(range_word::hole_begin(hole), range_word::hole_end(hole));
    }
  }

 private:
  // A thread that is not stopped between mapping and its CAS has done both within so many tries of another.
  static constexpr unsigned kTries = [] {
    if constexpr (requires { Env::kTries; }) return Env::kTries;
    else return 8u;
  }();

  static Extended extend(Space space, std::size_t at, std::size_t length) {
    if (!space.reserved) return Env::extend(space.base + at, length);
    return Env::commit(space.base + at, length) ? Extended::kDone : Extended::kRefused;
  }

  void publish(Space space, u64 seen, std::size_t length) {
    const std::size_t now = range_word::end_of(seen);
    const u64 grown = range_word::make(now + length, range_word::holes_of(seen));
    Env::step("range.committed");
    if (word_.cas_release(seen, grown)) {  // [R1] pairs with [A1] [A2]
      // After the CAS: the shorter a piece stays unpublished, the fewer places are skipped.
      prefer_small_pages_at_first<Env>(space.base, now, now + length);
      return;
    }
    if (!space.reserved) Env::release(space.base + now, length);
  }

  // Gives up the place where the range ends. False: no more holes can be noted.
  bool skip(u64 seen, std::size_t bytes, std::size_t first_step) {
    const unsigned n = range_word::holes_of(seen);
    if (n >= kHoles) return false;
    const std::size_t now = range_word::end_of(seen);
    const u64 hole = range_word::make_hole(now, now + clamp(skipped(n, now, first_step), 0, bytes - now));
    u64 there = holes_[n].load_relaxed();
    while (there == 0 || range_word::hole_begin(there) < now) {  // empty, or a proposal whose place was not skipped
      Env::step("range.hole");
      if (holes_[n].cas_relaxed(there, hole)) there = hole;
    }
    Env::step("range.skipping");
    // If the slot holds a higher place, the watermark is there as well, and this CAS only sees it.
    const bool here = range_word::hole_begin(there) == now;
    word_.cas_release(seen,
                      here ? range_word::make(range_word::hole_end(there), n + 1) : seen);  // [R1] pairs with [A1] [A2]
    return true;
  }

  // Bytes to skip at `now`, where `n` holes are known.
  std::size_t skipped(unsigned n, std::size_t now, std::size_t first_step) const {
    const std::size_t step = range_word::step(now, first_step);
    const u64 last = n == 0 ? 0 : holes_[n - 1].load_relaxed();
    if (last == 0 || range_word::hole_end(last) != now) return align_up(step, first_step);
    return 2 * (now - range_word::hole_begin(last));
  }

  typename Env::template Atomic<u64> word_;
  [[no_unique_address]] Holes<Env, kHoles> holes_;
};

// The access that a part of a range allows.
enum class Access { kYes, kHole, kRefused, kEnded };

template <class Env> class CommittedRange {
 public:
  static constexpr unsigned kHoles = 64;

  // Once, before any other thread sees the range. `space` and `bytes` are multiples of a frame.
  void init(Space space, std::size_t bytes) {
    space_ = space;
    bytes_ = bytes;
  }

  uptr base() const { return space_.base; }
  std::size_t bytes() const { return bytes_; }
  bool contains(uptr address) const { return address - base() < bytes_; }
  // Bytes from the start that are decided: accessible or holes.
  std::size_t committed() const { return extent_.end(); }

  // Makes [begin, end) accessible, offsets from the base. kHole: a part of it never will be; all up to `end` is
  // decided.
  Access ensure(std::size_t begin, std::size_t end) {
    u64 seen = 0;
    const Growth grown = extent_.grow(space_, bytes_, end, 128 * kKiB, seen);
    if (grown != Growth::kDone) return grown == Growth::kRefused ? Access::kRefused : Access::kEnded;
    if (range_word::holes_of(seen) == 0) return Access::kYes;
    bool whole = true;
    extent_.each_hole(seen, [&](std::size_t from, std::size_t to) { whole &= to <= begin || end <= from; });
    return whole ? Access::kYes : Access::kHole;
  }

  // Calls f(begin, end) for each hole, offsets from the base.
  template <class F> void each_hole(F&& f) const { extent_.each_hole(extent_.seen(), f); }

 private:
  Space space_;
  std::size_t bytes_ = 0;
  Extent<Env, kHoles> extent_;
};

}  // namespace freeway
