// SPDX-License-Identifier: MIT
//
// knary_tree.h: a tree of tasks of given depth and branching, grown and felled by the work-stealing scheduler; after
// knary of Cilk and Hood.
//
// A node is a frame of 40 bytes. Running it spawns its children: first, one after another, the serial ones, each
// together with all below it, then the others at once. Whoever completes the last child completes the node, frees its
// frame and goes on with the parent; so the frame of a node below which something was stolen may be freed by another
// thread.
#ifndef FREEWAY_BENCH_STREAMFLOW_KNARY_TREE_H
#define FREEWAY_BENCH_STREAMFLOW_KNARY_TREE_H

#include "streamflow/work_stealing.h"
#include "support/thread_team.h"

namespace knary {

struct Shape {
  unsigned depth;      // levels below the root
  unsigned branching;  // children of a node
  unsigned serial;     // of these, run one after another
  unsigned work;       // turns of a loop at each node
};

inline constexpr Shape kStreamflow{11, 5, 0, 0};  // Table 1

inline std::uint64_t nodes(const Shape& shape) {
  std::uint64_t count = 1;
  for (unsigned level = 0; level < shape.depth; ++level) count = count * shape.branching + 1;
  return count;
}

// A node's stamp depends on its place in the tree only.
inline std::uint64_t child_id(std::uint64_t parent, unsigned child) {
  return (parent ^ (parent >> 29)) * 0x9E3779B97F4A7C15u + child + 1;
}

// Sum of all stamps and number of nodes, as the threads found them when they freed the frames.
struct Result {
  std::uint64_t checksum = 0;
  std::uint64_t nodes = 0;
};

template <class Blocks> class Tree {
 public:
  explicit Tree(const Shape& shape) : shape_(shape) {}

  Result grow(bench::Scheduler<Blocks>& scheduler) {
    found_.assign(scheduler.size(), {});
    scheduler.run(make(nullptr, 1, 0));
    Result all;
    for (const auto& one : found_) {
      all.checksum += one.value.checksum;
      all.nodes += one.value.nodes;
    }
    return all;
  }

 private:
  struct Node : bench::Task {
    Tree* tree;
    Node* parent;
    std::uint64_t id;
    std::atomic<std::uint32_t> pending;  // children not yet complete
    std::uint16_t level;
    std::uint16_t started;  // children spawned
  };
  static_assert(sizeof(Node) == 40, "the paper's mean size");

  Node* make(Node* parent, std::uint64_t id, unsigned level) {
    return new (Blocks::allocate(sizeof(Node))) Node{{run}, this, parent, id, 0, static_cast<std::uint16_t>(level), 0};
  }

  static void run(bench::Worker& worker, bench::Task* task) {
    Node* node = static_cast<Node*>(task);
    Tree& tree = *node->tree;
    for (unsigned turn = 0; turn < tree.shape_.work; ++turn) bench::escape(node);
    tree.advance(worker, node);
  }

  // Spawns what comes next below `node`; if nothing does, completes it, and then its parent if it was the last, and so
  // on.
  void advance(bench::Worker& worker, Node* node) {
    while (!spawn_children(worker, node)) {
      Node* parent = node->parent;
      bench::Padded<Result>& mine = found_[worker.index()];
      mine.value.checksum += node->id;
      ++mine.value.nodes;
      Blocks::free(node);
      if (parent == nullptr) return worker.finish();
      // [S1] pairs with itself: the last one sees what the others did below the node.
      if (parent->pending.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
      node = parent;
    }
  }

  // False if all children of `node` were spawned before (or it has none). After the last spawn the node belongs to
  // whoever completes that child: it must not be touched again.
  bool spawn_children(bench::Worker& worker, Node* node) {
    const unsigned first = node->started, level = node->level + 1u;
    if (level > shape_.depth || first == shape_.branching) return false;
    const unsigned count = first < shape_.serial ? 1 : shape_.branching - first;
    const std::uint64_t id = node->id;
    node->started = static_cast<std::uint16_t>(first + count);
    node->pending.store(count, std::memory_order_relaxed);  // published by the deque
    for (unsigned i = first; i < first + count; ++i) worker.spawn(make(node, child_id(id, i), level));
    return true;
  }

  const Shape shape_;
  std::vector<bench::Padded<Result>> found_;  // by worker
};

}  // namespace knary

#endif  // FREEWAY_BENCH_STREAMFLOW_KNARY_TREE_H
