// SPDX-License-Identifier: MIT
// ShortLists: PartialLists (see there) for Superblocks of which there are many: 24 bytes a class, without NUMA nodes.
//
// Checked   tests/abi/heap_test.cc
#pragma once

#include "size/size_classes.h"
#include "sync/tagged_stack.h"

namespace freeway {

template <class Env> class ShortLists {
 public:
  void init(unsigned) {}
  static constexpr unsigned nodes() { return 1; }
  static constexpr bool has_nodes() { return false; }
  static constexpr unsigned place_of(unsigned) { return 0; }

  template <class Links> void put(unsigned c, unsigned, u32 d, Links&& links) { at_[c].lists[target()].push(d, links); }
  template <class Links> u32 pop(unsigned c, unsigned, bool from_target, Links&& links) {
    return at_[c].lists[from_target ? target() : 1 - target()].pop(links);
  }
  template <class Links> void recycle(unsigned c, u32 d, Links&& links) { at_[c].pool.push(d, links); }
  template <class Links> u32 reuse(unsigned c, Links&& links) { return at_[c].pool.pop(links); }
  bool look_empty(unsigned c, unsigned) const { return at_[c].lists[0].looks_empty() && at_[c].lists[1].looks_empty(); }
  static constexpr bool has_to_spare(unsigned, unsigned) { return false; }
  static void count(unsigned, unsigned, u32) {}
  void flip() { target_.fetch_add_relaxed(1); }

  // Forgets all that is listed, while nobody uses it.
  void clear() {
    for (OfClass& each : at_) {
      for (auto& list : each.lists) list.take_all();
      each.pool.take_all();
    }
  }

 private:
  struct OfClass {
    TaggedStack<Env> lists[2], pool;
  };
  unsigned target() const { return target_.load_relaxed() & 1; }

  typename Env::template Atomic<unsigned> target_;
  OfClass at_[kClassCount];
};

}  // namespace freeway
