// SPDX-License-Identifier: MIT
// superblock_invariant.h: the invariant R of proof/superblock_state.v, and its steps, asked after each step of a model.
//
// Ghost     what the proof's resources say, kept beside the program: who holds a descriptor and owes what; what freers
//           between word and anchor have still to add (pending); whose each block is; in whose hands the entry, or the
//           descriptor without a superblock, is while it is in no list
// Steps     after each write the words are compared with what they were: the change must be one that a lemma R_… has,
//           by a thread that has what the lemma asks for; then R must hold of each descriptor
// Tied      proof/ties.txt has fingerprints of the functions here and of the definitions there: neither changes alone
// Not here  the blocks' memory: races on the contents (superblock_program.h) stand for that
#pragma once

#include "superblock/superblocks.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {

constexpr u32 kDescriptors = 3;
constexpr u32 kMostWords = 2;

// One descriptor, and what is known of it.
struct SuperblockGhost {
  static constexpr int kNobody = -1, kMain = 3, kLetter = 4, kOwners = 5;  // threads are 0, 1, 2
  enum class Place { kNone, kList, kPool };

  u64 anchor = 0;
  u64 words[kMostWords] = {};
  int holder = kNobody;
  u64 owed = 0;  // the holder's debt, as the anchor's counts
  u64 pending[kOwners] = {};
  u64 blocks[kOwners][kMostWords] = {};
  Place place = Place::kNone;
  int hand = kNobody;  // has its entry, or the descriptor without a superblock, in no list
};

// R of superblock_state.v. Each function is named as the definition there; each returns what is broken, or null.
class SuperblockInvariant {
 public:
  using Ghost = SuperblockGhost;

  static bool isE(const Ghost& g, unsigned c, const SizeClass& k) {
    return !anchor::is_held(g.anchor) && anchor::is_empty(g.anchor, c, k.words);
  }
  // The anchor counts the words that are not 0 and those that are full, without what is pending and with what is owed.
  static const char* facts(const Ghost& g, unsigned c, const SizeClass& k) {
    const bool u = anchor::is_unlisted(g.anchor), h = anchor::is_held(g.anchor), e = anchor::has_entry(g.anchor);
    u64 counts = g.owed;
    for (unsigned j = 0; j < k.words; ++j)
      counts += (g.words[j] != 0 ? anchor::kNonZero : 0) + (g.words[j] == k.full_mask(j) ? anchor::kFull : 0);
    for (const u64 each : g.pending) counts -= each;
    const u64 flags = (u ? anchor::kUnlisted : 0) | (h ? anchor::kHeld : 0) | (e ? anchor::kEntry : 0);
    if (g.anchor != (u64{c} << anchor::kClassShift) + flags + counts) return "R: the anchor counts the words (I3)";
    if (h != (g.holder != Ghost::kNobody)) return "R: HELD says that there is a holder";
    if (!h && (e || g.owed != 0)) return "R: without a holder there is no ENTRY and no debt";
    if (u && h) return "R: U is set only without a holder (I2)";
    return nullptr;
  }
  // Each block is free or in one pair of hands; of a superblock that is EMPTY all are free.
  static const char* words(const Ghost& g, const SizeClass& k, bool alive) {
    for (unsigned j = 0; j < k.words; ++j) {
      u64 all = g.words[j];
      for (const auto& blocks : g.blocks) {
        if ((all & blocks[j]) != 0) return "R: a block is free, or in one pair of hands";
        all |= blocks[j];
      }
      if (all != k.full_mask(j)) return "R: no block is lost";
      if (!alive && g.words[j] != all) return "R: of an EMPTY superblock nobody has a block";
    }
    return nullptr;
  }
  // Where the entry is: in no list and no hand while the holder has no ENTRY, or U is set; else in one of them.
  static const char* ctl(const Ghost& g) {
    const bool h = anchor::is_held(g.anchor), e = anchor::has_entry(g.anchor), u = anchor::is_unlisted(g.anchor);
    const int outside = (g.place != Ghost::Place::kNone) + (g.hand != Ghost::kNobody);
    if (((h && !e) || u) && outside != 0) return "R: what is held without ENTRY, or has U, is in no list and no hand";
    if (!((h && !e) || u) && outside != 1) return "R: an entry is in one list, or in one thread's hands (I4)";
    return nullptr;
  }
  static const char* R(const Ghost& g, unsigned c, const SizeClass& k) {
    if (const char* broken = facts(g, c, k)) return broken;
    if (const char* broken = words(g, k, !isE(g, c, k))) return broken;
    if (g.place == Ghost::Place::kPool && !isE(g, c, k)) return "R: a descriptor in a pool has no superblock";
    return ctl(g);
  }

