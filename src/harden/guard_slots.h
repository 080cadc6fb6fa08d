// SPDX-License-Identifier: MIT
// Slots: places for guarded blocks, and facts about the live or last block in each.
//
// Word      one a slot: guard_word.h. clock: how many slots were put to rest so far
// Moves     take: IDLE -> TAKEN (CAS), of the slot that has rested longest; retire: LIVE -> RETIRING (CAS): of two
//           frees one wins. publish, abandon, rest: stores, by the thread that won that
// Facts     birth and death of the block: stored by the owner while TAKEN and while RETIRING, read by any thread (to
//           explain a fault): between two loads of the word, which must be the same
// Owners    a fact of the block: 0, or the handle of a heap of the program's, whose end retires all its blocks. A block
//           is its heap's from publish on, so a thread that stops before that leaves the heap nothing to retire
// Contract  nobody allocates, frees or resizes blocks of an owner while it is retired. Anybody does with other blocks
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] rest and abandon publish the work on the slot's page; [A1] the thread that takes the slot sees it
//           [R2] publish publishes the block's facts; [A2] retire sees them
//           [R3] a fact is stored after the word was moved; [A3] a thread that reads the fact sees that move in its
//           second load. [R2] and [R1] publish the facts to readers, too: [A4]
// ABA       none: stamps grow, so a slot's word never returns to an old value, except from TAKEN, by abandon: nothing
//           was stored in between
// Progress  wait-free, kTries looks at all slots      Lost if killed: the slot in hand; of retire_all also the owner's
//           blocks that it has not come to, which stay live
// Checked   tests/harden/guard_slots_model.cc, tests/harden/guard_slots_test.cc
#pragma once

#include "harden/guard_word.h"

namespace freeway {
struct Describe;
}

