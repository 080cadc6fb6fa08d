// SPDX-License-Identifier: MIT
// Way: malloc's next block must not come from a superblock that a block is about to be moved out of.
//
// Magazines are stacks: the block that was freed last is the next one that malloc gives. A program that moves blocks
// out of sparse superblocks one by one (malloc, copy, free) would get back the one that it has just freed: each block
// would take the place of the one before it. So before a block is moved, free blocks of superblocks that are worth
// leaving go from the top of the magazine back to those superblocks, until another one is on top; where the magazine
// gets empty, the slab is given a superblock to refill it from, of those that wait: that refill would take one behind
// the last, or make one.
//
// Words     none of its own: top and current of the slab, as Magazines moves them. Popped blocks and adopted
//           superblocks are in its hands
// Who       as Magazines: any thread, any handler, in sections or with a spare slab; between two calls of the access
//           the thread may move to another CPU: then another magazine is cleared, and the hint was a hint
// Progress  lock-free: no more blocks than a magazine holds        Lost if killed: a batch, or a superblock
// Checked   tests/cache/way_model.cc, tests/cache/way_test.cc, tests/abi/move_test.cc
#pragma once

#include "cache/magazines.h"

namespace freeway {

// Asked of its heap, beside a MagazineHeap's.
template <class H>
concept WayHeap = MagazineHeap<H> && requires(H heap, unsigned c, const void* block, u32 d) {
  // Whether the superblock of the block is worth leaving; how many blocks a superblock has free.
  { heap.is_left(c, block) } -> std::same_as<bool>;
  { heap.free_in(d) } -> std::same_as<u32>;
};

template <class Heap> class Way {
 public:
  // Once (or again with the same), before anything else.
  void init(Heap* owner, Magazines<Heap>* magazines) {
    static_assert(WayHeap<Heap>);
    heap_ = owner;
    magazines_ = magazines;
  }

  // Whether malloc will give a block of class `c` from a superblock that is not worth leaving, as far as can be known.
  template <SlabAccess Access> bool clear(const Access& access, Slab& slab, unsigned c) {
    // OPTIMISTIC: capacity
    return drop(access, c, slab.capacity[c].load_relaxed()) || refresh(access, slab, c);
  }

 private:
  // Takes blocks of sparse superblocks off the magazine, `most` at most; whether another is on top.
  template <SlabAccess Access> FREEWAY_COLD bool drop(const Access& access, unsigned c, u64 most) {
    void* blocks[kBatchMax];
    unsigned got = 0;
    bool found = false;
    for (u64 left = most; left > 0 && !found; --left) {
      if (access.pop_batch(c, blocks + got, 1) == 0) break;
      blocks[got] = slots::block_of(blocks[got]);
      Heap::Env::step("way.popped");
      found = !heap_->is_left(c, blocks[got]);
      if (found) {
        magazines_->load(access, c, blocks + got, 1);
      } else if (++got == kBatchMax) {
        magazines_->flush(c, blocks, got);
        got = 0;
      }
    }
    if (got > 0) magazines_->flush(c, blocks, got);
    return found;
  }

  // The magazine is empty: lets the slab have a superblock with free blocks, if it has none.
  template <SlabAccess Access> FREEWAY_COLD bool refresh(const Access& access, Slab& slab, unsigned c) {
    auto& superblocks = heap_->superblocks();
    // OPTIMISTIC: move
    if (const u64 d = slab.current[c].load_relaxed(); d != 0 && heap_->free_in(static_cast<u32>(d)) != 0) return true;
    if (const u32 d = magazines_->take_current(access, c)) superblocks.let_go(d);
    const u32 d = superblocks.adopt(c);
    if (d == 0) return false;
    Heap::Env::step("way.adopted");
    heap_->settle_home(slab, c, d);
    const bool has_room = access.put_current(c, d);  // else it has another by now
    if (!has_room) superblocks.let_go(d);
    return true;
  }

  Heap* heap_ = nullptr;
  Magazines<Heap>* magazines_ = nullptr;
};

}  // namespace freeway
