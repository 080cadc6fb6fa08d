// SPDX-License-Identifier: MIT
// tree_program.h: a buddy tree and threads that follow scripts, for the explorer.
//
// Nodes     have letters, which each Shape gives numbers to: x is a lowest block, y its brother, m their parent, z a
//           block of the bunch beside theirs, P the node above that (a leaf of the bunch above), Q a leaf of the root's
//           bunch, R the root
// Script    of moves: ax allocates x (a failure is an answer, too), fx frees it if this thread has it, rP repairs below
//           P, ux calls unmark for the bunch of x, as anybody may
// Setup     the same, before the threads start: ax0 gives the block to thread 0
// Promises  no block is handed out twice (what owners write to a block's contents is no race, and at no moment do two
//           of the blocks in hands overlap); at the end each word says exactly what is in hands; if a thread was
//           stopped for ever: every block in the others' hands has its hints, and when all is freed and repaired only
//           what the stopped thread had or was claiming is left; that freed, too, every word is empty
#pragma once

#include "papers/nbbs/tree.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::nbbs {

struct Shape {
  unsigned levels;
  Node x, y, m, z, P, Q, R;

  Node node(char letter) const {
    switch (letter) {
      case 'x': return x;
      case 'y': return y;
      case 'm': return m;
      case 'z': return z;
      case 'P': return P;
      case 'Q': return Q;
      case 'R': return R;
    }
    model::model_check(false, "a letter that means a node");
    return R;
  }
};

// The leftmost path of a tree that is `bunches` words high.
constexpr Shape shape(unsigned levels_per_word, unsigned bunches) {
  const unsigned k = levels_per_word, levels = k * bunches;
  const Node x = first_of(levels - 1);
  return {levels, x, x + 1, x / 2, x + first_of(k == 1 ? 1 : k - 1), x >> k, first_of(k == 1 ? 1 : k - 1), 1};
}

struct TreeScript {
  Shape shape;
  const char* setup;
  const char* thread[3];
};

// The nodes that a program speaks of.
class Nodes {
 public:
  static constexpr int kMost = 7;
  void add(Node n) {
    if (index(n) == count) node[count++] = n;
  }
  int index(Node n) const {
    int i = 0;
    while (i < count && node[i] != n) ++i;
    return i;
  }
  template <class F> void overlapping(Node n, F&& f) const {
    for (int i = 0; i < count; ++i)
      if (covers(node[i], n) || covers(n, node[i])) f(i);
  }
  template <class F> void inside(Node n, F&& f) const {
    for (int i = 0; i < count; ++i)
      if (covers(n, node[i])) f(i);
  }

  Node node[kMost] = {};
  int count = 0;
};

// The world without what differs between the corrected and the published trees.
template <class Tree, unsigned kWords> struct BlocksProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once
  using Atomic = model::ModelEnv::Atomic<u64>;

  TreeScript script;
  Nodes nodes;
  Atomic words[kWords];
  Tree tree;
  model::ModelEnv::Plain<u32> content[Nodes::kMost];
  int holder[Nodes::kMost];  // of a node as a block: a thread, -1 nobody

  explicit BlocksProgram(TreeScript s) : script(s), tree(words, s.shape.levels) {
    for (const char* at = s.setup; *at != 0; at += 3) nodes.add(s.shape.node(at[1]));
    for (const char* each : s.thread)
      for (; *each != 0; each += 2) nodes.add(s.shape.node(each[1]));
    for (unsigned i = 0; i < kWords; ++i) model::model_name(words[i], "word", static_cast<int>(i));
    for (int i = 0; i < nodes.count; ++i) model::model_name(content[i], "block", static_cast<int>(nodes.node[i]));
    for (int& each : holder) each = -1;
    for (const char* at = s.setup; *at != 0; at += 3) act(at[0], s.shape.node(at[1]), at[2] - '0');
  }

  void thread(int id) {
    for (const char* at = script.thread[id]; *at != 0; at += 2) act(at[0], script.shape.node(at[1]), id);
  }

  void act(char what, Node n, int id) {
    if (what == 'a') {
      if (tree.alloc(n) == 0) received(n, id);
    } else if (what == 'f') {
      if (holder[nodes.index(n)] == id) {
        touch(n);  // to the last moment
        holder[nodes.index(n)] = -1;
        tree.free_node(n);
      }
    } else if constexpr (requires { tree.repair(1); }) {
      if (what == 'r') tree.repair(n);
      if (what == 'u') tree.unmark(Tree::In::root(n));
    }
  }

  void received(Node n, int id) {
    nodes.overlapping(n, [&](int i) { model::model_check(holder[i] < 0, "no block is handed out twice"); });
    holder[nodes.index(n)] = id;
    touch(n);
  }
  void touch(Node n) {
    nodes.inside(n, [&](int i) { content[i].set(content[i].get() + 1); });
  }
};

