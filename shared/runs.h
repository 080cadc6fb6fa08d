// SPDX-License-Identifier: MIT
// Runs: frames side by side, for a superblock or for one large block.
//
// Words     entries (words.h). The head of a run says what it is, its tails only how far they are from it
// Moves     claim: head FREE -> CLAIM(P,n) (CAS), then each tail FREE -> TAIL(k) (CAS); a failure frees what was taken
//           large: CLAIM(P,n) -> LARGE(n) (store)      free: LARGE(n) -> CLAIM(P,n) (CAS), then release
//           release: the tails -> FREE, then the head -> FREE (stores)
// Invariant the head is taken first and freed last, so while a run is made or taken apart a CLAIM names its seat and
//           length. A tail has no owner of its own: TAIL(k) belongs to the head k frames before it
// Duty      whoever has the CLAIM sees to it that the run becomes something, or is free again, and to its memory
//           (backing.h)
// Orders    [R1] frames that become free publish that nobody uses them; [A1] who claims them sees that
// Progress  lock-free: a CAS fails because another seat has taken a frame. When no run was found the search ends
// Lost if killed: nothing. The CLAIM says what is to be freed (recover.h)
// Checked   shared/tests/runs_model.cc, shared/tests/heap_test.cc
#pragma once

#include "shared/backing.h"
#include "shared/steps.h"
#include "shared/tables.h"

namespace freeway::shared {

enum class Freed {
  kDone,
  kNotLive,  // the block is free already, or in somebody's magazine: a double free
  kNoBlock,  // no block begins there
};

template <class World> class Runs {
 public:
  using Env = typename World::Env;
  static constexpr u32 kNone = ~u32{0};

  explicit Runs(World& world) : world_(world), tables_(world.tables) {}

  // The first of `n` frames side by side that are CLAIM(seat,n) now and have memory; kNone: there are none, or no
  // memory.
  u32 claim(u32 seat, u32 n, bool small) {
    if (n == 0) return kNone;
    u32 first;
    while ((first = search(seat, n)) == kNone)
      if (!world_.grow(n)) return kNone;
    if (ready(first, n, small)) return first;
    unclaim(first, n);
    first = search_between(seat, n, 0, first);  // where memory is refused, frames further down may have theirs still
    if (first == kNone || ready(first, n, small)) return first;
    unclaim(first, n);
    return kNone;
  }

  // Frees a run that is CLAIM(seat,n), in the seat's name.
  void release(u32 seat, u32 first, u32 n) {
    auto& next = tables_.slab(seat).next_frame;
    if (first < next.load_relaxed()) next.store_relaxed(first);
    if (world_.is_punched_at_once(n)) Backing(world_).give_back(first, n);
    unclaim(first, n);
  }

  // The first of `n` frames that are one large block now; kNone: no memory. `before`: the last step before it is LIVE.
  template <class Before> u32 take_large(u32 seat, u32 n, Before&& before) {
    const u32 first = claim(seat, n, /*small=*/false);
    if (first == kNone) return kNone;
    in_order<Env>([&] { before(first); }, [&] { tables_.entries[first].store_relaxed(entry::large(n)); });
    return first;
  }

  // Frees the large block at `offset`. `after`: the first step after it is LIVE no more.
  template <class After> Freed free_large(u32 seat, u64 offset, After&& after) {
    const u64 first = tables_.frame_of(offset);
    const u32 frames = world_.frames();
    if (first >= frames || offset != tables_.offset_of(static_cast<u32>(first))) return Freed::kNoBlock;
    u64 seen = tables_.entries[first].load_relaxed();
    if (entry::kind(seen) == entry::Kind::kClaim || seen == entry::kFree) return Freed::kNotLive;
    const u32 n = tables_.count_at(seen, static_cast<u32>(first), frames);
    if (entry::kind(seen) != entry::Kind::kLarge || n == 0) return Freed::kNoBlock;
    if (!tables_.entries[first].cas_relaxed(seen, entry::claim(seat, n))) return Freed::kNotLive;
    after();
    release(seat, static_cast<u32>(first), n);
    return Freed::kDone;
  }

  // Gives the memory of the frame `f` back, if it is free and may have some. False: the frame keeps what it has.
  bool trim(u32 seat, u32 f) {
    u64 seen = tables_.entries[f].load_relaxed();
    if (seen != entry::kFree || !Backing(world_).has_some(f) ||
        !tables_.entries[f].cas_acquire(seen, entry::claim(seat, 1)))  // [A1] pairs with [R1]
      return false;
    const bool done = Backing(world_).give_back(f, 1);
    unclaim(f, 1);
    return done;
  }

  // Frees a run that was the CLAIM of somebody who is gone. Memory that was coming or going, goes.
  void abandon(u32 head, u32 n) {
    const auto is_own = [&](u32 k) { return k == 0 || tables_.entries[head + k].load_relaxed() == entry::tail(k); };
    for (u32 k = 0, end; k < n; k = end + 1) {
      for (end = k; end < n && is_own(end);) ++end;
      Backing(world_).settle(head + k, end - k);
    }
    unclaim(head, n);
  }

  // The tails of a run that is CLAIM(P,n) become free, then its head. Those it does not have yet, or no more, are
  // others'.
  void unclaim(u32 head, u32 n) {
    in_order<Env>(
        [&] {
          for (u32 k = 1; k < n; ++k)
            if (tables_.entries[head + k].load_relaxed() == entry::tail(k))
              tables_.entries[head + k].store_release(entry::kFree);  // [R1] pairs with [A1]
        },
        [&] { tables_.entries[head].store_release(entry::kFree); });  // [R1] pairs with [A1]
  }

 private:
  bool ready(u32 first, u32 n, bool small) {
    return (!small || world_.back_tables(first)) && Backing(world_).take(first, n);
  }

  // From where the seat's last search ended, or below it has freed a run, to the end; then from the start.
  u32 search(u32 seat, u32 n) {
    auto& next = tables_.slab(seat).next_frame;
    const u32 frames = world_.frames(), start = next.load_relaxed() < frames ? next.load_relaxed() : 0;
    u32 found = search_between(seat, n, start, frames);
    if (found == kNone && start != 0)
      found = search_between(seat, n, 0, start + n - 1 < frames ? start + n - 1 : frames);
    if (found != kNone) next.store_relaxed(found + n);
    return found;
  }

  u32 search_between(u32 seat, u32 n, u32 from, u32 end) {
    u32 first = from, length = 0;  // a run of free frames, as far as it was looked at
    for (u32 f = from; f < end; ++f) {
      if (tables_.entries[f].load_relaxed() != entry::kFree) {
        first = f + 1;
        length = 0;
      } else if (++length == n) {
        if (try_claim(seat, first, n)) return first;
        ++first;
        --length;
      }
    }
    return kNone;
  }

  bool try_claim(u32 seat, u32 head, u32 n) {
    u64 seen = entry::kFree;
    if (!tables_.entries[head].cas_acquire(seen, entry::claim(seat, n))) return false;  // [A1] pairs with [R1]
    for (u32 k = 1; k < n; ++k) {
      Env::fence_signal();
      seen = entry::kFree;
      if (tables_.entries[head + k].cas_acquire(seen, entry::tail(k))) continue;  // [A1] pairs with [R1]
      unclaim(head, k);
      return false;
    }
    return true;
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared
