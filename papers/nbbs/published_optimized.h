// SPDX-License-Identifier: MIT
// PublishedOptimizedTree: the paper's Algorithms 8 to 14 as printed, four levels in a word.
//
// IT HANDS OUT BLOCKS TWICE, in two ways (papers/nbbs/README.md): as the 1-level form does, at every border between
// bunches; and because Algorithm 14 goes on with `continue` (lines 13 and 20) without `exit = true`, so that unmark_
// runs a second time on the same node. kRepairedExit mends the latter. It is here to be measured, and for the model
// that must find both. `upper_bound` is a parameter: as the global variable of the text it is a race, and a plain free
// would stop at whatever the last allocation left there.
//
// Word      one bit for each of the 7 inner nodes (0 … 6), then five (published_simplified.h) for each of the 8 leaves:
//           7 x 1 + 8 x 5 = 47 bits. What is handed out marks all below it in the word, and everything above it
// Reading   Algorithms 9 and 12 print the cases the wrong way round (they would mark bunch leaves as inner nodes, and
//           the nodes below the leaves, which are in other words): here a child is marked as what it is
// Sizes     cannot be read from the word (two leaves in use look like their parent in use): whoever frees must know
// Orders    as in published_simplified.h: [R1], [A1]
// Checked   papers/nbbs/tests/published_model.cc
#pragma once

#include "papers/nbbs/published_simplified.h"

