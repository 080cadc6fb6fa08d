// SPDX-License-Identifier: MIT
// Small: small blocks: a seat's magazines, and the superblocks that fill them. Death anywhere loses nothing.
//
// Words     state of a block: FREE -> CACHED(P) (take: store by the holder) -> LIVE (malloc: store) -> CACHED(P) (free:
//           CAS, it finds double frees) -> FREE (flush: store)
//           entry of a superblock: CLAIM(P,n) -> SMALL(c,P) <-> SMALL(c,0) -> SMALL(c,P) -> CLAIM(P,n) -> free (runs.h)
//           bits, hints: written by whoever owns the block or the superblock. magazine: `top` and slots, the seat's own
// Invariant I1 FREE => its bit is set. (Set and CACHED: somebody is between the two)
//           I2 CACHED(P) => a slot of P's magazines names the block, at or above `top`, too. Names may be stale, the
//           state decides I3 FREE -> CACHED is the holder's step alone: a FREE block stays FREE for the holder, and
//           needs no CAS I4 a superblock with a block that is not FREE is not given back: owning one block pins frame,
//              class, bits and hint. After one's last block became FREE there are only loads, and the CAS on the entry
//              that adopts: the last touch
//           I5 hint => the frame is a superblock of that class. When all is quiet: I6 an idle superblock with a free
//              block has its hint, I7 none is idle with all blocks free
// Who       everything: who sits at `seat`, one thread at a time; handlers sit elsewhere. The last two also who cleans
//           up
// Duty      who frees a superblock's last block sees to it that somebody gives it back: look(), which adopts and lets
//           go; if it was held, its holder does, in let_go()
// Orders    [R1] a state that becomes FREE publishes what was done to the block; [A1] who takes it, or gives the
//           superblock back, sees that
//           [R2] letting go publishes the holder's view; [A2] the next holder sees it
//           [R3] the hint is cleared before the words are read again; [A3] who set a bit later finds it cleared. Both
//           are RMWs of the word, so one is the later one, and sees to the hint
//           [F1] a full fence between one's FREE states and the entry, [F2] and between the entry and the others'
//           states: at least one of flusher and holder sees that the superblock is empty
// Progress  lock-free. Nobody waits: whoever is alone ends
// Lost if killed: nothing: see recover.h
// Checked   shared/tests/small_model.cc, shared/tests/heap_test.cc
#pragma once

#include "cache/groups.h"
#include "shared/runs.h"
#include "shared/steps.h"
#include "shared/tables.h"

