// SPDX-License-Identifier: MIT
// lifo.h: a size class's partial list, the latest first, with removal from the middle (Michael 2004, §3.2.6; the list
// of Michael 2002, "High performance dynamic lock-free hash tables and list-based sets", with its tags).
//
// Words     head, and the link in each descriptor: index:26 of the next descriptor, 0 = none | mark:1 | tag:37
// Moves     put: head (i) -> (d)       take: a link (i, unmarked) -> (i, marked): who does that owns the descriptor
//           unlink: the link before a marked one (d) -> (d's next), by anybody who passes
// Invariant a marked link changes no more until its descriptor's owner puts it anew; the tag moves with every change
// Duty      the taker sees to it that what he took is unlinked before anything else happens to it
// Orders    [R1] putting publishes the descriptor and its link; every later change of the word that leads to it is a
//           CAS, so who reads that word after any of them, with [A1], sees it
//           [R2] who meets a link in another life of its descriptor sees that it had been unlinked ([A1], and he
//           restarts)
// Progress  lock-free       Lost if killed: the descriptor in hand
// Checked   papers/michael/tests/partial_list_model.cc, papers/michael/tests/partial_list_test.cc
#pragma once

#include "papers/michael/descriptor.h"

namespace freeway::michael {

struct ListLink {
  static constexpr unsigned kIndexBits = 26;
  static constexpr u64 kIndexMask = low_bits(kIndexBits);
  static constexpr u64 kMark = u64{1} << kIndexBits;

  static constexpr u32 index(u64 link) { return static_cast<u32>(link & kIndexMask); }
  static constexpr bool is_marked(u64 link) { return (link & kMark) != 0; }
  // The link after a change that makes it lead to `index`, unmarked.
  static constexpr u64 next(u64 link, u32 index) { return (((link & ~(kIndexMask | kMark)) + (kMark << 1))) | index; }
  static constexpr u64 marked(u64 link) { return next(link, index(link)) | kMark; }
};

template <class Env> class Lifo {
 public:
  template <class Nodes> void put(Descriptor<Env>& desc, Nodes&&) {
    const u64 before = desc.link.load_relaxed();
    u64 head = head_.load_relaxed();
    do {
      desc.link.store_release(ListLink::next(before, ListLink::index(head)));  // [R2] pairs with [A1]
      Env::step("michael.lifo.put");
    } while (!head_.cas_release(head, ListLink::next(head, desc.self.get())));  // [R1] pairs with [A1]
  }

  template <class Nodes> Descriptor<Env>* get(Nodes&& nodes) {
    return take(nodes, [](Descriptor<Env>&) { return true; });
  }

  // Takes the first descriptor for which `wanted(descriptor)` is true as long as it is listed; null if there is none.
  template <class Nodes, class Wanted> Descriptor<Env>* take(Nodes&& nodes, Wanted&& wanted) {
    Walk walk{&head_, 0, 0};
    restart(walk);
    while (Descriptor<Env>* desc = here(walk, nodes)) {
      if (!wanted(*desc)) {
        walk.at = &desc->link;
        walk.to = walk.behind;
        continue;
      }
      Env::step("michael.lifo.take");
      u64 link = walk.behind;
      if (!desc->link.cas_relaxed(link, ListLink::marked(link))) {
        restart(walk);
        continue;
      }
      Env::step("michael.lifo.taken");
      if (!unlink(walk)) sweep(nodes);
      return desc;
    }
    return nullptr;
  }

  // Calls f(descriptor) for each one listed, while nobody moves (audit).
  template <class Nodes, class F> void each(Nodes&& nodes, F&& f) const {
    for (u32 i = ListLink::index(head_.load_relaxed()); i != 0; i = ListLink::index(nodes(i).link.load_relaxed()))
      if (!ListLink::is_marked(nodes(i).link.load_relaxed())) f(nodes(i));
  }

 private:
  using Word = typename Env::template Atomic<u64>;
  struct Walk {
    Word* at;    // the link that leads here
    u64 to;      // what it was
    u64 behind;  // the link of the descriptor here
  };

  void restart(Walk& walk) {
    walk.at = &head_;
    walk.to = head_.load_acquire();  // [A1] pairs with [R1] [R2]
  }

  // The descriptor that the walk has come to, with its link in walk.behind; marked ones are unlinked and passed over.
  template <class Nodes> Descriptor<Env>* here(Walk& walk, Nodes&& nodes) {
    while (ListLink::index(walk.to) != 0) {
      Descriptor<Env>& desc = nodes(ListLink::index(walk.to));
      walk.behind = desc.link.load_acquire();  // [A1] pairs with [R1] [R2]
      if (walk.at->load_relaxed() != walk.to) restart(walk);
      else if (!ListLink::is_marked(walk.behind)) return &desc;
      else if (!unlink(walk)) restart(walk);
    }
    return nullptr;
  }

  // Takes the descriptor here, which is marked, out of the list; false if the link that led here has changed.
  bool unlink(Walk& walk) {
    u64 to = walk.to;
    const u64 past = ListLink::next(to, ListLink::index(walk.behind));
    if (!walk.at->cas_relaxed(to, past)) return false;
    walk.to = past;
    return true;
  }

  // Afterwards nothing that was marked before is in the list.
  template <class Nodes> void sweep(Nodes&& nodes) {
    Walk walk{&head_, 0, 0};
    restart(walk);
    while (Descriptor<Env>* desc = here(walk, nodes)) {
      walk.at = &desc->link;
      walk.to = walk.behind;
    }
  }

  Word head_;
};

}  // namespace freeway::michael