namespace freeway::guard {

// A call of malloc or free: its return address (0: not known), and the number of the thread.
struct Call {
  u64 caller = 0, thread = 0;
};
struct Birth {
  u64 address = 0, size = 0;
  Call by;
  u64 owner = 0;
};

// A slot as a thread, or another process, saw it.
struct Seen {
  u64 word = 0;
  Birth birth;
  Call death;           // of the block; if that is live, of the one before
  bool stable = false;  // the slot was not moved while it was read
};

// The facts about an address on a slot's page, or on a fence beside one.
struct Near {
  enum Kind { kNothing, kInside, kAfter, kBefore };  // kNothing: no block was ever near
  Kind kind = kNothing;
  bool live = false, known = false;  // known: the block was not given or freed while this was read
  u64 distance = 0;  // kInside: from its first byte; kAfter: from its last one; kBefore: to its first one
  Birth birth;
  Call death;    // if it is not live
  u64 word = 0;  // its slot's: while it is the same, so is the block
};

inline Near near(u64 address, const Seen& seen) {
  if (!slot_word::was_used(seen.word)) return {};
  const u64 begin = seen.birth.address, end = begin + seen.birth.size;
  const bool live = slot_word::is_live(seen.word);
  return {.kind = address < begin ? Near::kBefore
                  : address < end ? Near::kInside
                                  : Near::kAfter,
          .live = live,
          .known = seen.stable && (live || slot_word::is_idle(seen.word)),  // else the facts are of two blocks
          .distance = address < begin ? begin - address
                      : address < end ? address - begin
                                      : address - end + 1,
          .birth = seen.birth,
          .death = seen.death,
          .word = seen.word};
}
// The same for the address `offset` bytes into the range of so many slots. On a fence: of the blocks on both sides the
// live one, else the closer one.
template <class Look> Near nearest(u64 address, u64 offset, u64 page, u64 slots, Look&& look) {
  const u64 number = offset / page, slot = number / 2;
  if (number > 2 * slots) return {};
  if (number % 2 == 1) return near(address, look(slot));
  const Near before = slot == 0 ? Near() : near(address, look(slot - 1));
  const Near after = slot == slots ? Near() : near(address, look(slot));
  if (before.kind == Near::kNothing || after.kind == Near::kNothing)
    return after.kind == Near::kNothing ? before : after;
  if (before.live != after.live) return before.live ? before : after;
  return before.distance <= after.distance ? before : after;
}

// `kCount` slots, of which at least kResting are unused: so many more blocks are given before a slot is used again.
template <class Env, unsigned kCount, unsigned kResting> class Slots {
 public:
  static constexpr unsigned kNone = kCount;

  // Takes the slot that has rested for the longest time; kNone: too few rest.
  unsigned take() {
    for (int attempt = 0; attempt < kTries; ++attempt) {
      unsigned oldest = kNone, resting = 0;
      u64 lowest = 0;
      for (unsigned i = 0; i < kCount; ++i) {
        const u64 word = slots_[i].word.load_relaxed();
        if (!slot_word::is_idle(word)) continue;
        if (++resting == 1 || word < lowest) {
          oldest = i;
          lowest = word;
        }
      }
      if (resting <= kResting) return kNone;
      Env::step("guard.taking");
      if (slots_[oldest].word.cas_acquire(lowest, slot_word::taken(lowest))) return oldest;  // [A1] pairs with [R1]
    }
    return kNone;
  }
  // Gives the taken slot its block.
  void publish(unsigned i, const Birth& birth) {
    Slot& slot = slots_[i];
    slot.address.store_release(birth.address);  // [R3] pairs with [A3]
    slot.size.store_release(birth.size);        // [R3] pairs with [A3]
    slot.birth.store(birth.by);
    slot.owner.store_release(birth.owner);                                    // [R3] pairs with [A3]
    slot.word.store_release(slot_word::published(slot.word.load_relaxed()));  // [R2] pairs with [A2] [A4]
  }
  // Returns the taken slot without a block.
  void abandon(unsigned i) {
    slots_[i].word.store_release(slot_word::abandoned(slots_[i].word.load_relaxed()));  // [R1] pairs with [A1] [A4]
  }

  // False: the block that was live when the slot's word was `seen` no longer is (another may be). True: the caller
  // alone puts it to rest.
  bool retire(unsigned i, u64 seen, const Call& by) {
    Slot& slot = slots_[i];
    u64 word = seen;
    if (!slot_word::is_live(word)) return false;
    Env::step("guard.retiring");
    if (!slot.word.cas_acquire(word, slot_word::retired(word))) return false;  // [A2] pairs with [R2]
    slot.death.store(by);
    return true;
  }
  void rest(unsigned i) {
    const u64 now = clock_.fetch_add_relaxed(1) + 1;
    slots_[i].word.store_release(slot_word::rested(now));  // [R1] pairs with [A1] [A4]
  }

  // Calls f(slot, seen) of each live block of the owner, which is not 0.
  template <class F> void each_of(u64 owner, F&& f) const {
    for (unsigned i = 0; i < kCount; ++i)
      if (const Seen seen = look(i); seen.birth.owner == owner)
        if (slot_word::is_live(seen.word)) f(i, seen);
  }
  // Retires them; f(slot, seen) puts each to rest. The word that was seen before the owner names the block.
  template <class F> void retire_all(u64 owner, const Call& by, F&& f) {
    each_of(owner, [&](unsigned i, const Seen& seen) {
      if (retire(i, seen.word, by)) f(i, seen);
    });
  }

  u64 word(unsigned i) const { return slots_[i].word.load_relaxed(); }
  Seen look(unsigned i) const {
    const Slot& slot = slots_[i];
    Seen seen;
    seen.word = slot.word.load_acquire();              // [A4] pairs with [R1] [R2]
    seen.birth.address = slot.address.load_acquire();  // [A3] pairs with [R3]
    seen.birth.size = slot.size.load_acquire();        // [A3] pairs with [R3]
    seen.birth.by = slot.birth.load();
    seen.birth.owner = slot.owner.load_acquire();  // [A3] pairs with [R3]
    seen.death = slot.death.load();
    seen.stable = slot.word.load_relaxed() == seen.word;
    return seen;
  }
  // Names the caller that made the block. For the block's owner, which may know it better than the thread that
  // published it.
  void name_maker(unsigned i, u64 caller) { slots_[i].birth.caller.store_release(caller); }  // [R3] pairs with [A3]

  // The number of slots in each state, at about this moment.
  struct Counts {
    u64 idle = 0, taken = 0, live = 0, retiring = 0;
  };
  Counts counts() const {
    Counts counts;
    for (const Slot& slot : slots_) {
      const State state = slot_word::state(slot.word.load_relaxed());
      counts.idle += state == State::kIdle;
      counts.taken += state == State::kTaken;
      counts.retiring += state == State::kRetiring;
      counts.live += state == State::kLive;
    }
    return counts;
  }

 private:
  friend struct freeway::Describe;  // malloc/describe.cc
  static constexpr int kTries = 4;

  struct StoredCall {
    typename Env::template Atomic<u64> caller, thread;
    void store(const Call& call) {
      caller.store_release(call.caller);  // [R3] pairs with [A3]
      thread.store_release(call.thread);  // [R3] pairs with [A3]
    }
    Call load() const {
      return {caller.load_acquire(), thread.load_acquire()};  // [A3] pairs with [R3]
    }
  };
  struct Slot {
    typename Env::template Atomic<u64> word, address, size, owner;
    StoredCall birth, death;
  };
  Slot slots_[kCount];
  typename Env::template Atomic<u64> clock_;
};

}  // namespace freeway::guard