// The corrected tree: how the words must look at the end.
template <unsigned kLevels, bool kUp, unsigned kWords>
struct StampedProgram : BlocksProgram<StampedTree<model::ModelEnv, kLevels, kUp>, kWords> {
  using Tree = StampedTree<model::ModelEnv, kLevels, kUp>;
  using In = typename Tree::In;
  using W = typename Tree::W;
  using Base = BlocksProgram<Tree, kWords>;
  using Base::holder, Base::nodes, Base::tree;
  using Base::Base;

  void finish() {
    const bool stopped = model::model_stalled() >= 0;
    each_word([&](Node root) { model::model_observe(tree.at(root).load_relaxed()); });
    each_word([&](Node root) {
      const u64 word = tree.at(root).load_relaxed();
      const u64 needed = expected(root);
      model::model_check((word & needed) == needed, "every block in hands has its bit and its hints");
      if (stopped) return;
      model::model_check((word & W::kInUse) == needed, "nothing but what is in hands keeps a word in use");
      model::model_check((word & W::kUp) == 0 || needed != 0, "no UP on an empty word");
    });
    for (int i = 0; i < nodes.count; ++i) {
      if (holder[i] >= 0 && holder[i] != model::model_stalled()) {
        tree.free_node(nodes.node[i]);
        holder[i] = -1;
      }
    }
    if (stopped) free_what_the_stopped_thread_left();
    each_word([&](Node root) {
      model::model_check(!tree.in_use(root), "when all is freed and repaired every word is empty");
    });
  }

 private:
  void free_what_the_stopped_thread_left() {
    repair_from_below();
    unsigned in_flight = 0;
    each_word([&](Node root) {
      const u64 word = tree.at(root).load_relaxed();
      each_word([&](Node below) {
        if (below == 1 || In::upper(below) != root) return;
        model::model_check((word & W::hint(below)) == 0 || tree.in_use(below), "no stale hint is left by repairing");
      });
      in_flight += popcount(word & W::kOccupied & ~expected(root));
    });
    model::model_check(in_flight <= 1, "a stopped thread takes what it has and one block more");
    for (int i = 0; i < nodes.count; ++i) tree.free_node(nodes.node[i]);  // whoever knows that it is dead may do this
    repair_from_below();
  }
  // As repair_all, for the words that can have been written to.
  void repair_from_below() {
    for (unsigned level = kMostLevels; level > 0; --level)
      each_word([&](Node c) {
        if (level_of(c) == level && (tree.at(In::upper(c)).load_relaxed() & W::hint(c)) != 0 && !tree.in_use(c))
          tree.unmark(c);
      });
  }
  u64 expected(Node root) const {
    u64 bits = 0;
    for (int i = 0; i < nodes.count; ++i) {
      if (holder[i] < 0) continue;
      Node c = In::root(nodes.node[i]);
      if (c == root) bits |= W::bit(In::position(nodes.node[i]));
      for (; c != 1; c = In::upper(c))
        if (In::upper(c) == root) bits |= W::hint(c);
    }
    return bits;
  }
  // The roots of the bunches on the paths of the nodes, each once, the upper ones first.
  template <class F> void each_word(F&& f) const {
    for (unsigned level = 0; level < kMostLevels; level += kLevels) {
      for (int i = 0; i < nodes.count; ++i) {
        const Node c = up_to(nodes.node[i], level);
        if (c == 0) continue;
        bool seen = false;
        for (int j = 0; j < i; ++j) seen |= up_to(nodes.node[j], level) == c;
        if (!seen) f(c);
      }
    }
  }
  static Node up_to(Node n, unsigned level) { return level_of(n) < level ? 0 : n >> (level_of(n) - level); }
};

}  // namespace freeway::nbbs
