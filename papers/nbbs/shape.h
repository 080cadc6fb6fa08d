// SPDX-License-Identifier: MIT
// shape.h: where the nodes of a buddy tree are, as pure functions. Nothing is stored for it (the paper's struct node
// keeps start, size, position and container of each node: 40 bytes for what is computed here).
//
// Nodes     1 is the root, the children of n are 2n and 2n + 1; level 0 is the root's, level l has the nodes 2^l …
//           2^(l+1) - 1
// Bunches   k levels of a subtree share a word: its root is at a level that k divides ("ROOT(n)" of Section 3.3). The
//           last bunches are shorter where k does not divide the number of levels
// Position  of a node in its bunch: 1 is the bunch's root, the children of p are 2p and 2p + 1. The roots of the
//           bunches below the leaves continue the count, 2^k … 2^(k+1) - 1: so a word can have a bit for each of them,
//           too
// Words     in the order of their levels, so that a path's upper words lie together: word 0 is the root's
#pragma once

#include "base/integers.h"

namespace freeway::nbbs {

using Node = u64;

constexpr unsigned kMostLevels = 40;

// n > 0.
constexpr unsigned level_of(Node n) { return log2_floor(n); }
constexpr Node first_of(unsigned level) { return Node{1} << level; }
constexpr Node last_of(unsigned level) { return (Node{2} << level) - 1; }
// Whether n is `ancestor` or below it.
constexpr bool covers(Node ancestor, Node n) {
  return level_of(n) >= level_of(ancestor) && n >> (level_of(n) - level_of(ancestor)) == ancestor;
}
// The first node of `level` behind the subtree of `node`, which is of that level or above it: where a search goes on
// after it failed because of `node` (Section 3.1.1, the last paragraph). May be one past the level's last.
constexpr Node after(Node node, unsigned level) { return (node + 1) << (level - level_of(node)); }

// Where a search begins: FN + hash % (LS - FN + 1). The paper's formula (Section 3.1.1) lacks the offset FN, never
// yields the last node, and divides by zero at the root's level.
constexpr Node starting_node(unsigned level, u64 hash) { return first_of(level) + hash % first_of(level); }

template <unsigned kLevels> struct Bunches {
  static_assert(kLevels >= 1 && kLevels <= 4);
  static constexpr unsigned kPositions = 1U << kLevels;  // 1 … kPositions - 1 are in the word
  static constexpr unsigned kFirstLeaf = kPositions / 2;

  // Its level within the bunch.
  static constexpr unsigned depth(Node n) { return level_of(n) % kLevels; }
  static constexpr Node root(Node n) { return n >> depth(n); }
  static constexpr unsigned position(Node n) {
    const unsigned d = depth(n);
    return static_cast<unsigned>(first_of(d) | (n & low_bits(d)));
  }
  // The node at `position` of the bunch with root `root`; positions below the leaves are the roots of bunches.
  static constexpr Node node(Node root, unsigned position) {
    const unsigned d = log2_floor(position);
    return root << d | (position & low_bits(d));
  }
  // For the root of a bunch that is not the tree's: the root of the bunch above; the position there of its parent, a
  // leaf; and its own, below that.
  static constexpr Node upper(Node root) { return root >> kLevels; }
  static constexpr unsigned parent_position(Node root) { return own_position(root) / 2; }
  static constexpr unsigned own_position(Node root) {
    return static_cast<unsigned>(kPositions | (root & low_bits(kLevels)));
  }

  // The word of the bunch with this root: (2^level - 1) / (2^k - 1) bunches are above it.
  static constexpr u64 index(Node root) {
    const unsigned level = level_of(root);
    return (kOnePerBunchLevel & low_bits(level)) + (root - first_of(level));
  }
  static constexpr u64 words(unsigned levels) {
    const unsigned up = static_cast<unsigned>(ceil_div(levels, kLevels)) * kLevels;
    return kOnePerBunchLevel & low_bits(up);
  }

  // Sets of positions, as bits.
  static constexpr u64 and_above(unsigned position) {
    u64 set = 0;
    for (unsigned p = position; p >= 1; p /= 2) set |= u64{1} << p;
    return set;
  }
  // Down to the roots of the bunches below.
  static constexpr u64 and_below(unsigned position) {
    u64 set = 0;
    for (unsigned first = position, count = 1; first < 2 * kPositions; first *= 2, count *= 2)
      set |= low_bits(count) << first;
    return set;
  }

 private:
  static constexpr u64 one_per_bunch_level() {
    u64 ones = 0;
    for (unsigned bit = 0; bit < 64; bit += kLevels) ones |= u64{1} << bit;
    return ones;
  }
  static constexpr u64 kOnePerBunchLevel = one_per_bunch_level();
};

}  // namespace freeway::nbbs
