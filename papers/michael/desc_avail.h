// SPDX-License-Identifier: MIT
// desc_avail.h: DescAlloc and DescRetire (Michael 2004, Fig. 7): the list of descriptors without a superblock.
//
// Word      avail: the descriptor on top, 0 = none; each one's `next` leads to the one below
// Moves     alloc: d -> d's next (SafeCAS)     retire: d -> the retired one     a new batch: 0 -> its second descriptor
// ABA       SafeCAS is a CAS by a thread that holds a hazard pointer to d. While anybody does, retire does not put d
//           back: it is deferred, in a hazard record, until a later retirement finds it free. The paper's figure pushes
//           at once; then its SafeCAS compares with a d that went and came back (papers/michael/README.md)
// Orders    [R1] publishes what is pushed, its link, and the hazards of those who stored one before: with [A1], who
//           takes a descriptor out and retires it later finds each hazard that was confirmed while it was on top
// Progress  lock-free     Lost if killed: the descriptor in hand, a record and what is deferred in it
// Checked   papers/michael/tests/desc_avail_model.cc
#pragma once

#include "papers/michael/descriptor.h"
#include "papers/michael/hazard_pointers.h"

namespace freeway::michael {

// Source is where memory for descriptors and records comes from; it is never given back:
//   make_batch()  -> zeroed descriptors linked by `next`, with self and node set; null without memory
//   make_record() -> a zeroed hazard record; null without memory
template <class Env, class Source> class DescAvail {
 public:
  using Desc = Descriptor<Env>;
  using Hazards = HazardPointers<Env, Desc>;

  // DescAlloc; null if there is no memory.
  Desc* alloc(Source& source) {
    auto* record = hazards_.claim([&] { return source.make_record(); });
    if (record == nullptr) return nullptr;
    Desc* desc = avail_.load_relaxed();
    for (;;) {
      if (desc == nullptr) {
        desc = take_batch(source);
        break;
      }
      hazards_.protect(record, desc);
      Env::step("michael.desc.protected");
      // That it is still on top must be seen by a read-modify-write: see HazardPointers.
      if (!confirm(desc)) continue;
      Desc* below = desc->next.load_relaxed();
      Env::step("michael.desc.alloc");
      if (avail_.cas_acquire(desc, below)) break;  // SafeCAS [A1] pairs with [R1]
    }
    hazards_.leave(record);
    return desc;
  }

  // DescRetire. `desc` is the caller's alone, and EMPTY or never used.
  void retire(Desc* desc, Source& source) {
    auto* record = hazards_.claim([&] { return source.make_record(); });
    if (record == nullptr) return;  // no memory for a record: these 64 bytes are lost
    Desc* waiting = record->deferred.get();
    record->deferred.set(nullptr);
    desc->next.store_relaxed(waiting);
    while (desc != nullptr) {
      Desc* after = desc->next.load_relaxed();
      if (hazards_.is_hazard(desc)) {
        desc->next.store_relaxed(record->deferred.get());
        record->deferred.set(desc);
      } else {
        push(desc, desc);
      }
      desc = after;
    }
    hazards_.leave(record);
  }

  // Calls f(descriptor) for each one here, while nobody moves (audit).
  template <class F> void each(F&& f) const {
    for (Desc* d = avail_.load_relaxed(); d != nullptr; d = d->next.load_relaxed()) f(*d);
    hazards_.each([&](auto& record) {
      for (Desc* d = record.deferred.get(); d != nullptr; d = d->next.load_relaxed()) f(*d);
    });
  }

 private:
  bool confirm(Desc*& desc) {
    return avail_.cas_acq_rel(desc, desc);  // [R1] [A1] pairs with [A1]
  }

  // Takes one of a new batch and makes the others available (DescAlloc, lines 5–9). Where another thread has done so
  // meanwhile the paper gives its batch back to the system; ours is type-stable, so it is pushed.
  Desc* take_batch(Source& source) {
    Desc* desc = source.make_batch();
    if (desc == nullptr) return nullptr;
    Desc* last = desc->next.load_relaxed();
    if (last == nullptr) return desc;
    while (Desc* below = last->next.load_relaxed()) last = below;
    push(desc->next.load_relaxed(), last);
    return desc;
  }

  // Pushes the chain that leads from `top` to `bottom`.
  void push(Desc* top, Desc* bottom) {
    Desc* head = avail_.load_relaxed();
    do {
      bottom->next.store_relaxed(head);
      Env::step("michael.desc.push");
    } while (!avail_.cas_release(head, top));  // [R1] pairs with [A1]
  }

  typename Env::template Atomic<Desc*> avail_;
  Hazards hazards_;
};

}  // namespace freeway::michael
