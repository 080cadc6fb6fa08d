// SPDX-License-Identifier: MIT
// Buddy: a tree of some form and size, and the search in it. It lives in memory given by the caller and holds no
// address, so that processes which map that memory at different places can use it at once.
//
// Memory    this header, the words of the tree, and for the published 4-level form one byte a smallest block (the level
//           of the block that begins there; its words do not tell)
// Who       take, give, …: any thread, process or handler; init: one, before all others
// Orders    orders_ is written and read by a block's owner only: relaxed
// Lost if killed: what the tree loses (papers/nbbs/README.md)
// Checked   papers/nbbs/tests/buddy_test.cc, buddy_threads_test.cc, killed_test.cc
#pragma once

#include "base/check.h"
#include "papers/nbbs/published_optimized.h"
#include "papers/nbbs/spin_tree.h"

namespace freeway::nbbs {

enum class Kind : u32 { kCorrected, kCorrectedUp, kPublished, kSpin };

struct Settings {
  unsigned levels;     // of the tree: it manages 2^(levels - 1) smallest blocks
  unsigned min_shift;  // logarithms of the smallest and the largest block's bytes
  unsigned max_shift;
  unsigned levels_per_word;
  Kind kind;

  constexpr bool valid() const {
    return levels >= 1 && levels <= kMostLevels && min_shift + levels - 1 < 48 && min_shift <= max_shift &&
           max_shift <= root_shift() && (levels_per_word == 1 || levels_per_word == 3 || levels_per_word == 4) &&
           kind <= Kind::kSpin;
  }
  constexpr unsigned root_shift() const { return min_shift + levels - 1; }
  constexpr std::size_t managed() const { return std::size_t{1} << root_shift(); }
  constexpr u64 words() const {
    return levels_per_word == 1   ? Bunches<1>::words(levels)
           : levels_per_word == 3 ? Bunches<3>::words(levels)
                                  : Bunches<4>::words(levels);
  }
  constexpr bool needs_orders() const { return kind == Kind::kPublished && levels_per_word == 4; }
};

// The level whose blocks are the smallest of at least `bytes`, which is at most the largest block's size.
constexpr unsigned level_for(const Settings& s, std::size_t bytes) {
  const unsigned shift = log2_ceil(bytes);
  return s.root_shift() - (shift < s.min_shift ? s.min_shift : shift);
}
constexpr std::size_t bytes_of(const Settings& s, Node n) { return std::size_t{1} << (s.root_shift() - level_of(n)); }
constexpr std::size_t offset_of(const Settings& s, Node n) { return (n - first_of(level_of(n))) * bytes_of(s, n); }
// The node of `level` that holds the byte at `offset`.
constexpr Node node_at(const Settings& s, std::size_t offset, unsigned level) {
  return first_of(level) + (offset >> (s.root_shift() - level));
}

template <class Env> class alignas(64) Buddy {
 public:
  using Word = typename Env::template Atomic<u64>;
  using Order = typename Env::template Atomic<u8>;

  static constexpr std::size_t bytes(const Settings& s) {
    return sizeof(Buddy) + s.words() * sizeof(Word) + (s.needs_orders() ? first_of(s.levels - 1) : 0);
  }
  // In zeroed memory of that size.
  void init(const Settings& settings) { settings_ = settings; }
  const Settings& settings() const { return settings_; }

  // Occupies a node of `level`, looking from `start` (one of them) on around; 0 if there is none.
  Node take(unsigned level, Node start) {
    return with_tree([&](auto tree) {
      Node n = search(tree, start, last_of(level));
      if (n == 0 && start != first_of(level)) n = search(tree, first_of(level), start - 1);
      if (n != 0) remember(n);
      return n;
    });
  }
  // The same for nodes from `first` to `last` only.
  Node take_within(Node first, Node last) {
    return with_tree([&](auto tree) {
      const Node n = search(tree, first, last);
      if (n != 0) remember(n);
      return n;
    });
  }
  // Occupies just this node. (Section 2: "allocate memory in a specific address")
  bool take_node(Node n) {
    return with_tree([&](auto tree) {
      if (tree.alloc(n) != 0) return false;
      remember(n);
      return true;
    });
  }
  // False: it was not occupied.
  bool give(Node n) {
    if (settings_.needs_orders()) orders()[leaf_of(n)].store_relaxed(0);
    return with_tree([&](auto tree) { return tree.free_node(n); });
  }

  // The occupied node that holds the byte at `offset`, 0 if there is none. Exact for a block that is held meanwhile.
  // Where the form's words do not tell, only for a block's first byte.
  Node block_at(std::size_t offset) {
    const Node leaf = node_at(settings_, offset, settings_.levels - 1);
    if (settings_.needs_orders()) {
      const unsigned level = orders()[leaf - first_of(settings_.levels - 1)].load_relaxed();
      return level == 0 ? 0 : leaf >> (settings_.levels - level);
    }
    return with_tree([&](auto tree) {
      if constexpr (requires { tree.occupied_over(leaf); }) return tree.occupied_over(leaf);
      return Node{0};
    });
  }

  // Whether node n could be had now, as far as the words say.
  bool seems_free(Node n) {
    return with_tree([&](auto tree) { return tree.seek(n) == n; });
  }
  // Whether no block is there, as far as the root's word tells.
  bool is_empty() {
    const u64 root = words()->load_relaxed();
    if (settings_.kind == Kind::kPublished) return root == 0;
    const unsigned k = settings_.levels_per_word;
    return (root & (k == 1 ? StampedWord<1>::kInUse : k == 3 ? StampedWord<3>::kInUse : StampedWord<4>::kInUse)) == 0;
  }

  // Calls f(node) for each block, while nobody else changes the tree.
  template <class F> void each_block(F&& f) {
    if (settings_.needs_orders()) {
      for (u64 i = 0; i < first_of(settings_.levels - 1); ++i)
        if (unsigned level = orders()[i].load_relaxed())
          f((first_of(settings_.levels - 1) + i) >> (settings_.levels - level));
      return;
    }
    with_tree([&](auto tree) {
      if constexpr (requires { tree.each_block(f); }) tree.each_block(f);
      return 0;
    });
  }
  // The level of the largest block that could be had now, as far as the words say; `levels` if none.
  unsigned largest_free_level() {
    for (unsigned level = settings_.root_shift() - settings_.max_shift; level < settings_.levels; ++level)
      if (with_tree([&](auto tree) { return find(tree, first_of(level), last_of(level)); }) != 0) return level;
    return settings_.levels;
  }

  // Takes away what killed threads left above n (see StampedTree::repair), or everywhere.
  void repair(Node n) {
    with_tree([&](auto tree) {
      if constexpr (requires { tree.repair(n); }) tree.repair(n);
      return 0;
    });
  }
  void repair_all() {
    with_tree([&](auto tree) {
      tree.repair_all();
      return 0;
    });
  }

 private:
  template <class F> auto with_tree(F&& f) {
    const unsigned k = settings_.levels_per_word, levels = settings_.levels;
    switch (settings_.kind) {
      case Kind::kCorrectedUp:
        if (k == 1) return f(StampedTree<Env, 1, true>(words(), levels));
        if (k == 3) return f(StampedTree<Env, 3, true>(words(), levels));
        return f(StampedTree<Env, 4, true>(words(), levels));
      case Kind::kPublished:
        if (k == 1) return f(PublishedSimplifiedTree<Env, 1>(words(), levels));
        if (k == 3) return f(PublishedSimplifiedTree<Env, 3>(words(), levels));
        return f(PublishedOptimizedTree<Env>(words(), levels));
      case Kind::kSpin:
        if (k == 1) return f(SpinTree<Env, 1>(words(), levels, &lock_));
        if (k == 3) return f(SpinTree<Env, 3>(words(), levels, &lock_));
        return f(SpinTree<Env, 4>(words(), levels, &lock_));
      default:
        if (k == 1) return f(StampedTree<Env, 1, false>(words(), levels));
        if (k == 3) return f(StampedTree<Env, 3, false>(words(), levels));
        return f(StampedTree<Env, 4, false>(words(), levels));
    }
  }

  // The first node from `from` to `to`, of one level, that can be occupied. What fails because of a bigger block goes
  // on behind that block (Section 3.1.1).
  template <class Tree> static Node search(Tree& tree, Node from, Node to) {
    const unsigned level = level_of(to);
    for (Node n = from; n <= to;) {
      if (Node next = tree.seek(n); next != n) {
        n = next;
        continue;
      }
      const Node failed = tree.alloc(n);
      if (failed == 0) return n;
      n = after(failed, level);
    }
    return 0;
  }
  // The same without occupying it.
  template <class Tree> static Node find(Tree& tree, Node from, Node to) {
    for (Node n = from; n <= to;) {
      const Node next = tree.seek(n);
      if (next == n) return n;
      n = next;
    }
    return 0;
  }

  void remember(Node n) {
    if (settings_.needs_orders()) orders()[leaf_of(n)].store_relaxed(static_cast<u8>(level_of(n) + 1));
  }
  u64 leaf_of(Node n) const { return offset_of(settings_, n) >> settings_.min_shift; }
  Word* words() { return reinterpret_cast<Word*>(this + 1); }
  Order* orders() { return reinterpret_cast<Order*>(words() + settings_.words()); }

  Settings settings_;
  typename Env::template Atomic<u32> lock_;  // SpinTree's
};

}  // namespace freeway::nbbs
