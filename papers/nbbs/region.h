// SPDX-License-Identifier: MIT
// Region: a range of memory that one buddy manages for malloc, made on demand and given back when it is empty.
//
// The root of its own tree says who may take the range away: whoever occupies the root has all of it.
//
// Word      state: kClosed no memory, the root is occupied by nobody in particular; kBusy somebody opens or closes it;
//           kOpen memory is at `base`
//           full: bit l = a whole search of level l found nothing, and no such block was freed since. A hint: a block
//           freed during that search may go unnoticed until the next free in this region
//           freed: the node that was freed last, 0 none: where a search begins. A hint
// Moves     open: kClosed -> kBusy (CAS), memory, -> kOpen, the root is freed
//           close: the root is occupied, kOpen -> kBusy, memory away, -> kClosed
// Who       open: anybody; close: whoever occupied the root
// Orders    [R1] a closed region's base is 0 before it can be opened again; [A1] opening sees that. `base` reaches
//           those who allocate through the tree: the root is freed after it is set
// ABA       none: base changes only while the root is occupied, and a block's owner keeps the root from being so
// Lost if killed: while opening or closing, the region: its memory, and its tree; a tree that is not published yet
// Checked   papers/nbbs/tests/region_model.cc
// Memory    type-stable: a Region and its tree are never unmapped, so a search that sleeps through a closing reads a
//           tree
#pragma once

#include "papers/nbbs/buddy.h"
#include "size/size_classes.h"

namespace freeway::nbbs {

// `Backing`: take_span(frames, alignment in frames, value) -> address, 0 if refused; give_span(address, frames).
template <class Env, class Backing> class alignas(64) Region {
 public:
  enum State : u32 { kClosed = 0, kBusy = 1, kOpen = 2 };
  using Tree = Buddy<Env>;

  static constexpr std::size_t bytes(const Settings& s) { return sizeof(Region) + Tree::bytes(s); }
  // In zeroed memory, before it is published: closed.
  void init(const Settings& settings) {
    tree().init(settings);
    tree().take_node(1);
  }

  // Gets memory whose frames say `value`. False: somebody else does, or it is open, or memory is refused.
  bool open(Backing& backing, u32 value) {
    u32 closed = kClosed;
    if (state_.load_relaxed() != kClosed || !state_.cas_acquire(closed, kBusy)) return false;  // [A1] pairs with [R1]
    Env::step("region.opening");
    const uptr memory = backing.take_span(frames(), frames(), value);
    if (memory == 0) {
      state_.store_release(kClosed);  // [R1] pairs with [A1]
      return false;
    }
    base_.store_relaxed(memory);
    full_.store_relaxed(0);
    freed_.store_relaxed(0);
    state_.store_relaxed(kOpen);
    Env::step("region.opened");
    tree().give(1);
    return true;
  }
  // Gives the memory back if there is no block in it.
  bool close(Backing& backing) {
    if (!is_open() || !tree().take_node(1)) return false;
    const uptr memory = base();
    state_.store_relaxed(kBusy);
    base_.store_relaxed(0);
    Env::step("region.closing");
    backing.give_span(memory, frames());
    state_.store_release(kClosed);  // [R1] pairs with [A1]
    return true;
  }

  // A node of `level`, looked for from `start` on; 0 if there is none.
  Node take(unsigned level, Node start) {
    const Node n = tree().take(level, start);
    if (n == 0) full_.fetch_or_relaxed(u32{1} << level);  // and with it all that is bigger
    return n;
  }
  // Where to look for one: at what was freed last, else at `otherwise`.
  Node start(unsigned level, Node otherwise) const {
    const Node freed = freed_.load_relaxed();
    if (freed == 0) return otherwise;
    const unsigned at = level_of(freed);
    return at <= level ? freed << (level - at) : freed >> (at - level);
  }
  // False: it was not occupied. `free_level`: the level of the biggest block that is there now in its place, if that
  // level was thought to be full here; else none that exists.
  bool give(Node n, unsigned* free_level) {
    *free_level = kMostLevels;
    if (!tree().give(n)) return false;
    freed_.store_relaxed(n);
    const u32 full = full_.load_relaxed();
    if (full == 0) return true;
    while (n > 1 && tree().seems_free(n / 2)) n /= 2;
    if (full >> level_of(n) == 0) return true;
    *free_level = level_of(n);
    full_.store_relaxed(full & static_cast<u32>(low_bits(level_of(n))));
    return true;
  }

  bool seems_full(unsigned level) const { return full_.load_relaxed() >> level != 0; }
  bool is_open() const { return state_.load_relaxed() == kOpen; }
  bool is_closed() const { return state_.load_relaxed() == kClosed; }
  uptr base() const { return base_.load_relaxed(); }
  Tree& tree() { return *reinterpret_cast<Tree*>(this + 1); }
  const Settings& settings() { return tree().settings(); }

 private:
  std::size_t frames() { return settings().managed() / kFrameSize; }

  typename Env::template Atomic<uptr> base_;
  typename Env::template Atomic<u32> state_;
  typename Env::template Atomic<u32> full_;
  typename Env::template Atomic<Node> freed_;
};

}  // namespace freeway::nbbs
