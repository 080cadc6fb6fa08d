// SPDX-License-Identifier: MIT
// Scattered: gives malloc unpredictable blocks (FREEWAY_HARDEN=1): the refill of magazines.h, but a batch is the
// contents of one of the older beds, which the program freed (quarantine.h), or, one time in kBeds and if they are
// empty, random blocks of a superblock. Then it is shuffled. One cut in kStay goes on with another superblock.
//
// Moves     those of magazines.h; one superblock in hand at a time
// Lost if killed: the batch and the superblock in hand
// Checked   tests/harden/quarantine_test.cc, tests/abi/hardened_test.cc
#pragma once

#include "harden/quarantine.h"
#include "os/random.h"

namespace freeway {

// Asked of its heap, beside a MagazineHeap's.
template <class H>
concept ScatteredHeap = MagazineHeap<H> && requires(H heap) {
  { heap.random() } -> std::same_as<random::Stream>;
};

template <class Heap> class Scattered {
 public:
  static constexpr u32 kBeds = 16, kStay = 4;

  // Once (or again with the same).
  void init(Heap* owner, Magazines<Heap>* magazines, Quarantine<Heap>* quarantine) {
    static_assert(ScatteredHeap<Heap>);
    heap_ = owner;
    quarantine_ = quarantine;
    magazines_ = magazines;
  }

  // See Magazines::refill.
  template <SlabAccess Access> FREEWAY_COLD void* refill(const Access& access, Slab& slab, unsigned c) {
    if (const u64 slot = access.pop(c)) return slots::block_of(slot);
    ++slab.counters[c].refills;
    void* blocks[kBatchMax];
    random::Stream random = heap_->random();
    unsigned got = random.below(kBeds) == 0 ? 0 : quarantine_->rouse(access, slab, c, random, blocks);
    if (got == 0 && (got = cut(access, slab, c, random, blocks)) == 0) return nullptr;
    shuffle(blocks, got, random);
    magazines_->load_slots(access, c, blocks + 1, got - 1);
    return slots::block_of(reinterpret_cast<u64>(blocks[0]));
  }

  // One block, for a thread without a slab; null without memory.
  FREEWAY_COLD void* direct(unsigned c) {
    auto& superblocks = heap_->superblocks();
    random::Stream random = heap_->random();
    return take_one(superblocks, c,
                    [&](u32 d, void** block) { return superblocks.take_scattered(d, 1, block, random); });
  }

 private:
  // A number below i is 16 random bits times i: each is as likely as the others but for 2^-10.
  static void shuffle(void** blocks, unsigned count, random::Stream& random) {
    static_assert(kBatchMax <= 64);
    u64 bits = 0;
    for (unsigned i = count; i > 1; --i, bits >>= 16) {
      if ((count - i) % 4 == 0) bits = random.next();
      const u64 other = (bits & low_bits(16)) * i >> 16;
      void* const last = blocks[i - 1];
      blocks[i - 1] = blocks[other];
      blocks[other] = last;
    }
  }

  // Slots of any free blocks of a superblock.
  template <SlabAccess Access>
  FREEWAY_COLD unsigned cut(const Access& access, const Slab& slab, unsigned c, random::Stream& random, void** blocks) {
    auto& superblocks = heap_->superblocks();
    const unsigned wanted = static_cast<unsigned>(clamp(kMagazines[c].small / 2, 1, kBatchMax));
    u32 d = magazines_->take_current(access, c);
    if (d != 0 && random.below(kStay) == 0) d = another(c, d, random);
    if (d == 0) d = superblocks.hold(c);
    for (;;) {
      if (d == 0) return 0;
      heap_->settle_home(slab, c, d);
      Heap::Env::step("scattered.superblock");
      if (const unsigned got = superblocks.take_scattered(d, wanted, blocks, random)) {
        Heap::Env::step("scattered.cut");
        if (heap_->is_far(reinterpret_cast<uptr>(blocks[0]))) slots::to_far(blocks, got);
        if (!access.put_current(c, d)) superblocks.let_go(d);
        return got;
      }
      d = another(c, d, random);
    }
  }

  // Lets the superblock `d` go and holds a random one around it, if there is one, else any.
  FREEWAY_COLD u32 another(unsigned c, u32 d, random::Stream& random) {
    auto& superblocks = heap_->superblocks();
    const uptr span = superblocks.span_of(d);
    superblocks.let_go(d);
    Heap::Env::step("scattered.between");
    if (const u32 near = superblocks.take_around(c, span, random.next())) return near;
    return superblocks.hold(c);
  }

  Heap* heap_ = nullptr;
  Magazines<Heap>* magazines_ = nullptr;
  Quarantine<Heap>* quarantine_ = nullptr;
};

}  // namespace freeway
