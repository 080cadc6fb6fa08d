// SPDX-License-Identifier: MIT
// StampedTree: the corrected buddy tree ("stamped clear"), k levels of the tree in a word, k = 1, 3 or 4.
//
// The paper's coalescing bits do not say whose coalescing they are: that is how it hands out a block twice
// (papers/nbbs/README.md). Here neither they nor the marking phase exist. Every climbing allocation advances the stamp
// of each word it passes, and a hint is only cleared by a CAS that spans "read the word, then see the bunch below
// empty".
//
// Word      stamped_word.h: OCC a node, a hint a bunch below, UP, stamp
// Moves     claim: OCC(n) where nothing in the word conflicts (CAS)      free: OCC(n) away (CAS; k = 1: store)
//           climb: hint set *and stamp + 1*, unless an ancestor is occupied: then the claim is rolled back by free
//           (CAS) up: UP set in the words that a climb came through            clear: a hint away (CAS, stamp
//           unchanged)
// Who       claim: anybody; free: the node's owner; clear: anybody who sees the bunch below empty
// Invariant while a block is held, every word above it has its hint. For: a clear that removes the hint read the upper
//           word after the block's own climb (else the stamp differs and the CAS fails), so it then read the word below
//           after the block's claim, and saw it in use
//           a node is claimed only where no hint and no OCC conflicts, a climb ends at an OCC: both are RMWs of one
//           word, so one of them is first. Bigger claims are never rolled back by smaller ones
// Orders    [R1] free, [R2] climb, [R3] clear and [R4] up publish what was done to blocks and words below;
//           [A1] claim, [A2] climb and [A3] free see it; [A4] [A5] clear: the upper word before the lower
//           (free acquires so that, rolling back, it does not miss another's hint)
// ABA       the stamp: a clear is wrong if its thread sleeps between the lower read and its CAS while a multiple of
//           2^32 climbs (k = 4; 2^48, 2^60) pass that very word and leave all other bits the same: more than 200 s at
//           20 million climbs a second, and then with a chance of 2^-32. Claims need no stamp: what they see is what
//           counts
// Linearizes at the claim's CAS if nothing occupied is above it, else at the climb that met it; free at its CAS
// Progress  lock-free; an operation is at most one RMW a word on its path up and one down, apart from CASes that fail
//           because another's succeeded           Lost if killed: papers/nbbs/README.md, "What a killed process
//                                                 strands"
// Checked   papers/nbbs/tests/*_model.cc, tree_test.cc, killed_test.cc
#pragma once

#include "papers/nbbs/stamped_word.h"

