// SPDX-License-Identifier: MIT
// Superblocks: the protocol by which superblocks are made, held, freed into, listed and given back.
//
// Words     each descriptor's anchor and bitmap (anchor.h, descriptor.h); the partial lists (partial_lists.h)
// Who       free_group: any thread that owns the blocks.   take, let_go, purge: the holder.   hold: any thread
// Invariant a descriptor has at most one entry in a list or pool; without one it is in one pair of hands, or unlisted.
//           One with an entry in a list may be a *tombstone* (EMPTY: its span is gone already), which the popper moves
//           to the pool, or held by a thread that found it through the page map (ENTRY); then the popper drops the
//           entry
// Orders    [R1] a freer's bits publish the freed blocks; [A1] the holder that takes them sees that, and [A2] with [A3]
//           so does the thread that finds the superblock EMPTY
//           [R2] let_go publishes the holder's view to the next; [A3] freers, [A4], [A6] adopters see it
//           [A5] a thread that takes U away, and with it the duty to list or recycle, sees the state that let_go left
//           [A7] the popper that recycles a tombstone sees the last holder's work
//           [R3] the popper that drops an entry leaves the link to the thread that lists it next: let_go's holder [A2],
//           or [A5]
//           (each weakening has a scenario that breaks it: tests/superblock)
// Last touch  after the step that may hand the descriptor to others, only locals are used. The lint checks the mark.
// Nodes     hold takes one from the lists of the thread's NUMA node; then from those of nodes that have some to spare;
//           then makes one; if memory is refused, takes from anywhere. One that was taken from another node is let go
//           after the next batch, and listed with its own
// Progress  lock-free       Lost if killed: the superblock that the thread held or was listing, or the span in its
//           hands; a freer killed between word and anchor leaves its superblock's counts too low, so that it is never
//           EMPTY
// Checked   tests/superblock/superblock_model.cc, tests/superblock/superblocks_test.cc
#pragma once

#include <concepts>

#include "base/check.h"
#include "base/compiler.h"
#include "size/size_classes.h"
#include "superblock/bitmap.h"
#include "superblock/descriptor.h"
#include "superblock/partial_lists.h"

