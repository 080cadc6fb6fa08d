// SPDX-License-Identifier: MIT
// Recovery: cleaning up after a seat's participant, in its name: afterwards nothing is the seat's any more.
//
// Words     participant: ALIVE(g,t) -> RECOVERING(R,r,g) (CAS, once t is gone) -> NONE(g) (store)
//           RECOVERING(Q,q,g) -> RECOVERING(R,r,g) (CAS, once Q is gone, or lives another life than q)
// Invariant one at a time cleans up after a seat: who has the claim on its word, or who sits there and leaves. States
//           stay CACHED(P) and entries P's until they are free: a recoverer that dies leaves what it found, and the
//           next begins again
// Steps     R3 a program's slot that was being filled or emptied is emptied, if its block is P's; R4 the record is
//           cleared R5 each block that a slot of P's magazines names, above `top`, too, and that is CACHED(P), becomes
//           FREE R6 P's claims become free, and what memory they have is known again (backing.h); P's superblocks are
//           let go, empty ones that nobody has looked at are given back
//           R7 the word is NONE(g). Last: until here nothing names P for anybody else
// Who       recover: anybody that has a seat; any number at once.   clean_up: who has the claim, or sits there
// Orders    Of the dead everything is seen: the kernel says that they are gone after all that they did. But who reads
//           only that a recoverer's life is over has not asked the kernel: [A1] it sees what [R2] who claims that seat,
//           [R1] who is done with it, and who sits down there (seat.h) have seen
//           [R1] leaving publishes what was done in the seat's name; who sits down there sees it (seat.h)
// Progress  lock-free: no step waits for another. A claim fails because another's succeeded
// Lost if killed: nothing, see above. A thread that vanishes while its process lives leaves its seat (and the one that
// it was
//           cleaning up) to whoever comes after the process
// Checked   shared/tests/small_model.cc, shared/tests/recovery_model.cc, shared/tests/processes_test.cc
#pragma once

#include "shared/runs.h"
#include "shared/small.h"

namespace freeway::shared {

template <class World> class Recovery {
 public:
  using Env = typename World::Env;
  using Kind = participant::Kind;

  explicit Recovery(World& world) : world_(world), tables_(world.tables) {}

  // Cleans up after `seat` if its participant is gone, for who sits at `own`. False: there was nothing to do, or
  // another does.
  bool recover(u32 seat, u32 own) {
    auto& word = tables_.participant(seat);
    u64 seen = word.load_relaxed();
    if (!is_left_behind(seen)) return false;
    const u32 own_life = participant::life(tables_.participant(own).load_relaxed());
    if (!claim(seat, seen, participant::recovering(own, own_life, participant::life(seen)))) return false;
    in_order<Env>(
        [&] { clean_up(seat); },
        [&] { word.store_release(participant::none(participant::life(seen))); });  // [R1] pairs with [A1] seat.h:[A1]
    return true;
  }

  // All seats; how many were cleaned up.
  u32 recover_all(u32 own) {
    u32 recovered = 0;
    for (u32 seat = 1; seat <= tables_.seats; ++seat) recovered += seat != own && recover(seat, own);
    return recovered;
  }

  // Whether a participant's word says that somebody has died and nobody cleans up. The word must have been read before.
  bool is_left_behind(u64 word) {
    if (participant::kind(word) == Kind::kAlive) return world_.gone(participant::token(word));
    if (participant::kind(word) != Kind::kRecovering) return false;
    const u32 claimer = participant::claimer(word);
    if (!tables_.is_seat(claimer)) return true;
    const u64 theirs = tables_.participant(claimer).load_acquire();  // [A1] pairs with [R1] [R2] seat.h:[R2]
    const bool same_life = participant::life(theirs) == participant::claimers_life(word);
    if (participant::kind(theirs) != Kind::kAlive || !same_life) return true;
    return world_.gone(participant::token(theirs));
  }

  // The participant's word becomes `next`, if it is still what it was; that is the claim.
  bool claim(u32 seat, u64 seen, u64 next) {
    auto& word = tables_.participant(seat);
    return word.cas_release(seen, next);  // [R2] pairs with [A1]
  }

  // R3 … R6.
  void clean_up(u32 seat) {
    empty_slot(seat);
    free_magazines(seat);
    Env::fence_full();  // [F1] pairs with small.h:[F2]
    const u32 frames = world_.frames();
    for (u32 f = 0; f < frames; ++f) settle_frame(seat, f, frames);
  }

 private:
  void empty_slot(u32 seat) {
    auto& record = tables_.slab(seat).in_slot;
    const u64 at = record.load_relaxed();
    if (at == 0) return;
    if (auto* slot = world_.slot(at); slot != nullptr && is_in_hand(seat, slot->load_relaxed())) slot->store_relaxed(0);
    Env::fence_signal();
    record.store_relaxed(0);
  }

  // Whether the block is the seat's, neither free nor the program's.
  bool is_in_hand(u32 seat, u64 block) {
    const u32 frames = world_.frames();
    if (const Place p = place(tables_, block, frames); p.size_class != 0)
      return tables_.state(p.frame, p.index).load_relaxed() == state::cached(seat);
    const u64 f = tables_.frame_of(block);
    if (f >= frames || tables_.offset_of(static_cast<u32>(f)) != block) return false;
    const u64 entry = tables_.entries[f].load_relaxed();
    return entry::kind(entry) == entry::Kind::kClaim && entry::holder(entry) == seat;
  }

  void free_magazines(u32 seat) {
    auto& slab = tables_.slab(seat);
    const u32 frames = world_.frames();
    Small small(world_);
    for (u32 c = 1; c < World::Shape::kClasses; ++c) {
      for (u32 i = 0; i < World::Shape::slots(c); ++i) {
        const u64 block = slab.slots[World::Shape::first_slot(c) + i].load_relaxed();
        const Place p = place(tables_, block, frames);
        if (p.size_class == 0) continue;
        auto& state = tables_.state(p.frame, p.index);
        if (state.load_relaxed() != state::cached(seat)) continue;
        small.give(seat, p.frame, p.size_class, p.index / 64, u64{1} << (p.index % 64));
      }
    }
  }

  void settle_frame(u32 seat, u32 f, u32 frames) {
    const u64 entry = tables_.entries[f].load_relaxed();
    const u32 holder = entry::holder(entry);
    if (entry::kind(entry) == entry::Kind::kClaim && holder == seat) {
      Runs(world_).abandon(f, static_cast<u32>(clamp(entry::count(entry), 1, frames - f)));
    } else if (const u32 c = tables_.class_at(entry, f, frames); c != 0) {
      Small small(world_);
      if (holder == seat) {
        small.let_go(seat, f, c);
      } else if (holder == kNobody) {
        small.look(seat, f, c);
      }
    }
  }

  World& world_;
  const typename World::Tables& tables_;
};

}  // namespace freeway::shared