namespace freeway::nbbs {

template <class Env, bool kRepairedExit = false> class PublishedOptimizedTree {
 public:
  using In = Bunches<4>;
  using Word = typename Env::template Atomic<u64>;

  PublishedOptimizedTree(Word* words, unsigned levels) : words_(words), levels_(levels) {}

  // Algorithm 8: ALLOC(n). 0, or the node because of which it failed.
  Node alloc(Node n) {
    Word& word = at(n);
    u64 seen = word.load_relaxed(), next;
    do {
      if (get(seen, n) != 0) return n;  // lines 4–5
      next = seen;
      for (Node current = n; current != In::root(n); current /= 2) next = lock(next, current / 2);  // lines 8–10
      next = occupy_descendants(n, lock(next, n));                                                  // lines 11–16
      Env::step("nbbs.claim");
    } while (!word.cas_acq_rel(seen, next));  // line 17; [R1] [A1] pairs with [A1] [R1]
    if (In::root(n) == 1) return 0;  // lines 18–19
    Node upper_bound = In::root(n);
    const Node failed = check_parent(upper_bound);
    if (failed != 0) free_node(n, upper_bound);  // line 23
    return failed;
  }

  // Algorithm 11: FREE_NODE(n).
  bool free_node(Node n, Node upper_bound = 1) {
    if (get(at(n).load_relaxed(), n) == 0) return false;
    if (In::root(n) != upper_bound) mark(In::root(n), upper_bound);  // lines 2–3
    Word& word = at(n);
    u64 seen = word.load_relaxed(), next;
    bool exit;
    do {
      next = free_ancestors(seen, n, &exit);        // lines 5–15
      next = unlock(free_descendants(n, next), n);  // lines 16–21
      Env::step("nbbs.free");
    } while (!word.cas_acq_rel(seen, next));  // line 22; [R1] [A1] pairs with [A1] [R1]
    if (In::root(n) != upper_bound && !exit) unmark(In::root(n), upper_bound);  // lines 23–24
    return true;
  }

  Node seek(Node n) const { return n; }  // ALLOC looks
  void repair_all() {}                   // the published form knows no way

 private:
  // Algorithm 10: CHECK_PARENT(n); n is the root of a bunch. `upper_bound` becomes the last that was marked.
  Node check_parent(Node& n) {
    for (;;) {
      const Node parent = n / 2, root = In::root(parent);
      Word& word = at(parent);
      u64 seen = word.load_relaxed(), next;
      do {
        const u64 state = get(seen, parent);
        if ((state & NodeState::kOccupy) != 0) return parent;                                       // lines 7–8
        next = put(seen, parent, (state & ~NodeState::coalesce(n)) | NodeState::occupied(n));       // lines 9–14
        for (Node current = parent; current != root; current /= 2) next = lock(next, current / 2);  // line 15
        Env::step("nbbs.climb");
      } while (!word.cas_acq_rel(seen, next));  // line 16; [R1] [A1] pairs with [A1] [R1]
      if (root == 1) return 0;  // lines 17–18
      n = root;
    }
  }

  // Algorithm 13: MARK(n).
  void mark(Node n, Node upper_bound) {
    for (;;) {
      const Node parent = n / 2;
      Word& word = at(parent);
      u64 seen = word.load_relaxed();
      do Env::step("nbbs.mark");
      while (!word.cas_acq_rel(seen, put(seen, parent, get(seen, parent) | NodeState::coalesce(n))));  // [R1] [A1]
      if (In::root(parent) == upper_bound) return;
      n = In::root(parent);
    }
  }

  // Algorithm 14: UNMARK_(n).
  void unmark(Node n, Node upper_bound) {
    for (;;) {
      const Node parent = n / 2;
      Word& word = at(parent);
      u64 seen = word.load_relaxed(), next;
      Node current;
      bool exit;
      do {
        exit = false;
        current = n;
        const u64 state = get(seen, parent);
        if ((state & NodeState::coalesce(n)) == 0) return;                                    // lines 8–9, 15–16
        next = put(seen, parent, state & ~NodeState::coalesce(n) & ~NodeState::occupied(n));  // lines 10–11, 17–18
        if ((state & NodeState::brother(n)) != 0) {                                           // lines 12–13, 19–20
          exit = kRepairedExit;
        } else {
          current = In::root(parent);
          next = free_ancestors(next, parent, &exit);  // lines 21–29
        }
        Env::step("nbbs.unmark");
      } while (!word.cas_acq_rel(seen, next));  // line 30; [R1] [A1] pairs with [A1] [R1]
      if (current == upper_bound || exit) return;  // lines 31–32
      n = current;
    }
  }

  // Algorithms 9 and 12: OCCUPY_DESCENDANTS, FREE_DESCENDANTS.
  static constexpr u64 occupy_descendants(Node n, u64 word) {
    if (is_leaf(n)) return word;
    word = occupy_descendants(2 * n, lock(word, 2 * n));
    return occupy_descendants(2 * n + 1, lock(word, 2 * n + 1));
  }
  static constexpr u64 free_descendants(Node n, u64 word) {
    if (is_leaf(n)) return word;
    word = free_descendants(2 * n, unlock(word, 2 * n));
    return free_descendants(2 * n + 1, unlock(word, 2 * n + 1));
  }
  // Algorithm 11, lines 9–15, and 14, lines 23–29: n's ancestors in the word, until a brother is in use.
  static constexpr u64 free_ancestors(u64 word, Node n, bool* exit) {
    *exit = false;
    for (Node current = n; current != In::root(n); current /= 2) {
      if (get(word, current ^ 1) != 0) {
        *exit = true;
        break;
      }
      word = unlock(word, current / 2);
    }
    return word;
  }

  static constexpr bool is_leaf(Node n) { return In::depth(n) == 3; }
  static constexpr unsigned shift(Node n) {
    return is_leaf(n) ? 7 + 5 * (In::position(n) - In::kFirstLeaf) : In::position(n) - 1;
  }
  static constexpr u64 mask(Node n) { return is_leaf(n) ? 0x1f : 1; }
  static constexpr u64 get(u64 word, Node n) { return word >> shift(n) & mask(n); }
  static constexpr u64 put(u64 word, Node n, u64 state) { return (word & ~(mask(n) << shift(n))) | state << shift(n); }
  static constexpr u64 lock(u64 word, Node n) { return put(word, n, is_leaf(n) ? NodeState::kTaken : 1); }
  static constexpr u64 unlock(u64 word, Node n) { return put(word, n, 0); }
  Word& at(Node n) const { return words_[In::index(In::root(n))]; }

  Word* words_;
  unsigned levels_;
};

}  // namespace freeway::nbbs