namespace freeway {

// Where superblocks have spans and descriptors from.
template <class B, class Env>
concept SpanBacking = requires(B backing, unsigned c, u32 index, uptr span) {
  { backing.size_class(c) } -> std::same_as<const SizeClass&>;
  { backing.descriptor(index) } -> std::same_as<Descriptor<Env>&>;
  // The index of a new one with size_class set; 0: no memory.
  { backing.make_descriptor(c) } -> std::same_as<u32>;
  // A span whose frames are mapped to the descriptor `index`; 0: no memory.
  { backing.take_span(c, index) } -> std::same_as<uptr>;
  // The index of a descriptor of class c that was mapped to the frames at `span` a moment ago, or 0.
  { backing.descriptor_at(span, c) } -> std::same_as<u32>;
  // Takes the frames' map entries away and gives them back.
  { backing.give_span(span, c) } -> std::same_as<void>;
  // The number of the thread's NUMA node, now or a moment ago; where there are several.
  { backing.node() } -> std::same_as<unsigned>;
};

// Blocks that were taken. run 0: their addresses are written; else none is, and they lie side by side from `run` on.
struct Cut {
  unsigned count;
  uptr run;
};

// What its holder does with a superblock's bitmap: of descriptors and their shapes alone, so that it is compiled once
// for all superblocks of an Env.
template <class Env> class HeldSuperblock {
 public:
  // Takes up to `want` (1 … 64) free blocks of the superblock, upwards from where the last take stopped: as a run
  // if the first word has all of them side by side, else writes their addresses to `out`. Count 0: nothing is free.
  static FREEWAY_NOINLINE Cut cut(Descriptor<Env>& desc, const SizeClass& k, unsigned want, void** out) {
    const uptr span = desc.span.load_relaxed();
    unsigned word = desc.next_word.get();
    unsigned got = 0;
    for (unsigned scanned = 0; scanned <= k.words; ++scanned) {  // the first word twice: bits may be left below
      u64 chosen = lowest_set_bits(desc.words[word].load_relaxed(), want - got);
      if (chosen != 0) chosen = take_bits(desc, k, word, chosen);
      if (chosen != 0) {
        const unsigned first = lowest_bit(chosen);
        if (got == 0 && first + want <= 64 && chosen == low_bits(want) << first) {
          desc.next_word.set(word);
          return {want, span + (u64{word} * 64 + first) * k.size};
        }
        got += bitmap::addresses_of(chosen, span + u64{word} * 64 * k.size, k.size, out + got);
      }
      if (got == want) break;
      word = word + 1 == k.words ? 0 : word + 1;
    }
    desc.next_word.set(word);
    return {got, 0};
  }

  // The same with all addresses written. Returns how many.
  static unsigned take(Descriptor<Env>& desc, const SizeClass& k, unsigned want, void** out) {
    const Cut got = cut(desc, k, want, out);
    return got.run == 0 ? got.count : bitmap::addresses_of(low_bits(got.count), got.run, k.size, out);
  }

  // take(), but from a random word of the bitmap on, and random blocks of the last word. Words are taken whole: blocks
  // that are handed out one after the other are used together, so they should lie in few pages.
  template <class Random>
  static FREEWAY_COLD unsigned take_scattered(Descriptor<Env>& desc, const SizeClass& k, unsigned want, void** out,
                                              Random& random) {
    const uptr span = desc.span.load_relaxed();
    unsigned word = random.below(k.words);
    unsigned got = 0;
    for (unsigned scanned = 0; scanned < k.words && got < want; ++scanned) {
      u64 chosen = desc.words[word].load_relaxed();
      if (popcount(chosen) > want - got) chosen = random.some_of(chosen, want - got);
      if (chosen != 0) chosen = take_bits(desc, k, word, chosen);
      if (chosen != 0) got += bitmap::addresses_of(chosen, span + u64{word} * 64 * k.size, k.size, out + got);
      word = word + 1 == k.words ? 0 : word + 1;
    }
    return got;
  }

  // Gives back the memory of pages on which the superblock has only free blocks. `page`: bytes a page.
  // Returns the bytes given back.
  static FREEWAY_COLD std::size_t purge(Descriptor<Env>& desc, const SizeClass& k, std::size_t page) {
    const uptr span = desc.span.load_relaxed();
    std::size_t purged = 0;
    for (unsigned first = 0; first < k.blocks;) {
      const unsigned end = bitmap::free_run(desc, k, first);
      // Whole pages within blocks first … end - 1; the span's unused tail belongs to its last block.
      const u64 limit = end == k.blocks ? k.span_bytes() : u64{end} * k.size;
      const u64 from = align_up(u64{first} * k.size, page);
      if (end > first && align_down(limit, page) > from)
        purged += purge_blocks(desc, k, span, first, end, from, align_down(limit, page));
      first = end + 1;
    }
    return purged;
  }

  using Word = typename Env::template Atomic<u64>;

  // A bitmap word's two changes. Where the Env knows that no other thread can change the word (a single-threaded
  // process), it makes them without an atomic instruction.
  static u64 set_bits(Word& word, u64 mask) {
    if constexpr (requires(u64 old) { Env::set_bits_alone(word, mask, old); }) {
      u64 old;
      if (Env::set_bits_alone(word, mask, old)) return old;
    }
    return word.fetch_or_release(mask);  // [R1] pairs with [A1] [A2] [A3]
  }

 private:
  static u64 clear_bits(Word& word, u64 mask) {
    if constexpr (requires(u64 old) { Env::clear_bits_alone(word, mask, old); }) {
      u64 old;
      if (Env::clear_bits_alone(word, mask, old)) return old;
    }
    return word.fetch_and_acquire(~mask);  // [A1] pairs with [R1]
  }

  // Returns the bits that it got (all of them, unless the program freed a block that it did not own).
  static u64 take_bits(Descriptor<Env>& desc, const SizeClass& k, unsigned word, u64 mask) {
    const u64 old = clear_bits(desc.words[word], mask);
    const u64 got = old & mask;
    if (got != 0) desc.owed.set(desc.owed.get() + anchor::minus(old, got, k.full_mask(word)));
    return got;
  }
  // The inverse, for blocks that never left its hands.
  static void put_bits(Descriptor<Env>& desc, const SizeClass& k, unsigned word, u64 mask) {
    const u64 change = anchor::plus(set_bits(desc.words[word], mask), mask, k.full_mask(word));
    // Others may have freed into the word meanwhile. If it is full now, their frees must be seen before let_go may find
    // the superblock EMPTY and give its memory away.
    if (change != 0) Env::fence_acquire();  // [A2] pairs with [R1]
    desc.owed.set(desc.owed.get() - change);
  }

  static FREEWAY_COLD std::size_t purge_blocks(Descriptor<Env>& desc, const SizeClass& k, uptr span, unsigned first,
                                               unsigned end, u64 from, u64 to) {
    std::size_t backed = to - from;
    if constexpr (requires { Env::resident(from, to); }) backed = Env::resident(span + from, to - from);
    if (backed == 0) return 0;
    bool all = true;
    u64 got[kMaxWords];
    bitmap::each_word(first, end, [&](unsigned word, u64 mask) {
      u64& mine = got[word - first / 64];
      mine = take_bits(desc, k, word, mask);
      all &= mine == mask;
    });
    Env::step("superblock.purging");
    const bool done = all && Env::purge(span + from, to - from);
    Env::step("superblock.purged");
    bitmap::each_word(first, end, [&](unsigned word, u64) {
      if (got[word - first / 64] != 0) put_bits(desc, k, word, got[word - first / 64]);
    });
    return done ? backed : 0;
  }
};

template <class Env, SpanBacking<Env> Backing, class Lists = PartialLists<Env>> class Superblocks {
 public:
  static constexpr unsigned kTombstonesPerCall = 8;
  static constexpr unsigned kNeighbours = 4;  // spans that take_behind looks at
  static constexpr unsigned kAroundBits = 6;

  // Once (or again with the same), before anything else. `nodes`: see PartialLists.
  void init(Backing* backing, unsigned nodes = 1) {
    backing_ = backing;
    partial_.init(nodes);
  }

  // Holds a superblock of class `c`: one from a partial list, else a new one. 0: no memory.
  FREEWAY_NOINLINE u32 hold(unsigned c) { return hold_at(c, here()); }

  // The same, but one of the next behind the span `behind` in memory if one of them has free blocks: a thread that goes
  // from one superblock to the next should not be led through memory at random, in the order in which they were listed.
  u32 hold_behind(unsigned c, uptr behind) {
    const unsigned node = here();
    if (partial_.look_empty(c, node)) return hold_elsewhere(c, node);
    if (u32 d = take_behind(c, behind)) return d;
    return hold_at(c, node);
  }

  // Holds a new one, of the node; 0: no memory.
  FREEWAY_COLD u32 make(unsigned c, unsigned node) {
    const SizeClass& k = backing_->size_class(c);
    u32 d = partial_.reuse(c, links());
    if (d == 0) d = backing_->make_descriptor(c);
    if (d == 0) return 0;
    Env::step("superblock.descriptor");
    const uptr span = backing_->take_span(c, d);
    if (span == 0) {
      recycle(c, d);
      return 0;
    }
    Env::step("superblock.span");
    Descriptor<Env>& desc = backing_->descriptor(d);
    desc.span.store_relaxed(span);
    if (has_nodes()) desc.node.store_relaxed(node);
    partial_.count(c, node, 1);
    desc.begin();
    for (unsigned word = 0; word < k.words; ++word) desc.words[word].store_relaxed(k.full_mask(word));
    desc.anchor.store_relaxed(anchor::born(c, k.words));
    return d;
  }

  // Holds one of the next few superblocks behind `behind` that has free blocks and no holder; 0 if there is none.
  u32 take_behind(unsigned c, uptr behind) {
    const SizeClass& k = backing_->size_class(c);
    for (unsigned i = 1; i <= kNeighbours; ++i)
      if (const u32 d = take_at(c, k, behind + i * k.span_bytes())) return d;
    return 0;
  }

  // The same for kNeighbours of the spans around `span`, which `random` chooses.
  FREEWAY_COLD u32 take_around(unsigned c, uptr span, u64 random) {
    const SizeClass& k = backing_->size_class(c);
    for (unsigned i = 0; i < kNeighbours; ++i, random >>= kAroundBits) {
      const u64 steps = (random & low_bits(kAroundBits)) - (u64{1} << (kAroundBits - 1));  // modulo 2^64
      if (const u32 d = take_at(c, k, span + steps * k.span_bytes())) return d;
    }
    return 0;
  }

  uptr span_of(u32 d) { return backing_->descriptor(d).span.load_relaxed(); }

  // Whether there are several NUMA nodes; the place of the lists of the calling thread's node.
  bool has_nodes() const { return partial_.has_nodes(); }
  unsigned here() const { return has_nodes() ? partial_.place_of(backing_->node()) : 0; }
  // Whether the superblock belongs to another node than the calling thread's. A hint for threads that do not hold it.
  bool is_away(u32 d) { return has_nodes() && node_of(d) != here(); }
  // The node that the superblock belongs to.
  unsigned node_of(u32 d) const { return has_nodes() ? backing_->descriptor(d).node.load_relaxed() : 0; }

  // Holds a superblock from the partial lists, those of the thread's node first; 0 if none was found.
  u32 adopt(unsigned c) {
    const unsigned node = here();
    if (u32 d = adopt_at(c, node)) return d;
    return steal(c, node, /*all=*/true);
  }

  // HeldSuperblock's, of the held superblock `d`.
  Cut cut(u32 d, unsigned want, void** out) { return Held::cut(backing_->descriptor(d), shape_of(d), want, out); }
  unsigned take(u32 d, unsigned want, void** out) {
    return Held::take(backing_->descriptor(d), shape_of(d), want, out);
  }
  template <class Random> unsigned take_scattered(u32 d, unsigned want, void** out, Random& random) {
    return Held::take_scattered(backing_->descriptor(d), shape_of(d), want, out, random);
  }
  std::size_t purge(u32 d, std::size_t page) { return Held::purge(backing_->descriptor(d), shape_of(d), page); }

  // Lets the held superblock `d` go: to a partial list; unlisted, if nothing is free; to the backing, if all is free.
  void let_go(u32 d) {
    Descriptor<Env>& desc = backing_->descriptor(d);
    const unsigned c = desc.size_class.load_relaxed();
    const SizeClass& k = backing_->size_class(c);
    const uptr span = desc.span.load_relaxed();
    const unsigned node = node_of(d);
    const u64 owed = desc.owed.get();
    desc.owed.set(0);
    u64 seen = desc.anchor.load_relaxed();
    anchor::LetGo next;
    do {
      next = anchor::let_go(seen, owed, c, k.words);
      Env::step("superblock.let_go");
    } while (!desc.anchor.cas_acq_rel(seen, next.word));  // [R2] [A2] pairs with [A3] [A4] [A5] [R1]
    // LAST TOUCH: desc
    if (next.duty == anchor::Duty::kEmpty || next.duty == anchor::Duty::kTombstone) {
      Env::step("superblock.emptied");
      backing_->give_span(span, c);
      partial_.count(c, node, ~u32{0});
      Env::step("superblock.recycling");
      if (next.duty == anchor::Duty::kEmpty) recycle(c, d);
    } else if (next.duty == anchor::Duty::kList) {
      Env::step("superblock.listing");
      list(c, node, d);
    }
  }

  // Frees the blocks `mask` of word `word` of superblock `d`, whose span is `span` and class `c`; the caller owns them.
  // Returns the blocks that were free already: double frees, for which nothing was changed.
  u64 free_group(unsigned c, u32 d, uptr span, unsigned word, u64 mask) {
    return was_freed(c, d, span, word, mask, Held::set_bits(backing_->descriptor(d).words[word], mask));
  }

  // The bitmap word that free_group changes, for callers that set the bits themselves and then call was_freed, unless
  // anchor::is_over says that nothing is left to do.
  auto& word_of(u32 d, unsigned word) { return backing_->descriptor(d).words[word]; }

  // free_group once the bits are set; `old` is the word's old value.
  u64 was_freed(unsigned c, u32 d, uptr span, unsigned word, u64 mask, u64 old) {
    Descriptor<Env>& desc = backing_->descriptor(d);
    const SizeClass& k = backing_->size_class(c);
    const u64 twice = old & mask;
    // A block that was free already is not the caller's: unless `mask` has another one, even a look at the anchor would
    // be a look at another owner's superblock.
    const u64 change = twice == mask ? 0 : anchor::plus(old, mask & ~twice, k.full_mask(word));
    if (change == 0) return twice;
    Env::fence_acquire();  // [A2] pairs with [R1]
    Env::step("superblock.freed");
    const unsigned node = node_of(d);                          // no thread finds it EMPTY before the next step
    u64 now = desc.anchor.fetch_add_acq_rel(change) + change;  // [A3] pairs with [R1] [R2]
    if (anchor::is_empty(now, c, k.words)) {
      Env::step("superblock.emptied");
      settle_empty(c, node, d, span, now);
      return twice;
    }
    // Only our own step could make it EMPTY for us. An EMPTY that is seen from here on is another thread's (then a
    // tombstone is listed), or the superblock is in its next life (which needs listing just the same; its node may be
    // another).
    while (anchor::wants_listing(now)) {
      Env::step("superblock.claiming");
      if (desc.anchor.cas_acquire(now, now & ~anchor::kUnlisted)) {  // [A5] pairs with [R2]
        // LAST TOUCH: desc
        list(c, node_of(d), d);
        break;
      }
    }
    return twice;
  }

  // Whether the block's bit says free (a block in a magazine is not).
  bool is_free(u32 d, u32 index) const {
    return (backing_->descriptor(d).words[index / 64].load_relaxed() >> (index % 64) & 1) != 0;
  }

  // Trimming: takes superblocks one by one off the list that receives no new entries, calls f(d) with each held, and
  // lets it go to the other list; at most `most`, since two trims at once would pass them to and fro. Tombstones do not
  // count: any number of them may lie above a superblock, and each is gone for good. `flip_lists` makes the lists
  // change roles.
  template <class F> void each_listed(unsigned c, std::size_t most, F&& f) {
    for (unsigned node = 0; node < partial_.nodes(); ++node)
      for (; most > 0; --most) {
        const u32 d = adopt_from(c, node, /*target=*/false, /*tombstones=*/~0u);
        if (d == 0) break;
        f(d);
        let_go(d);
      }
  }
  void flip_lists() { partial_.flip(); }

  Lists& lists() { return partial_; }

  // For audits, while no other thread moves: calls f(index, whether it is the pool) for the descriptors in each list
  // and the pool of class c, from the top until f returns false.
  template <class F> void each_in_lists(unsigned c, F&& f) {
    partial_.each_stack(c, [&](TaggedStack<Env>& stack, bool pool) {
      for (u32 d = stack.peek(); d != 0 && f(d, pool); d = backing_->descriptor(d).link.load_relaxed()) continue;
    });
  }

 private:
  using Held = HeldSuperblock<Env>;

  const SizeClass& shape_of(u32 d) const {
    return backing_->size_class(backing_->descriptor(d).size_class.load_relaxed());
  }
  auto links() {
    return [this](u32 index) -> auto& { return backing_->descriptor(index).link; };
  }
  void list(unsigned c, unsigned node, u32 d) { partial_.put(c, node, d, links()); }
  void recycle(unsigned c, u32 d) { partial_.recycle(c, d, links()); }

  // The duty of the freer whose step made the anchor `now` = EMPTY: it owns the span, and the descriptor only if it
  // takes U away; without U it is a tombstone in a list (or some thread is about to put it there).
  void settle_empty(unsigned c, unsigned node, u32 d, uptr span, u64 now) {
    backing_->give_span(span, c);
    partial_.count(c, node, ~u32{0});
    Env::step("superblock.settling");
    if (!anchor::is_unlisted(now)) return;
    if (backing_->descriptor(d).anchor.cas_acquire(now, now & ~anchor::kUnlisted)) {  // [A5] pairs with [R2]
      // LAST TOUCH: backing_
      recycle(c, d);
    }
  }

  u32 hold_at(unsigned c, unsigned node) {
    if (u32 d = adopt_at(c, node)) return d;
    return hold_elsewhere(c, node);
  }
  // One that is not in the lists of `node`. Both may be wrong: to take from another node, since memory elsewhere is
  // slow; to make one, since memory grows while blocks that other nodes freed lie idle. So nodes keep a few.
  u32 hold_elsewhere(unsigned c, unsigned node) {
    if (u32 d = steal(c, node, /*all=*/false)) return d;
    if (u32 d = make(c, node)) return d;
    return steal(c, node, /*all=*/true);
  }

  u32 adopt_at(unsigned c, unsigned node) {
    if (u32 d = adopt_from(c, node, /*target=*/true)) return d;
    return adopt_from(c, node, /*target=*/false);
  }
  // One from other nodes' lists, the next ones first: from those that have some to spare, or from all.
  FREEWAY_COLD u32 steal(unsigned c, unsigned node, bool all) {
    for (unsigned i = 1; i < partial_.nodes(); ++i) {
      const unsigned other = (node + i) % partial_.nodes();
      if (!all && !partial_.has_to_spare(c, other)) continue;
      Env::step("superblock.stealing");
      if (u32 d = adopt_at(c, other)) return d;
    }
    return 0;
  }

  // Holds the superblock of class `c` at `span` if it has free blocks and no holder; else 0.
  u32 take_at(unsigned c, const SizeClass& k, uptr span) {
    const u32 d = backing_->descriptor_at(span, c);
    if (d == 0) return 0;
    // The descriptor may be another superblock's by now, or no one's: its own anchor says whether it may be held.
    Descriptor<Env>& desc = backing_->descriptor(d);
    u64 seen = desc.anchor.load_relaxed();  // OPTIMISTIC: neighbour
    Env::step("superblock.found");
    if (!anchor::may_take(seen, c, k.words) || is_away(d) ||
        !desc.anchor.cas_acquire_acquire(seen, seen | anchor::kHeld | anchor::kEntry))  // [A6] pairs with [R2] [R1]
      return 0;
    desc.begin();
    return d;
  }

  // 0: the list is empty, or `tombstones` tombstones were met.
  u32 adopt_from(unsigned c, unsigned node, bool target, unsigned tombstones = kTombstonesPerCall) {
    const SizeClass& k = backing_->size_class(c);
    while (tombstones > 0) {
      const u32 d = partial_.pop(c, node, target, links());
      if (d == 0) return 0;
      Env::step("superblock.popped");
      Descriptor<Env>& desc = backing_->descriptor(d);
      u64 seen = desc.anchor.load_relaxed();  // OPTIMISTIC: list entry
      for (;;) {
        const anchor::Popped next = anchor::popped(seen, c, k.words);
        if (next.find == anchor::Find::kTombstone) {
          Env::fence_acquire();  // [A7] pairs with [R2]
          Env::step("superblock.tombstone");
          recycle(c, d);
          --tombstones;
          break;
        }
        if (next.find ==
            anchor::Find::kDropped) {  // its holder, or a thread that frees one of its blocks, will list it
          if (desc.anchor.cas_release(seen, next.word)) break;  // [R3] pairs with [A2] [A5]. LAST TOUCH: desc
        } else if (desc.anchor.cas_acquire_acquire(seen, seen | anchor::kHeld)) {  // [A4] pairs with [R2] [R1]
          desc.begin();
          return d;
        }
      }
    }
    return 0;
  }

  Backing* backing_ = nullptr;
  Lists partial_;
};

// One block, for a thread without a slab; null: no memory. take(d, &block) takes it from the held superblock.
template <class Superblocks, class Take> void* take_one(Superblocks& superblocks, unsigned c, Take&& take) {
  void* block = nullptr;
  while (const u32 d = superblocks.hold(c)) {
    const unsigned got = take(d, &block);
    superblocks.let_go(d);
    if (got == 1) return block;
  }
  return nullptr;
}

}  // namespace freeway
