// SPDX-License-Identifier: MIT
// PartialLists: the superblocks that have free blocks and that nobody holds, for each class and NUMA node (decision
// 032).
//
// A superblock belongs to the node of the thread that made it: that thread touches its memory first, so the kernel puts
// it there. It is always listed with its node; threads of its node look for it first. There are lists for at most
// kMostNodes nodes: nodes whose numbers differ by a multiple of that share theirs.
//
// Words     two lists per class and node, and a pool of descriptors without a superblock per class (tagged_stack.h).
//           Two lists, so that trimming can take superblocks off one and put them on the other, one by one
//           listed, made: how many entries a node's lists have, and how many superblocks are its. Counted on machines
//           with several nodes only; hints on whether another node may take some
// Lost if killed: the descriptor in hand; between a count and its move, the count is wrong for good: then a node keeps
// more,
//           or fewer, for itself than it should, until memory is refused
// Checked   tests/superblock/superblock_model.cc, tests/superblock/superblocks_nodes_test.cc
#pragma once

#include "size/size_classes.h"
#include "sync/tagged_stack.h"

namespace freeway {

template <class Env> class PartialLists {
 public:
  static constexpr unsigned kMostNodes = 8;  // a power of 2
  // Superblocks that a node keeps for itself while others want some: one of so many that are its, and one more. That
  // bounds the new superblocks that are made although another node has one.
  static constexpr u32 kKeptShare = 8;

  // Once (or again with the same), before anything else. `nodes`: 1, or more than the highest node number.
  void init(unsigned nodes) { more_ = (nodes < kMostNodes ? nodes : kMostNodes) - 1; }
  unsigned nodes() const { return more_ + 1; }
  bool has_nodes() const { return more_ != 0; }
  // The lists of the kernel's node `number`.
  unsigned place_of(unsigned number) const { return number % nodes(); }

  template <class Links> void put(unsigned c, unsigned node, u32 d, Links&& links) {
    OfNode& of = at(c, node);
    if (has_nodes()) of.listed.fetch_add_relaxed(1);
    of.lists[target()].push(d, links);
  }
  // From the target list, which receives new entries, or the other one; 0 if it is empty.
  template <class Links> u32 pop(unsigned c, unsigned node, bool from_target, Links&& links) {
    OfNode& of = at(c, node);
    const u32 d = of.lists[from_target ? target() : 1 - target()].pop(links);
    if (d != 0 && has_nodes()) of.listed.fetch_sub_relaxed(1);
    return d;
  }
  template <class Links> void recycle(unsigned c, u32 d, Links&& links) { pools_[c].pool.push(d, links); }
  template <class Links> u32 reuse(unsigned c, Links&& links) { return pools_[c].pool.pop(links); }

  bool look_empty(unsigned c, unsigned node) const {
    const OfNode& of = at(c, node);
    return of.lists[0].looks_empty() && of.lists[1].looks_empty();
  }
  // Whether the node has more of the class listed than it keeps for itself.
  bool has_to_spare(unsigned c, unsigned node) const {
    const OfNode& of = at(c, node);
    return static_cast<int>(of.listed.load_relaxed()) > 1 + static_cast<int>(of.made.load_relaxed() / kKeptShare);
  }
  // Counts a superblock of the node that was made (1) or given back (-1).
  void count(unsigned c, unsigned node, u32 change) {
    if (has_nodes()) at(c, node).made.fetch_add_relaxed(change);
  }

  void flip() { target_.fetch_add_relaxed(1); }

  // For audits, while no other thread moves: calls f(stack, whether it is the pool) for the lists and the pool of class
  // c.
  template <class F> void each_stack(unsigned c, F&& f) {
    for (unsigned node = 0; node < nodes(); ++node)
      for (auto& list : at(c, node).lists) f(list, false);
    f(pools_[c].pool, true);
  }

 private:
  // Nodes share no line.
  struct alignas(64) OfNode {
    TaggedStack<Env> lists[2];
    typename Env::template Atomic<u32> listed, made;
  };
  struct Pool : OfNode {
    TaggedStack<Env> pool;
  };

  OfNode& at(unsigned c, unsigned node) { return node == 0 ? pools_[c] : others_[node - 1][c]; }
  const OfNode& at(unsigned c, unsigned node) const { return node == 0 ? pools_[c] : others_[node - 1][c]; }
  unsigned target() const { return target_.load_relaxed() & 1; }

  unsigned more_ = 0;  // nodes but the first: all-zero data takes no room in the library's file
  typename Env::template Atomic<unsigned> target_;
  Pool pools_[kClassCount];  // with the lists of node 0, so that one line has all where there is one node
  OfNode others_[kMostNodes - 1][kClassCount];
};

}  // namespace freeway
