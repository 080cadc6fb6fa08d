// SPDX-License-Identifier: MIT
// Nodes: a buddy for each NUMA node, all in one shared mapping (Sections 2.1 and 3.4: overall_trees,
// overall_containers).
//
// Mapping   this header; then for each node its metadata and its memory, from page to page. The policy of those pages
//           is set before they are touched, so none need be moved (the paper maps, then moves pages)
// Words     turn_: whose turn it is under FREEWAY_BUDDY_INTERLEAVE; everything else is constant after init
// Who       any thread of any process that has the mapping
// Checked   papers/nbbs/tests/nodes_test.cc (choice of nodes with a pretended topology; one node for real)
#pragma once

#include "papers/nbbs/shared_buddy.h"

namespace freeway::nbbs {

constexpr unsigned kMostNodes = 64;

// The index of the node that a request tries `attempt`-th, or `count` if it tries no more. `local`: the index of the
// thread's node; `turn`: of whose turn it is.
constexpr unsigned node_to_try(int policy, unsigned attempt, unsigned local, unsigned turn, unsigned count) {
  if (attempt >= count || (policy == FREEWAY_BUDDY_LOCAL_ONLY && attempt > 0)) return count;
  return ((policy == FREEWAY_BUDDY_INTERLEAVE ? turn : local) + attempt) % count;
}

class alignas(64) Nodes {
 public:
  struct Layout {
    std::size_t metadata, memory;  // of the first node, from the header on
    std::size_t each;              // from node to node
    std::size_t bytes;             // of all
  };
  static Layout layout(const Settings& settings, unsigned count, std::size_t page);

  // In zeroed memory. `ids`: the kernel's numbers of the nodes.
  void init(const Settings& settings, const Layout& layout, const u8* ids, unsigned count);
  const Layout& layout() const { return layout_; }
  unsigned count() const { return count_; }
  SharedBuddy& buddy(unsigned index) {
    return *reinterpret_cast<SharedBuddy*>(reinterpret_cast<uptr>(this) + layout_.metadata + index * layout_.each);
  }
  unsigned id(unsigned index) const { return ids_[index]; }
  bool placed(unsigned index) const { return (placed_ >> index & 1) != 0; }
  void set_placed(unsigned index) { placed_ |= u64{1} << index; }

  // The index of the node with the kernel's number `id`; of some node if it has none here.
  unsigned index_of(unsigned id) const;
  // 0 or an errno value. `local`: the index of the thread's node.
  int take(std::size_t size, int policy, unsigned local, void** block);
  int give(const void* block);

 private:
  Layout layout_;
  u64 placed_;
  Atomic<u32> turn_;
  u32 count_;
  u8 ids_[kMostNodes];
};

}  // namespace freeway::nbbs
