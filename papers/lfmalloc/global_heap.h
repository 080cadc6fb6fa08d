// SPDX-License-Identifier: MIT
// GlobalHeap: all superblocks that are off line (sections 3.2.2 and 3.2.3).
//
// Words     per class a list of superblocks with free blocks; a list of *entirely free* superblocks, which any class
//           may have; a pool of headers without a superblock. Full superblocks are in no list: a block's prefix leads
//           to them. The remote word says which of these a superblock is in (remote_word.h)
// Moves     take: a superblock comes off its list with its two free lists merged, or is made [12]-[22]
//           put: one that is held goes where its free blocks say [26]-[30]
//           free_remotely: a block of a superblock that is not on line here [9]-[18]
// Invariant a header is in one list, or the pool, or one pair of hands, or on line, or full. One in a class's list may
//           be a tombstone: its last block was freed, and the freer took the memory; its popper takes the header
// Who       any thread, any signal handler (with locked lists: no handler)
// Orders    the lists' own, and remote_list.h:[R1] [A1]; [A1] shutting the gate sees what was freed into the local
//           list, see protection.h:[R1]
// Last touch  after a superblock was let go, or a block freed, only locals are used
// Progress  lock-free with RemoteByCas and LockFreeList       Lost if killed: the superblock in hand (held, being
//           listed, or its memory being given away), or a header; and one place of the limit, if it was just counted
// Checked   papers/lfmalloc/tests/superblock_model.cc
//
// Space is where memory comes from:
//   at(index) -> Superblock<Env>&       make_header() -> index, 0 without memory
//   take_memory(index) -> address of 64 KiB whose frame is named `index`, 0 without memory
//   give_memory(base)                    rename(base, index) -> bool: names the frame anew
//   classes(), most_swept()              blocks(c), stride(c)
//   cut_prefix(index, block): a new free block's prefix
// Env::link(block): the first word of a free block; Env::Local: the words that a local heap's protection keeps
#pragma once

#include "base/check.h"
#include "papers/lfmalloc/remote_list.h"
#include "papers/lfmalloc/superblock_list.h"

