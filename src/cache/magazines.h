// SPDX-License-Identifier: MIT
// Magazines: batches of blocks move between a magazine that is empty or full and the superblocks.
//
// Written against an access (RseqSlabs or PlainSlab): between two of its calls the thread may move to another CPU or be
// interrupted by a handler that does the same; a superblock or batch that it holds meanwhile is its own and in no slab.
//
//   refill   take the slab's current superblock (else hold one), take a batch of blocks from it, put it back (else let
//            it go), push the batch, or the run if they lie side by side; blocks that do not fit go back to their
//            superblock
//   stash    push; else open the magazine, or grow it if the class swings, or pop a batch and flush it; then push again
//   flush    group a batch by bitmap word, free each group with one atomic OR
//
// Swing     a class that is refilled and flushed by turns has a magazine that is too small for the program. It grows
//           by up to 256 blocks each time, within kGrowthBudget bytes of blocks per slab
// Lost if killed: the batch and the superblock in hand
// Checked   tests/cache/spare_slabs_model.cc, tests/cache/cpu_slabs_model.cc, tests/cache/magazines_test.cc,
//           tests/whole/stress
//
#pragma once

#include <concepts>

#include "arch/alone.h"
#include "base/compiler.h"
#include "cache/groups.h"
#include "cache/homes.h"
#include "cache/slab.h"
#include "cache/slots.h"
#include "superblock/superblocks.h"

