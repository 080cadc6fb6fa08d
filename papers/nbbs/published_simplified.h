// SPDX-License-Identifier: MIT
// PublishedSimplifiedTree: the paper's Algorithms 4 to 7 as printed, five state bits a node; k = 1 (Section 3.1) or the
// 3-level form (Section 3.2: seven nodes in a word, one CAS for all that is done to them in one pass).
//
// IT HANDS OUT BLOCKS TWICE: a coalescing bit does not say whose coalescing it is (papers/nbbs/README.md). It is here
// to be measured, and for the model that must find it. `trying` and `upper_bound` are parameters: as the globals that
// the text speaks of they would be a race of their own.
//
// Word      for the node at position p five bits from 5 (p - 1) up: OCCUPY 16, coalescing left 8 and right 4, occupied
//           left 2 and right 1. A handed out node has OCCUPY and both occupied bits
// Orders    the paper's machine is TSO and its CAS a full barrier: every RMW is acq_rel here; [A1] sees what [R1]
//           published
// Checked   papers/nbbs/tests/published_model.cc
#pragma once

#include "papers/nbbs/shape.h"

namespace freeway::nbbs {

// The states of a node; Section 3.1, Code 3.2.
struct NodeState {
  static constexpr u64 kOccupy = 0x10, kLeftCoalesce = 0x8, kRightCoalesce = 0x4, kOccupyLeft = 0x2, kOccupyRight = 0x1;
  static constexpr u64 kTaken = kOccupy | kOccupyLeft | kOccupyRight;
  static constexpr u64 coalesce(Node child) { return child % 2 == 0 ? kLeftCoalesce : kRightCoalesce; }
  static constexpr u64 occupied(Node child) { return child % 2 == 0 ? kOccupyLeft : kOccupyRight; }
  static constexpr u64 brother(Node child) { return occupied(child ^ 1); }
};

template <class Env, unsigned kLevels> class PublishedSimplifiedTree {
 public:
  static_assert(kLevels == 1 || kLevels == 3, "five bits a node");
  using In = Bunches<kLevels>;
  using Word = typename Env::template Atomic<u64>;

  PublishedSimplifiedTree(Word* words, unsigned levels) : words_(words), levels_(levels) {}

  // Algorithm 4: ALLOC(n). 0, or the node because of which it failed.
  Node alloc(Node n) {
    Word& word = at(n);
    u64 seen = word.load_relaxed();
    for (;;) {
      if (get(seen, n) != 0) return n;  // lines 5–6
      u64 next = with(seen, n, NodeState::kTaken);
      for (Node child = n; child != In::root(n); child /= 2) {  // 3-level: the ancestors in the word at once
        if ((get(seen, child / 2) & NodeState::kOccupy) != 0) return child / 2;
        next = mark_occupied(next, child);
      }
      Env::step("nbbs.claim");
      if (word.cas_acq_rel(seen, next)) break;  // [R1] [A1] pairs with [A1] [R1]
      if (kLevels == 1) return n;               // lines 7–8; with other nodes in the word it is done again
    }
    return In::root(n) == 1 ? 0 : check_parent(In::root(n), n);  // line 9
  }

  // Algorithm 6: FREE(n, upper_bound).
  bool free_node(Node n, Node upper_bound = 1) {
    if ((get(at(n).load_relaxed(), n) & NodeState::kOccupy) == 0) return false;
    mark(n, upper_bound);
    Env::step("nbbs.free");
    if constexpr (kLevels == 1) {
      at(n).store_release(0);  // line 14; [R1] pairs with [A1]
    } else {
      u64 seen = at(n).load_relaxed();
      while (!at(n).cas_acq_rel(seen, with(seen, n, 0))) continue;  // [R1] [A1] pairs with [A1] [R1]
    }
    if (n != upper_bound) unmark(n, upper_bound);  // lines 15–16
    return true;
  }

  Node seek(Node n) const { return n; }  // ALLOC looks
  Node occupied_over(Node n) const {
    for (unsigned level = 0; level <= level_of(n); ++level) {
      const Node over = n >> (level_of(n) - level);
      if ((get(at(over).load_relaxed(), over) & NodeState::kOccupy) != 0) return over;
    }
    return 0;
  }
  template <class F> void each_block(F&& f, Node n = 1) const {
    const u64 state = get(at(n).load_relaxed(), n);
    if ((state & NodeState::kOccupy) != 0) return f(n);
    if ((state & NodeState::kOccupyLeft) != 0 && level_of(n) + 1 < levels_) each_block(f, 2 * n);
    if ((state & NodeState::kOccupyRight) != 0 && level_of(n) + 1 < levels_) each_block(f, 2 * n + 1);
  }
  void repair_all() {}  // the published form knows no way

 private:
  // Algorithm 5: CHECK_PARENT(n); n is the root of a bunch.
  Node check_parent(Node n, Node trying) {
    for (;;) {
      Word& word = at(n / 2);
      const Node root = In::root(n / 2);
      u64 seen = word.load_relaxed(), next;
      do {
        next = seen;
        for (Node child = n; child != root; child /= 2) {
          if ((get(seen, child / 2) & NodeState::kOccupy) != 0) {  // lines 4–6
            free_node(trying, n);
            return child / 2;
          }
          next = mark_occupied(next, child);  // lines 8–13
        }
        Env::step("nbbs.climb");
      } while (!word.cas_acq_rel(seen, next));  // line 14, read as "until CAS"; [R1] [A1] pairs with [A1] [R1]
      if (root == 1) return 0;  // line 15
      n = root;
    }
  }

  // Lines 4–13 of Algorithm 6: the coalescing bits, up to and with upper_bound's.
  void mark(Node n, Node upper_bound) {
    for (Node runner = n; runner != upper_bound;) {
      Word& word = at(runner / 2);
      const Node start = runner, root = In::root(runner / 2);
      u64 seen = word.load_relaxed(), next;
      do {
        next = seen;
        for (runner = start; runner != root && runner != upper_bound; runner /= 2)
          next = with(next, runner / 2, get(next, runner / 2) | NodeState::coalesce(runner));
        Env::step("nbbs.mark");
      } while (!word.cas_acq_rel(seen, next));  // [R1] [A1] pairs with [A1] [R1]
    }
  }

  // Algorithm 7: UNMARK(n, upper_bound).
  void unmark(Node n, Node upper_bound) {
    for (bool stop = false; !stop;) {
      Word& word = at(n / 2);
      const Node start = n, root = In::root(n / 2);
      u64 seen = word.load_relaxed(), next;
      do {
        next = seen;
        stop = false;
        for (n = start; n != root && !stop; n /= 2) {
          const Node actual = n / 2;
          const u64 state = get(next, actual);
          if ((state & NodeState::coalesce(n)) == 0) {  // lines 6–9
            if (n == start) return;
            stop = true;
            break;
          }
          next = with(next, actual, state & ~NodeState::coalesce(n) & ~NodeState::occupied(n));  // lines 10–15
          stop = actual == upper_bound || (state & NodeState::brother(n)) != 0;                  // lines 17–22
        }
        Env::step("nbbs.unmark");
      } while (!word.cas_acq_rel(seen, next));  // line 16; [R1] [A1] pairs with [A1] [R1]
    }
  }

  static constexpr unsigned shift(Node n) { return 5 * (In::position(n) - 1); }
  static constexpr u64 get(u64 word, Node n) { return word >> shift(n) & 0x1f; }
  static constexpr u64 with(u64 word, Node n, u64 state) {
    return (word & ~(u64{0x1f} << shift(n))) | state << shift(n);
  }
  // Algorithm 5, lines 8–13, for the parent of `child`.
  static constexpr u64 mark_occupied(u64 word, Node child) {
    const u64 state = get(word, child / 2);
    return with(word, child / 2, (state & ~NodeState::coalesce(child)) | NodeState::occupied(child));
  }
  Word& at(Node n) const { return words_[In::index(In::root(n))]; }

  Word* words_;
  unsigned levels_;
};

}  // namespace freeway::nbbs