namespace freeway::lfmalloc {

template <class Env, class Space, template <class> class Remote, template <class> class List> class GlobalHeap {
 public:
  using Block = Superblock<Env>;

  // Again with the same does no harm. `limit`: entirely free superblocks to keep.
  void init(Space* space, u32 limit) {
    space_ = space;
    limit_.store_relaxed(limit);
  }

  static constexpr unsigned classes() { return Space::classes(); }
  Block* superblock(u32 d) { return &space_->at(d); }

  // Holds a superblock of class `c` that has free blocks, its lists merged; 0: no memory.
  u32 take(unsigned c) {
    if (u32 d = adopt(c)) return d;
    return construct(c);
  }

  // Lets go of the held superblock `d`: it is off line from here on.
  void put(u32 d) {
    Block& s = space_->at(d);
    const uptr base = s.base.load_relaxed();
    const unsigned c = s.size_class.load_relaxed();
    u64 list = s.local.load_relaxed();
    while (local::gate(list) != 0)
      if (s.local.cas_acquire(list, local::shut(list))) break;  // [A1] pairs with protection.h:[R1] protection.h:[R3]
    const remote::Next next =
        Remote<Env>::change(s, [&](u64 word) { return remote::let_go(word, space_->blocks(c), local::count(list)); });
    // LAST TOUCH: s
    if (next.duty == remote::Duty::kList) list_superblock(c, d);
    if (next.duty == remote::Duty::kSettle) settle(base, d, c);
  }

  // Frees `block` of superblock `d`, which is on line elsewhere, or off line.
  FREEWAY_NOINLINE void free_remotely(u32 d, uptr block) {
    Block& s = space_->at(d);
    const unsigned c = s.size_class.load_relaxed();
    const remote::Next next = Remote<Env>::change(s, [&](u64 word) {
      Env::link(block).store_relaxed(remote::head(word));
      return remote::freed(word, unit_of(block));
    });
    // LAST TOUCH: s
    if (next.duty == remote::Duty::kList) list_superblock(c, d);
    if (next.duty == remote::Duty::kSettle) settle(align_down(block, kSuperblockBytes), 0, c);
  }

  // Gives the memory of entirely free superblocks back until `keep` are left; bytes.
  std::size_t trim(u32 keep) {
    std::size_t bytes = 0;
    sweep();
    while (kept_.load_relaxed() > keep) {
      const u32 d = pop_empty();
      if (d == 0) break;
      give_away(space_->at(d).base.load_relaxed(), d);
      bytes += kSuperblockBytes;
    }
    return bytes;
  }

  // For audits, while nobody else moves.
  template <class F> void each_listed(unsigned c, F&& f) {
    for (auto& list : lists_[c].lists)
      for (u32 d = list.peek(); d != 0; d = space_->at(d).link.load_relaxed()) f(d);
  }
  template <class F> void each_empty(F&& f) {
    for (u32 d = empties_.peek(); d != 0; d = space_->at(d).link.load_relaxed()) f(d);
  }
  template <class F> void each_in_pool(F&& f) {
    for (u32 d = pool_.peek(); d != 0; d = space_->at(d).link.load_relaxed()) f(d);
  }

 private:
  struct alignas(64) PerClass {
    List<Env> lists[2];  // two, so that sweep() can go through one of them
  };

  auto links() {
    return [this](u32 d) -> auto& { return space_->at(d).link; };
  }
  void list_superblock(unsigned c, u32 d) {
    Env::step("lfmalloc.listing");
    lists_[c].lists[target()].push(d, links());
  }
  void recycle(u32 d) { pool_.push(d, links()); }
  u32 header() {
    u32 d = pool_.pop(links());
    if (d == 0) d = space_->make_header();
    if (d != 0) return d;
    sweep();
    return pool_.pop(links());
  }

  // Moves tombstones from the classes' lists to the pool: with little memory left, another class may need the headers.
  // Superblocks go through our hands one by one, from the list that new ones do not go to to the other one, listed as
  // before; not more than most_swept() of a class at a time, since two sweeps at once pass them to and fro.
  void sweep() {
    const u32 target = (target_.fetch_add_relaxed(1) + 1) & 1;
    for (unsigned c = 0; c < Space::classes(); ++c)
      for (u32 most = Space::most_swept(); most > 0; --most) {
        const u32 d = lists_[c].lists[1 - target].pop(links());
        if (d == 0) break;
        Env::step("lfmalloc.swept");
        space_->at(d).remote.load_relaxed() == 0 ? recycle(d) : lists_[c].lists[target].push(d, links());
      }
  }
  u32 target() const { return target_.load_relaxed() & 1; }
  u32 pop_listed(unsigned c) {
    const u32 first = target();
    const u32 d = lists_[c].lists[first].pop(links());
    return d != 0 ? d : lists_[c].lists[1 - first].pop(links());
  }

  // [12]-[21] search the global heap for a superblock with free blocks; merge its remote list into its local list.
  u32 adopt(unsigned c) {
    while (const u32 d = pop_listed(c)) {
      Env::step("lfmalloc.popped");
      Block& s = space_->at(d);
      u64 before = 0;
      Remote<Env>::change(s, [&](u64 word) {
        before = word;
        return remote::Next{remote::taken(word), remote::Duty::kNothing};
      });
      if (remote::state(before) != remote::kNone) {
        merge(s, before);
        return d;
      }
      recycle(d);
    }
    return 0;
  }

  // The remote list comes first: usually the local one is empty, and nothing need be walked.
  void merge(Block& s, u64 before) {
    const u64 list = s.local.load_relaxed();
    const u32 count = remote::count(before);
    if (count == 0) return;
    if (local::count(list) != 0) {
      const uptr base = s.base.load_relaxed();
      uptr last = block_at(base, remote::head(before));
      for (u32 i = 1; i < count; ++i) last = block_at(base, static_cast<u32>(Env::link(last).load_relaxed()));
      Env::link(last).store_relaxed(local::head(list));
    }
    s.local.store_relaxed(local::with_list(list, remote::head(before), local::count(list) + count));
  }

  // [15], and "reformatted": a new superblock, held.
  u32 construct(unsigned c) {
    u32 d = pop_empty();
    if (d == 0) {
      d = header();
      if (d == 0) return 0;
      const uptr base = space_->take_memory(d);
      if (base == 0) {
        recycle(d);
        return 0;
      }
      space_->at(d).base.store_relaxed(base);
    }
    cut(d, c);
    return d;
  }

  void cut(u32 d, unsigned c) {
    Block& s = space_->at(d);
    const uptr base = s.base.load_relaxed();
    const u32 blocks = space_->blocks(c), stride = space_->stride(c);
    uptr block = base + kFirstData;
    const u32 first = unit_of(block);
    for (u32 i = 0; i < blocks; ++i, block += stride) {
      space_->cut_prefix(d, block);
      Env::link(block).store_relaxed(i + 1 == blocks ? 0 : unit_of(block + stride));
    }
    s.size_class.store_relaxed(c);
    s.local.store_relaxed(local::with_list(s.local.load_relaxed(), first, blocks));
    s.remote.store_relaxed(remote::make(remote::kHeld, 0, 0, 0));
  }

  // [13]-[17] the memory at `base`, all of whose blocks are free: kept for any class, or, beyond the limit, given away.
  // `d`: its header, or 0 if that lies in a list. `c`: its class so far, for whoever frees one of its blocks again.
  void settle(uptr base, u32 d, unsigned c) {
    Env::step("lfmalloc.settling");
    if (kept_.fetch_add_relaxed(1) < limit_.load_relaxed()) {
      if (d == 0) d = rename(base, c);
      if (d != 0) {
        space_->at(d).remote.store_relaxed(remote::kKept);
        return empties_.push(d, links());
      }
    }
    kept_.fetch_sub_relaxed(1);
    give_away(base, d);
  }
  u32 rename(uptr base, unsigned c) {
    const u32 d = header();
    if (d == 0) return 0;
    if (!space_->rename(base, d)) {
      recycle(d);
      return 0;
    }
    space_->at(d).base.store_relaxed(base);
    space_->at(d).size_class.store_relaxed(c);
    return d;
  }
  void give_away(uptr base, u32 d) {
    space_->give_memory(base);
    if (d == 0) return;
    space_->at(d).remote.store_relaxed(0);
    recycle(d);
  }
  u32 pop_empty() {
    const u32 d = empties_.pop(links());
    if (d != 0) kept_.fetch_sub_relaxed(1);
    return d;
  }

  Space* space_ = nullptr;
  typename Env::template Atomic<u32> limit_;
  typename Env::template Atomic<u32> kept_;
  typename Env::template Atomic<u32> target_;  // odd, even: the list that superblocks go to
  alignas(64) List<Env> empties_;
  List<Env> pool_;
  PerClass lists_[kClassCount];
};

}  // namespace freeway::lfmalloc