namespace freeway {

// Asked of the heap. If it may change words without atomic instructions it also has alone() and
// group_was_freed(c, k, group, block, old).
template <class H>
concept MagazineHeap =
    requires(H heap, unsigned c, const SizeClass& k, void* block, const Group& group, Slab& slab, u32 d) {
      typename H::Env;
      heap.superblocks();
      // The `top` of a class that has no magazine.
      { heap.closed() } -> std::same_as<u64>;
      // Where the block lies; descriptor 0, and a report, if it is no block.
      { heap.place_of(c, k, block) } -> std::same_as<Place>;
      // Frees the group, of which `block` is one.
      { heap.free_group(c, k, group, block) } -> std::same_as<void>;
      // Whether the fast path must not see the block; whether it is another slab's; whether it is of another NUMA node.
      { heap.is_far(uptr{}) } -> std::same_as<bool>;
      { heap.is_foreign(slab, c, block) } -> std::same_as<bool>;
      { heap.has_nodes() } -> std::same_as<bool>;
      { heap.is_away(slab, c, block) } -> std::same_as<bool>;
      // From now on the superblock `d` is the slab's (homes.h).
      { heap.settle_home(slab, c, d) } -> std::same_as<void>;
    };

template <class Heap, class Shapes = SlabShapes> class Magazines {
 public:
  static constexpr u64 kGrowthBudget = 4 * kMiB;
  static constexpr u32 kGrowthStep = 256;

  // Once (or again with the same), before anything else.
  void init(Heap* owner) {
    static_assert(MagazineHeap<Heap>);  // a heap has its magazines: as a template's argument it is not complete
    heap_ = owner;
  }

  // A block of class `c`, and a batch more for the magazine; null without memory. `slab` is the slab of some CPU the
  // thread was just on: for hints and counters.
  template <SlabAccess Access> void* refill(const Access& access, Slab& slab, unsigned c) {
    if (const u64 slot = access.pop(c)) return slots::block_of(slot);
    ++slab.counters[c].refills;
    // One batch at a time, also for a grown magazine: a second one would lie on top of the first, and blocks would
    // leave in another order than that of their addresses (measured: a list built so is walked 4 times slower).
    void* blocks[kBatchMax];
    const Cut got = cut(access, slab, c, refill_size(slab, c), blocks);
    if (got.count == 0) return nullptr;
    if (got.run != 0) {
      if (got.count > 1) load_run(access, c, got.run + kSizeClasses[c].size, got.count - 1, blocks);
      return reinterpret_cast<void*>(got.run);
    }
    load(access, c, blocks + 1, got.count - 1);
    return blocks[0];
  }

  // Puts a freed block of class `c` into the magazine, making room; false if there is no slab to put it in.
  template <SlabAccess Access> bool stash(const Access& access, Slab& slab, unsigned c, void* block) {
    const u64 word = slots::of(block, heap_->is_far(reinterpret_cast<uptr>(block)));
    for (unsigned tries = 0; tries < 4; ++tries) {
      if (access.push(c, word)) return true;
      if (open(access, c) || grow(access, slab, c)) continue;
      if (!unload(access, slab, c)) break;
    }
    return access.push(c, word);
  }

  // Frees the foreign ones of the topmost blocks to their superblocks (homes.h).
  template <SlabAccess Access> void send_home(const Access& access, Slab& slab, unsigned c) {
    send_topmost(access, slab, c, heap_->has_nodes() ? homes::kNodeSentAtOnce : homes::kSentAtOnce);
  }

  // Frees `count` (at most kBatchMax) blocks of class `c`, or the blocks of slots, to their superblocks. Not inlined: a
  // frame of its own is gone again before a handler's stack is needed for anything else.
  FREEWAY_NOINLINE void flush(unsigned c, void* const* blocks, unsigned count) {
    if constexpr (requires { heap_->alone(); })
      if (heap_->alone()) return flush_alone(c, blocks, count);
    Groups groups;
    const SizeClass& k = kSizeClasses[c];
    const auto place = [&](void* slot) { return heap_->place_of(c, k, slots::block_of(slot)); };
    make_groups(blocks, count, k.size, k.blocks, place, groups);
    free_groups(c, groups, blocks);
  }

  // The slab's current superblock, now the caller's; 0: it has none, or none of this node.
  template <SlabAccess Access> u32 take_current(const Access& access, unsigned c) {
    const u32 d = access.take_current(c);
    if (d == 0 || !heap_->superblocks().is_away(d)) return d;
    heap_->superblocks().let_go(d);  // taken from another node, or the slab is used on another one now
    return 0;
  }

  // Pushes blocks of one superblock so that the first is popped first; those that do not fit are freed.
  template <SlabAccess Access> void load(const Access& access, unsigned c, void** blocks, unsigned count) {
    Heap::Env::step("magazine.loading");
    if (count > 0 && heap_->is_far(reinterpret_cast<uptr>(blocks[0]))) slots::to_far(blocks, count);
    load_slots(access, c, blocks, count);
  }
  // The same for slots of any superblocks.
  template <SlabAccess Access> void load_slots(const Access& access, unsigned c, void** blocks, unsigned count) {
    unsigned left = count - access.push_batch(c, blocks, count);
    if (left > 0 && open(access, c)) left -= access.push_batch(c, blocks, left);
    if (left > 0) flush(c, blocks, left);
  }

  // Empties a slab that the caller has to itself, and takes its magazines away.
  void empty(Slab& slab) {
    for (unsigned c = 1; c < kClassCount; ++c) empty_class(slab, c);
    slab.grown_bytes.store_relaxed(0);
  }
  void empty_class(Slab& slab, unsigned c) {
    const PlainSlab access(slab);
    void* blocks[kBatchMax];
    while (const unsigned n = access.pop_batch(c, blocks, kBatchMax)) {
      Heap::Env::step("magazine.emptying");
      flush(c, blocks, n);
    }
    slab.top[c].store_relaxed(heap_->closed());
    slab.capacity[c].store_relaxed(Shapes::small(c));
    if (const u32 d = access.take_current(c)) heap_->superblocks().let_go(d);
  }

 private:
  // send_home, looking at `most` blocks.
  template <SlabAccess Access>
  FREEWAY_NOINLINE void send_topmost(const Access& access, Slab& slab, unsigned c, unsigned most) {
    static_assert(homes::kSentAtOnce <= kBatchMax && homes::kNodeSentAtOnce <= kBatchMax);
    slab.patience.store_relaxed(most == homes::kSentAtOnce ? homes::kPatience : homes::kNodePatience);
    void* blocks[kBatchMax];
    const unsigned got = access.pop_batch(c, blocks, most);
    Heap::Env::step("magazine.sending");
    void* foreign[kBatchMax];
    unsigned sent = 0, kept = 0;
    for (unsigned i = 0; i < got; ++i) {
      void* block = slots::block_of(blocks[i]);
      const bool goes = heap_->is_foreign(slab, c, block) && (i < homes::kSentAtOnce || heap_->is_away(slab, c, block));
      if (goes) foreign[sent++] = block;
      if (!goes) blocks[kept++] = blocks[i];
    }
    const unsigned left = kept - access.push_batch(c, blocks, kept);
    // Other threads may have filled it.
    if (left > 0) flush(c, blocks, left);
    if (sent > 0) flush(c, foreign, sent);
  }

  // flush without atomic instructions, while the process has one thread.
  FREEWAY_NOINLINE void flush_alone(unsigned c, void* const* blocks, unsigned count) {
    const SizeClass k = kSizeClasses[c];
    auto& superblocks = heap_->superblocks();
    alone::Change changes[kBatchMax];
    u8 numbers[kBatchMax];  // in the batch, of one of the change's blocks
    unsigned made = 0;
    const auto place = [&](void* slot) { return heap_->place_of(c, k, slots::block_of(slot)); };
    each_piece(blocks, count, k.size, k.blocks, place, [&](u32 descriptor, u32 word, u64 bits, unsigned i) {
      changes[made] = {&superblocks.word_of(descriptor, word), bits};
      numbers[made++] = static_cast<u8>(i);
    });
    for (unsigned i = 0; i < made; ++i) {
      const alone::Stopped stopped = alone::set_each(changes + i, changes + made);
      i = static_cast<unsigned>(reinterpret_cast<const alone::Change*>(stopped.at & ~u64{1}) - changes);
      if (i == made) return;
      void* block = slots::block_of(blocks[numbers[i]]);
      const u64 full = k.full_mask(k.block_at(reinterpret_cast<uptr>(block)) / 64);
      // Nothing is left to do: the superblock may be gone since the change, a handler may have freed its other blocks.
      if ((stopped.at & 1) == 0 && anchor::is_over(stopped.old, changes[i].mask, full)) continue;
      finish(c, block, changes[i], stopped);
    }
  }

  // Completes a change at which set_each stopped. `block` is one of its superblock's, which is still there: this change
  // of it was not done, or is owed to its anchor (anchor.h).
  FREEWAY_COLD void finish(unsigned c, void* block, const alone::Change& change, const alone::Stopped& stopped) {
    const SizeClass& k = kSizeClasses[c];
    const Place p = heap_->place_of(c, k, block);
    if (p.descriptor == 0) return;
    const auto word = static_cast<u32>(change.word - &heap_->superblocks().word_of(p.descriptor, 0));
    const Group group{change.mask, Group::key_of(p.descriptor, word), 0};
    if ((stopped.at & 1) != 0) heap_->free_group(c, k, group, block);
    else heap_->group_was_freed(c, k, group, block, stopped.old);
  }

  // Apart from flush, whose frame is as large as a frame here may be.
  FREEWAY_NOINLINE void free_groups(unsigned c, const Groups& groups, void* const* blocks) {
    for (unsigned i = 0; i < groups.size(); ++i) {
      const Group group = groups[i];
      Heap::Env::step("magazine.freeing");
      heap_->free_group(c, kSizeClasses[c], group, slots::block_of(blocks[group.block]));
    }
  }

  // Blocks that move at a time: half a small magazine; out of a grown one an eighth.
  static unsigned refill_size(const Slab& slab, unsigned c) {
    // OPTIMISTIC: capacity
    return static_cast<unsigned>(clamp(slab.capacity[c].load_relaxed() / 2, 1, kBatchMax));
  }
  static unsigned flush_size(const Slab& slab, unsigned c) {
    const unsigned eighth = static_cast<unsigned>(slab.capacity[c].load_relaxed() / 8);
    return eighth > kBatchMax ? eighth : refill_size(slab, c);
  }

  // Up to `wanted` blocks from the slab's current superblock, or another; none without memory.
  template <SlabAccess Access>
  Cut cut(const Access& access, const Slab& slab, unsigned c, unsigned wanted, void** blocks) {
    auto& superblocks = heap_->superblocks();
    u32 d = take_current(access, c);
    const u32 old = d;
    if (d == 0) d = superblocks.hold(c);
    for (;;) {
      if (d == 0) return {};
      if (d != old) heap_->settle_home(slab, c, d);
      Heap::Env::step("magazine.superblock");
      if (const Cut got = superblocks.cut(d, wanted, blocks); got.count != 0) {
        Heap::Env::step("magazine.cut");
        if (!access.put_current(c, d)) superblocks.let_go(d);
        return got;
      }
      const uptr span = superblocks.span_of(d);
      superblocks.let_go(d);
      d = superblocks.hold_behind(c, span);
    }
  }

  // As load, for blocks side by side, the first at `lowest`. `room`: for the addresses of those that do not fit.
  template <SlabAccess Access>
  void load_run(const Access& access, unsigned c, uptr lowest, unsigned count, void** room) {
    Heap::Env::step("magazine.loading");
    const u64 size = kSizeClasses[c].size, slot = slots::of(reinterpret_cast<void*>(lowest), heap_->is_far(lowest));
    unsigned left = count - access.push_run(c, slot, size, count);
    if (left > 0 && open(access, c)) left -= access.push_run(c, slot, size, left);
    if (left == 0) return;
    for (unsigned i = 0; i < left; ++i) room[i] = reinterpret_cast<void*>(lowest + i * size);
    flush(c, room, left);
  }

  template <SlabAccess Access> FREEWAY_INLINE bool unload(const Access& access, Slab& slab, unsigned c) {
    ++slab.counters[c].flushes;
    slab.refills_seen[c].store_relaxed(static_cast<u32>(slab.counters[c].refills));
    bool any = false;
    for (unsigned left = flush_size(slab, c); left > 0;) {
      void* blocks[kBatchMax];
      const unsigned wanted = left < kBatchMax ? left : kBatchMax;
      const unsigned got = access.pop_batch(c, blocks, wanted);
      if (got == 0) break;
      Heap::Env::step("magazine.unloading");
      flush(c, blocks, got);
      any = true;
      left -= got;
    }
    return any;
  }

  template <SlabAccess Access> bool open(const Access& access, unsigned c) {
    return access.open(c, Shapes::offset_of_small(c), u64{Shapes::small(c)} * 8, heap_->closed());
  }

  // Gives a swinging class a larger magazine; true if it has one more room than before.
  template <SlabAccess Access> FREEWAY_NOINLINE bool grow(const Access& access, Slab& slab, unsigned c) {
    const u32 largest = Shapes::big(c);
    const u64 capacity = slab.capacity[c].load_relaxed();
    const u64 step = clamp(largest - capacity, 0, kGrowthStep);
    const u64 bytes = step * kSizeClasses[c].size;
    if (capacity >= largest || slab.refills_seen[c].load_relaxed() == static_cast<u32>(slab.counters[c].refills) ||
        slab.grown_bytes.load_relaxed() + bytes > kGrowthBudget)
      return false;
    slab.refills_seen[c].store_relaxed(static_cast<u32>(slab.counters[c].refills));
    // The capacity is a guess: where the thread changed its CPU on the last lines, another slab's was raised. So the
    // magazine is looked for in its first place, then the lowest sentinel of its second.
    const u64 first = Shapes::offset_of_small(c), big = Shapes::offset_of_big(c);
    bool grown = access.move(c, first, u64{Shapes::small(c)} * 8, big - first, (capacity + step) * 8);
    for (u64 at = Shapes::small(c) + kGrowthStep; !grown; at += kGrowthStep) {
      if (at > capacity) at = capacity;
      const u64 answer = access.grow(offset_of_capacity(c), capacity, big + at * 8, (capacity + step - at) * 8);
      if (answer == 0) return false;
      grown = answer == 1 || at == capacity;
    }
    // The capacity follows the sentinel; if the thread stops in between, the next one to grow finds none and moves it.
    Heap::Env::step("magazine.growing");
    if (grown && access.replace(offset_of_capacity(c), capacity, capacity + step))
      slab.grown_bytes.fetch_add_relaxed(bytes);
    return grown;
  }

  Heap* heap_ = nullptr;
};

}  // namespace freeway