namespace freeway::nbbs {

template <class Env, unsigned kLevels, bool kUp> class StampedTree {
 public:
  using In = Bunches<kLevels>;
  using Word = typename Env::template Atomic<u64>;
  using W = StampedWord<kLevels>;

  // `words`: In::words(levels) of them, all zero in a tree without blocks.
  StampedTree(Word* words, unsigned levels) : words_(words), levels_(levels) {}

  // Occupies node n. Returns 0, or the node because of which it failed: n, or an occupied ancestor. (Alg. 4 and 8:
  // ALLOC)
  Node alloc(Node n) {
    const Node c = In::root(n);
    const unsigned p = In::position(n);
    Word& word = at(c);
    u64 seen = word.load_relaxed();
    do {
      if ((seen & kTables.conflicts[p]) != 0) return highest(c, seen & kTables.over[p], n);
      Env::step("nbbs.claim");
    } while (!word.cas_acquire(seen, seen | W::bit(p)));  // [A1] pairs with [R1] [R3] [R4]
    if (c == 1 || (kUp && (seen & W::kUp) != 0)) return 0;
    return check_parent(n, c);
  }

  // Gives node n back, or takes back a claim of it. False: it was not occupied, nothing was done. (Alg. 6 and 11: FREE)
  bool free_node(Node n) {
    const Node c = In::root(n);
    const u64 mine = W::bit(In::position(n));
    Word& word = at(c);
    u64 seen = word.load_relaxed(), next;
    if constexpr (kLevels == 1) {
      // Nobody else can change an occupied word of one node: nothing is below it, claims and climbs stop at OCC.
      next = seen & ~(mine | W::kUp);
      if ((seen & mine) == 0) return false;
      Env::step("nbbs.free");
      word.store_release(next);  // [R1] pairs with [A1]
    } else {
      do {
        if ((seen & mine) == 0) return false;
        next = W::settled(seen & ~mine);
        Env::step("nbbs.free");
      } while (!word.cas_acq_rel(seen, next));  // [R1] [A3] pairs with [A1] [A5] [R2]
    }
    if ((next & W::kInUse) == 0) unmark(c);
    return true;
  }

  // Clears the hints that are set for the empty bunch with root c, upwards until something is in use. (Alg. 7 and 14:
  // UNMARK) Anybody may call it.
  void unmark(Node c) {
    for (; c != 1; c = In::upper(c)) {
      Word& upper = at(In::upper(c));
      const u64 hint = W::hint(c);
      u64 seen, next;
      do {
        seen = upper.load_acquire();     // [A4] pairs with [R2] [R3]
        if ((seen & hint) == 0) return;  // somebody else did it
        Env::step("nbbs.look");
        if (below_in_use(c)) return;  // whoever uses it will do it
        next = W::settled(seen & ~hint);
        Env::step("nbbs.clear");
      } while (!upper.cas_release(seen, next));  // [R3] pairs with [A1] [A2] [A4] [A5]
      if ((next & W::kInUse) != 0) return;
    }
  }

  // Clears the hints below n that no block stands behind: what threads left that were killed in unmark. For when n
  // cannot be had although it should be free. O(hints below n). A hint below a cleared one is found only from the node
  // under it.
  void repair(Node n) {
    const Node c = In::root(n);
    each_bit(at(c).load_relaxed() & W::kHints & kTables.conflicts[In::position(n)], [&](unsigned position) {
      const Node below = In::node(c, position);
      repair(below);
      if (!in_use(below)) unmark(below);
    });
  }
  // The same for the whole tree, whatever the hints say, from the lowest words upwards: O(words).
  void repair_all() {
    for (unsigned level = (levels_ - 1) / kLevels * kLevels; level != 0; level -= kLevels)
      for (Node c = first_of(level); c <= last_of(level); ++c)
        if ((at(In::upper(c)).load_relaxed() & W::hint(c)) != 0 && !in_use(c)) unmark(c);
  }

  // For a search: n if it looks free, else the next node of its level that is worth a look. Changes nothing.
  Node seek(Node n) const {
    const Node c = In::root(n);
    const u64 seen = at(c).load_relaxed();  // OPTIMISTIC: tree
    if ((seen & W::kInUse) == 0) {
      const Node over = occupied_above(c);
      return over == 0 ? n : after(over, level_of(n));
    }
    const unsigned p = In::position(n);
    const unsigned end = 2U << In::depth(n);
    for (unsigned q = p; q < end; ++q)
      if ((seen & kTables.conflicts[q]) == 0) return n + (q - p);
    return n + (end - p);
  }

  // The occupied node that node n is in, 0 if there is none. Exact while that one is held: it is the highest on the
  // path, for what is below it can only be a claim that will be rolled back.
  Node occupied_over(Node n) const {
    for (unsigned level = 0; level <= level_of(n); level += kLevels) {
      const Node c = n >> (level_of(n) - level);
      const unsigned deeper = level_of(n) - level < kLevels ? level_of(n) - level : kLevels - 1;
      const unsigned p = In::position(n >> (level_of(n) - level - deeper));
      if (u64 hit = at(c).load_relaxed() & kTables.over[p]) return In::node(c, lowest_bit(hit));
    }
    return 0;
  }

  // Calls f(node) for each occupied node that hints lead to. `root`: of a bunch.
  template <class F> void each_block(F&& f, Node root = 1) const {
    const u64 seen = at(root).load_relaxed();
    each_bit(seen & W::kOccupied, [&](unsigned position) { f(In::node(root, position)); });
    each_bit(seen & W::kHints, [&](unsigned position) { each_block(f, In::node(root, position)); });
  }

  bool in_use(Node root) const { return (at(root).load_relaxed() & W::kInUse) != 0; }
  unsigned levels() const { return levels_; }
  Word& at(Node root) const { return words_[In::index(root)]; }

 private:
  // Sets the hints above the claimed node n, whose bunch has root c. (Alg. 5 and 10: CHECK_PARENT)
  Node check_parent(Node n, Node c) {
    const Node first = c;
    do {
      const Node r = In::upper(c);
      const u64 over = kTables.over[In::parent_position(c)];
      const u64 hint = W::hint(c);
      Word& word = at(r);
      u64 seen = word.load_relaxed();
      do {
        if ((seen & over) != 0) {
          free_node(n);
          return In::node(r, lowest_bit(seen & over));
        }
        Env::step("nbbs.climb");
      } while (!word.cas_acq_rel(seen, climbed(seen, hint)));  // [R2] [A2] pairs with [A4] [A3] [R1] [R3]
      c = r;
      if (kUp && (seen & W::kUp) != 0 && (seen & W::kInUse) != 0) break;
    } while (c != 1);
    if constexpr (kUp)
      for (Node t = first; t != c; t = In::upper(t)) {
        Env::step("nbbs.up");
        at(t).fetch_or_release(W::kUp);  // [R4] pairs with [A1] [A2]
      }
    return 0;
  }

  static u64 climbed(u64 seen, u64 hint) { return W::with_stamp(seen | hint); }
  bool below_in_use(Node c) const { return (at(c).load_acquire() & W::kInUse) != 0; }  // [A5] pairs with [R1] [R2] [R3]

  Node occupied_above(Node c) const {
    for (; c != 1; c = In::upper(c)) {
      const u64 seen = at(In::upper(c)).load_relaxed();
      if (u64 hit = seen & kTables.over[In::parent_position(c)]) return In::node(In::upper(c), lowest_bit(hit));
      if ((seen & W::kInUse) != 0 && kUp && (seen & W::kUp) != 0) return 0;
    }
    return 0;
  }
  // The highest of the positions `set` in the bunch with root c; n if there is none.
  static Node highest(Node c, u64 set, Node n) { return set == 0 ? n : In::node(c, lowest_bit(set)); }

  template <class F> static void each_bit(u64 set, F&& f) {
    for (; set != 0; set &= set - 1) f(lowest_bit(set));
  }

  struct Tables {
    u64 conflicts[In::kPositions] = {};
    u64 over[In::kPositions] = {};
    constexpr Tables() {
      for (unsigned p = 1; p < In::kPositions; ++p) {
        conflicts[p] = W::conflicts(p);
        over[p] = W::occupied_over(p);
      }
    }
  };
  static constexpr Tables kTables{};

  Word* words_;
  unsigned levels_;
};

}  // namespace freeway::nbbs