namespace freeway::shared {

template <class World> class Small {
 public:
  using Env = typename World::Env;
  using Shape = typename World::Shape;
  using Slab = typename World::Tables::Slab;
  static constexpr u32 kNone = ~u32{0};
  static constexpr u32 kBatch = kBatchMax;  // blocks in one take, at most
  static constexpr u32 kFlushed = 16;       // in one flush: handlers have small stacks

  struct Picked {
    u64 offset;  // 0: no memory
    Place place;
  };

  explicit Small(World& world) : world_(world), tables_(world.tables) {}

  // A block of class `c` for the program: its offset; 0: no memory.
  u64 malloc(u32 seat, u32 c) {
    const Picked block = pick(seat, c);
    if (block.offset != 0) set_live(block.place);
    return block.offset;
  }

  // Frees the block at `offset`, which lies at `p`.
  Freed free(u32 seat, u64 offset, const Place& p) {
    make_room(seat, p.size_class);
    name(seat, offset, p);
    const bool done = set_cached(seat, p);
    if (!done) return Freed::kNotLive;
    count(seat, p);
    return Freed::kDone;
  }

  // The steps of malloc and free, for into.h.
  // -------------------------------------------------------------------------- A block off the magazine: named above
  // `top`, its state still CACHED(seat).
  Picked pick(u32 seat, u32 c) {
    Slab& slab = tables_.slab(seat);
    for (bool drained = false;;) {
      const u32 top = top_of(slab, c);
      if (top == 0) {
        if (take(seat, c)) continue;
        if (drained) return {};
        drain(seat);  // what the seat holds itself may be all that there is
        drained = true;
        continue;
      }
      const u64 offset = slot(slab, c, top - 1).load_relaxed();
      slab.top[c].store_relaxed(top - 1);
      Env::fence_signal();
      const Place p = place(tables_, offset, world_.frames());
      if (p.size_class == c && is_cached(seat, p)) return {offset, p};  // else the file is damaged
    }
  }
  void set_live(const Place& p) { tables_.state(p.frame, p.index).store_relaxed(state::kLive); }
  void make_room(u32 seat, u32 c) {
    if (top_of(tables_.slab(seat), c) == Shape::slots(c)) flush(seat, c, (Shape::slots(c) + 1) / 2);
  }
  void name(u32 seat, u64 offset, const Place& p) {
    Slab& slab = tables_.slab(seat);
    slot(slab, p.size_class, top_of(slab, p.size_class)).store_relaxed(offset);
    Env::fence_signal();
  }
  bool set_cached(u32 seat, const Place& p) {
    u8 live = state::kLive;
    const bool done = tables_.state(p.frame, p.index).cas_relaxed(live, state::cached(seat));
    Env::fence_signal();
    return done;
  }
  void count(u32 seat, const Place& p) {
    Slab& slab = tables_.slab(seat);
    slab.top[p.size_class].store_relaxed(top_of(slab, p.size_class) + 1);
  }

  // The uppermost `wanted` blocks of the magazine go back to their superblocks; fewer if there are not so many.
  void flush(u32 seat, u32 c, u32 wanted) {
    for (u32 left = wanted; left > 0;) {
      const u32 n = flush_batch(seat, c, left < kFlushed ? left : kFlushed);
      if (n == 0) return;
      left -= n;
    }
  }

  // All blocks and superblocks that the seat has.
  void drain(u32 seat) {
    Slab& slab = tables_.slab(seat);
    for (u32 c = 1; c < Shape::kClasses; ++c) {
      flush(seat, c, Shape::slots(c));
      const u32 f = held_by(slab, seat, c);
      slab.held[c].store_relaxed(0);
      if (f != kNone) let_go(seat, f, c);
    }
  }

  // For who cleans up, too.
  // ----------------------------------------------------------------------------------------------- The blocks `mask`
  // of word `w` become FREE; each is CACHED(seat), and the caller's.
  void give(u32 seat, u32 f, u32 c, u32 w, u64 mask) {
    in_order<Env>([&] { tables_.word(f, w).fetch_or_acquire(mask); },  // [A3] pairs with [R3]
                  [&] {
                    in_order<Env>([&] { set_hint(c, f); },
                                  [&] {
                                    for (u64 left = mask; left != 0; left &= left - 1) {
                                      auto& state = tables_.state(f, w * 64 + lowest_bit(left));
                                      if (state.load_relaxed() == state::cached(seat))
                                        state.store_release(state::kFree);  // [R1] pairs with [A1]
                                    }
                                  });
                  });
  }

  // The last touch of who has made blocks FREE, a full fence ago: an idle superblock that is all free is given back.
  void look(u32 seat, u32 f, u32 c) {
    if (adopt_empty(seat, f, c)) let_go(seat, f, c);
  }

  // The superblock is held by `seat`: it becomes idle, or is given back.
  void let_go(u32 seat, u32 f, u32 c) {
    do {
      if (give_back_if_empty(seat, f, c)) return;
      tables_.entries[f].store_release(entry::small(c, kNobody));  // [R2] pairs with [A2]
      Env::fence_full();                                           // [F2] pairs with [F1]
    } while (adopt_empty(seat, f, c));  // who flushed while it was held has left it to us
  }

 private:
  enum class Bits { kNone, kSome, kAll };

  static auto& slot(Slab& slab, u32 c, u32 i) { return slab.slots[Shape::first_slot(c) + i]; }
  static u32 top_of(Slab& slab, u32 c) {
    const u32 top = slab.top[c].load_relaxed();
    return top <= Shape::slots(c) ? top : Shape::slots(c);
  }
  // The frame of the superblock that the seat holds for class `c`; kNone: there is none.
  u32 held_by(Slab& slab, u32 seat, u32 c) {
    const u32 f = slab.held[c].load_relaxed() - 1;
    return f < world_.frames() && tables_.entries[f].load_relaxed() == entry::small(c, seat) &&
                   tables_.class_at(entry::small(c, seat), f, world_.frames()) == c
               ? f
               : kNone;
  }
  bool is_cached(u32 seat, const Place& p) {
    return tables_.state(p.frame, p.index).load_relaxed() == state::cached(seat);
  }

  // --- Filling magazines. ---
  bool take(u32 seat, u32 c) {
    Slab& slab = tables_.slab(seat);
    if (const u32 f = held_by(slab, seat, c); f != kNone) {
      if (take_from(seat, f, c)) return true;
      slab.held[c].store_relaxed(0);
      let_go(seat, f, c);
    }
    // Once through the hints: where the only free block is about to become FREE, its flusher may be stopped.
    for (u32 from = 0, f; (f = hold_hinted(seat, c, from)) != kNone; from = f + 1) {
      if (take_from(seat, f, c)) return slab.held[c].store_relaxed(f + 1), true;
      let_go(seat, f, c);
    }
    const u32 f = hold_new(seat, c);
    if (f == kNone) return false;
    slab.held[c].store_relaxed(f + 1);
    return take_from(seat, f, c);
  }

  // Fills the magazine from the held superblock; false: nothing is free there.
  bool take_from(u32 seat, u32 f, u32 c) {
    const SizeClass& k = Shape::size_class(c);
    Slab& slab = tables_.slab(seat);
    const u32 top = top_of(slab, c);
    const u32 room = Shape::slots(c) - top;
    // Half a magazine: the other half is for what is freed next.
    const u32 most = static_cast<u32>(clamp((Shape::slots(c) + 1) / 2, 0, clamp(room, 0, kBatch)));
    u32 got = 0;
    for (u32 w = 0; w < k.words && got < most; ++w) {
      u64 chosen = 0;
      const u64 bits = tables_.word(f, w).load_relaxed() & k.full_mask(w);
      for (u64 left = bits; left != 0 && got + popcount(chosen) < most; left &= left - 1) {
        const u32 index = w * 64 + lowest_bit(left);
        if (tables_.state(f, index).load_acquire() == state::kFree)  // [A1] pairs with [R1]
          chosen |= left & (~left + 1);
      }
      if (chosen == 0) continue;
      in_order<Env>(
          [&] {
            for (u64 left = chosen; left != 0; left &= left - 1) {
              const u32 index = w * 64 + lowest_bit(left);
              in_order<Env>([&] { slot(slab, c, top + got).store_relaxed(tables_.offset_of(f, k, index)); },
                            [&] { tables_.state(f, index).store_relaxed(state::cached(seat)); });
              ++got;
            }
          },
          [&] { tables_.word(f, w).fetch_and_relaxed(~chosen); });
    }
    slab.top[c].store_relaxed(top + got);
    return got != 0;
  }

  // --- Holding. ---
  // Holds an idle superblock with a hint, the first from frame `from` on; kNone: there is none.
  u32 hold_hinted(u32 seat, u32 c, u32 from) {
    const u32 frames = world_.frames();
    for (u32 at = from; at < frames;) {
      const u64 hints = tables_.hint(c, at).load_relaxed() >> (at % 64);
      if (hints == 0) {
        at = static_cast<u32>(align_down(at, 64)) + 64;
        continue;
      }
      at += lowest_bit(hints);
      if (at < frames && tables_.class_at(entry::small(c, seat), at, frames) == c && adopt(seat, at, c)) return at;
      ++at;
    }
    return kNone;
  }

  u32 hold_new(u32 seat, u32 c) {
    const SizeClass& k = Shape::size_class(c);
    const u32 f = Runs(world_).claim(seat, k.span_frames, /*small=*/true);
    if (f == kNone) return kNone;
    in_order<Env>(
        [&] {
          for (u32 w = 0; w < k.words; ++w) tables_.word(f, w).store_relaxed(k.full_mask(w));
        },
        [&] { tables_.entries[f].store_relaxed(entry::small(c, seat)); });
    return f;
  }

  bool adopt(u32 seat, u32 f, u32 c) {
    auto& word = tables_.entries[f];
    u64 idle = entry::small(c, kNobody);
    if (word.load_relaxed() != idle) return false;
    return word.cas_acquire(idle, entry::small(c, seat));  // [A2] pairs with [R2]
  }

  // --- Giving back. ---
  Bits survey(u32 f, const SizeClass& k) {
    return survey_by(k, [&](u32 w) { return tables_.word(f, w).load_relaxed(); });
  }
  template <class Read> Bits survey_by(const SizeClass& k, Read&& read) {
    bool any = false, all = true;
    for (u32 w = 0; w < k.words; ++w) {
      const u64 bits = read(w) & k.full_mask(w);
      any |= bits != 0;
      all &= bits == k.full_mask(w);
      if (any && !all) return Bits::kSome;
    }
    return all ? Bits::kAll : Bits::kNone;
  }
  bool is_all_free(u32 f, const SizeClass& k) {
    for (u32 i = 0; i < k.blocks; ++i)
      if (tables_.state(f, i).load_acquire() != state::kFree) return false;  // [A1] pairs with [R1]
    return true;
  }
  void set_hint(u32 c, u32 f) {
    auto& hint = tables_.hint(c, f);
    if ((hint.load_relaxed() >> (f % 64) & 1) == 0) hint.fetch_or_relaxed(u64{1} << (f % 64));
  }
  void clear_hint(u32 c, u32 f) { tables_.hint(c, f).fetch_and_relaxed(~(u64{1} << (f % 64))); }

  // The holder sees to the hint. True: nothing was in use, and the superblock is no more.
  bool give_back_if_empty(u32 seat, u32 f, u32 c) {
    const SizeClass& k = Shape::size_class(c);
    Bits bits = survey(f, k);
    if (bits == Bits::kSome) return set_hint(c, f), false;
    clear_hint(c, f);
    bits = survey_by(k, [&](u32 w) { return tables_.word(f, w).fetch_or_release(0); });  // [R3] pairs with [A3]
    if (bits == Bits::kNone) return false;
    if (bits == Bits::kSome || !is_all_free(f, k)) return set_hint(c, f), false;
    clear_hint(c, f);  // a flusher may have set it since
    tables_.entries[f].store_relaxed(entry::claim(seat, k.span_frames));
    Env::fence_signal();
    Runs(world_).release(seat, f, k.span_frames);
    return true;
  }

  // Holds the superblock if it is idle and all its blocks are free.
  bool adopt_empty(u32 seat, u32 f, u32 c) {
    const SizeClass& k = Shape::size_class(c);
    if (tables_.entries[f].load_relaxed() != entry::small(c, kNobody) || survey(f, k) != Bits::kAll) return false;
    for (u32 i = 0; i < k.blocks; ++i)
      if (tables_.state(f, i).load_relaxed() != state::kFree) return false;  // OPTIMISTIC: shared states
    return adopt(seat, f, c);
  }

  u32 flush_batch(u32 seat, u32 c, u32 wanted) {
    const SizeClass& k = Shape::size_class(c);
    Slab& slab = tables_.slab(seat);
    const u32 top = top_of(slab, c);
    const u32 n = wanted < top ? wanted : top;
    if (n == 0) return 0;
    void* blocks[kFlushed];  // offsets, as Groups has them
    for (u32 i = 0; i < n; ++i) blocks[i] = reinterpret_cast<void*>(slot(slab, c, top - 1 - i).load_relaxed());
    Groups groups;
    const auto where = [&](const void* block) -> freeway::Place {
      const Place p = place(tables_, reinterpret_cast<u64>(block), world_.frames());
      return p.size_class == c ? freeway::Place{p.frame + 1, p.index} : freeway::Place{0, 0};
    };
    make_groups(blocks, n, k.size, k.blocks, where, groups);
    for (unsigned g = 0; g < groups.size(); ++g)
      give(seat, groups[g].descriptor() - 1, c, groups[g].word(), groups[g].mask);
    Env::fence_signal();
    slab.top[c].store_relaxed(top - n);  // no slot is filled anew before its block is FREE
    Env::fence_full();                   // [F1] pairs with [F2]
    u32 last = kNone;
    for (unsigned g = 0; g < groups.size(); ++g)
      if (const u32 f = groups[g].descriptor() - 1; f != last) look(seat, last = f, c);
    return n;
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared
