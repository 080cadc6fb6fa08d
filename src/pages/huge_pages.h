// SPDX-License-Identifier: MIT
// huge_pages.h: where Freeway asks for huge pages, FREEWAY_HUGE, and where it forbids them.
//
// small           a huge page is 2 MiB at the first touch of any byte of it: in a small heap, or in sparsely touched
//                 tables, most of that is wasted. A large heap gains from huge pages. So the first kSmallPages of each
//                 range that grows are advised to use small pages, though the system's default says "always"
//                 (docs/decisions/025)
// never, always   applies to all memory of blocks when it becomes accessible; not to tables
// default         while memory is limited, small pages: a huge one holds more than is charged. Else the system's
//                 default holds. If that is "on request" (madvise), memory that is new to the process is tried: from
//                 kFrom bytes of an arena on, a thread that takes the first frames of 2 MiB that were never used gives
//                 all of them memory at once, as a huge page, as long as such pages come fast
// Tried     because only a trial tells: where the machine has huge pages ready, one takes a fifth of the time of 512
//           small ones; where a host must find it first, eight times theirs (docs/decisions/036). So the first piece
//           gets small pages, and their time is noted. A huge one that takes more than half of it ends the matter until
//           kFirstPause bytes of new memory have gone by, and each time it happens until four times as many have
// After     a piece has its memory, it is advised to use small pages: memory that is given back returns bit by bit, and
//           the kernel makes no huge pages of half empty pieces behind our back
// Mappings  a new part of an arena is one mapping of the kernel's, which splits for a piece and joins again, if it held
//           a page before: so the first piece in it is left to the program
//
// Words     NewMemory, one per arena: bytes from its start that were looked at; only up (CAS), and the thread that
//           moves it over a piece deals with the piece. wish: set once, with the environment. limited, the end that was
//           seen, times, pauses: hints
// Lost if killed: nothing but advice. In any case up to 2 MiB of an arena may have memory and count as clean
// Checked   tests/pages/huge_pages_test.cc, tests/whole/stress/huge_pages_test.cc
#pragma once

#include "base/integers.h"
#include "size/size_classes.h"

namespace freeway {

constexpr std::size_t kSmallPages = 64 * kMiB;

// For Envs whose kernel has such advice.
template <class Env> void prefer_small_pages(uptr address, std::size_t bytes) {
  if constexpr (requires { Env::prefer_small(address, bytes); }) Env::prefer_small(address, bytes);
}

// [from, to) of a range that begins at `base` has become accessible.
template <class Env> void prefer_small_pages_at_first(uptr base, std::size_t from, std::size_t to) {
  if (from < kSmallPages) prefer_small_pages<Env>(base + from, (to < kSmallPages ? to : kSmallPages) - from);
}

enum class HugeWish : u32 { kDefault, kNever, kAlways };

// The end, from an arena's start, of the memory that was looked at.
template <class Env> class NewMemory {
 public:
  // Moves that up to `end`. Returns the old end, or `end` if it was there already.
  std::size_t look_up_to(std::size_t end) {
    std::size_t seen = looked_.load_relaxed();
    while (seen < end && !looked_.cas_relaxed(seen, end)) {}
    return seen < end ? seen : end;
  }
  std::size_t looked() const { return looked_.load_relaxed(); }
  // Whether more of the arena is accessible than at the last call.
  bool has_grown(std::size_t accessible) {
    if (grown_.load_relaxed() == accessible) return false;
    grown_.store_relaxed(accessible);
    return true;
  }

 private:
  typename Env::template Atomic<std::size_t> looked_, grown_;
};

template <class Env> class HugePages {
 public:
  static constexpr std::size_t kPiece = 2 * kMiB;
  static constexpr std::size_t kFrom = 256 * kMiB, kFirstPause = 256 * kMiB;
  static constexpr u64 kLongerPause = 4;

  // Once, or again with the same.
  void set(HugeWish wish) { wish_.store_relaxed(static_cast<u32>(wish)); }
  void set_limited(bool limited) { limited_.store_relaxed(limited); }

  // A thread took `bytes` bytes at `offset` of an arena at `base`, of which `accessible` bytes are. is_new(): whether
  // nothing that it took held anything, and no place is left out in the piece or between such runs.
  template <class IsNew>
  void on_take(NewMemory<Env>& memory, uptr base, std::size_t accessible, std::size_t offset, std::size_t bytes,
               IsNew&& is_new) {
    if (wish() != HugeWish::kDefault || limited_.load_relaxed()) {
      if (memory.looked() >= accessible) return;
      if (const std::size_t from = memory.look_up_to(accessible); from < accessible)
        advise(base + from, accessible - from);
    } else if (offset + bytes > kFrom && is_new()) {
      try_piece(memory, base, accessible, offset, bytes);
    }
  }

  // For a block's memory outside the arenas.
  void advise(uptr address, std::size_t bytes) const {
    if constexpr (requires { Env::prefer_huge(address, bytes); }) {
      if (wish() == HugeWish::kAlways) Env::prefer_huge(address, bytes);
      if (wish() == HugeWish::kNever) Env::forbid_huge(address, bytes);
      if (wish() == HugeWish::kDefault && limited_.load_relaxed()) Env::prefer_small(address, bytes);
    }
  }

 private:
  HugeWish wish() const { return static_cast<HugeWish>(wish_.load_relaxed()); }

  void try_piece(NewMemory<Env>& memory, uptr base, std::size_t accessible, std::size_t offset, std::size_t bytes) {
    const std::size_t end = align_up(offset + bytes, kPiece);
    if (memory.looked() >= end) return;
    const std::size_t looked = memory.look_up_to(end);
    // A long run is the program's to touch, or not. Only the taker of a piece's first frames knows that the rest is
    // unused.
    const bool is_first = looked <= offset && offset % kPiece == 0 && bytes < kPiece && end <= accessible;
    if (memory.has_grown(accessible) || !is_first) return;
    if constexpr (requires { Env::populate_huge(base, bytes); })
      if (Env::huge_on_request()) populate(base + offset);
  }

  void populate(uptr piece) {
    if (const std::size_t pause = pause_.load_relaxed(); pause != 0) {
      pause_.store_relaxed(pause - clamp(kPiece, 0, pause));
      return;
    }
    const u64 small = small_ns_.load_relaxed();
    if (small == 0) return small_ns_.store_relaxed(Env::populate_small(piece, kPiece) + 1);
    if (Env::populate_huge(piece, kPiece) <= small / 2) return;
    const std::size_t next = next_pause_.load_relaxed();
    pause_.store_relaxed(next != 0 ? next : kFirstPause);
    next_pause_.store_relaxed(kLongerPause * (next != 0 ? next : kFirstPause));
  }

  typename Env::template Atomic<u32> wish_;
  typename Env::template Atomic<bool> limited_;
  typename Env::template Atomic<u64> small_ns_;
  typename Env::template Atomic<std::size_t> pause_, next_pause_;
};

}  // namespace freeway