  // `thread` has changed word j.
  static const char* word_changed(Ghost& g, const SizeClass& k, unsigned j, u64 now, int thread, bool purges) {
    const u64 old = g.words[j], set = now & ~old, cleared = old & ~now;
    g.words[j] = now;
    if (g.anchor == 0) return nullptr;  // by its maker, in its first life
    if (set != 0 && cleared != 0) return "a word's bits are set, or cleared";
    if (cleared != 0) {  // R_take
      if (g.holder != thread) return "only the holder clears bits (I1)";
      g.owed += anchor::minus(old, cleared, k.full_mask(j));
      g.blocks[thread][j] |= cleared;
      return nullptr;
    }
    if ((g.blocks[thread][j] & set) != set) return "a thread frees its own blocks";
    g.blocks[thread][j] &= ~set;
    const u64 change = anchor::plus(old, set, k.full_mask(j));
    if (purges) g.owed -= change;      // R_put
    else g.pending[thread] += change;  // R_free
    return nullptr;
  }

  // `thread` has changed the anchor.
  static const char* anchor_changed(Ghost& g, unsigned c, const SizeClass& k, u64 now, int thread) {
    const u64 old = g.anchor;
    constexpr u64 kFlags = anchor::kUnlisted | anchor::kHeld | anchor::kEntry;
    const u64 flags = (old ^ now) & kFlags, counts = (now & ~kFlags) - (old & ~kFlags);
    const bool was_dead = old == 0 || isE(g, c, k);
    g.anchor = now;
    if (was_dead && anchor::is_held(now)) {  // R_born
      if (now != anchor::born(c, k.words)) return "R_born: all is free, and held";
      if (g.hand != thread && !(old == 0 && g.hand == Ghost::kNobody)) return "R_born: by the thread that has it";
      g.hand = Ghost::kNobody;
      return begin(g, thread);
    }
    if (flags == 0) {  // R_faa
      if (counts != g.pending[thread]) return "R_faa: a freer adds what it changed";
      g.pending[thread] = 0;
      return nullptr;
    }
    if ((flags & anchor::kHeld) != 0 && anchor::is_held(now)) {  // R_adopt, R_take_at
      if (anchor::is_unlisted(old) || counts != 0) return "R_adopt: of what is listed, with its counts";
      if (!anchor::has_entry(now)) {
        if (g.hand != thread) return "R_adopt: by the thread that has the entry";
        g.hand = Ghost::kNobody;
      }
      return begin(g, thread);
    }
    if ((flags & anchor::kHeld) != 0) {  // R_let_go
      if (g.holder != thread || counts != ~g.owed + 1) return "R_let_go: by the holder, with its debt";
      if (!anchor::has_entry(old) && !anchor::is_unlisted(now)) g.hand = thread;
      g.holder = Ghost::kNobody;
      g.owed = 0;
      return nullptr;
    }
    if (counts != 0) return "counts change with no flag but HELD";
    if (flags == anchor::kUnlisted && !anchor::is_unlisted(now)) {  // R_claim, R_settle
      if (g.hand != Ghost::kNobody) return "R_claim: the entry is in nobody's hands";
      g.hand = thread;
      return nullptr;
    }
    // R_drop, R_unlist
    if (g.hand != thread) return "R_drop: by the thread that has the entry";
    g.hand = Ghost::kNobody;
    return nullptr;
  }

  // `thread` has put the descriptor into a list or pool, or taken it out of one.
  static const char* place_changed(Ghost& g, Ghost::Place now, int thread) {
    const bool comes = now != Ghost::Place::kNone;
    if (comes == (g.place != Ghost::Place::kNone)) return "a descriptor is in one list, once";
    g.place = now;
    if (comes && g.anchor == 0 && g.hand == Ghost::kNobody) return nullptr;  // made, and no span for it
    if (g.hand != (comes ? thread : Ghost::kNobody)) return "an entry is put by the thread that has it";
    g.hand = comes ? Ghost::kNobody : thread;
    return nullptr;
  }

 private:
  static const char* begin(Ghost& g, int thread) {
    g.holder = thread;
    g.owed = 0;
    return nullptr;
  }
};

}  // namespace freeway::model
