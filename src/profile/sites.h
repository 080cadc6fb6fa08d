// SPDX-License-Identifier: MIT
// Sites: counts of the samples by their origin, in a table of fixed size.
//
// A *site* is a stack, a tag, a size (to an eighth of it) and the interval with which it was sampled.
//
// Words     key: 0 = free -> the hash of all this (CAS), for good
//           facts: 0 -> their place and the depth of the stack (store): by any thread that samples there and finds
//           none. All threads store the same facts, so the thread that claimed the key need not come back
//           copy: 0 -> the number of the stack's copy, + 1 (CAS), for good (stack_copies.h)
//           counters: sums; each sample adds to three, each free to four. used: words of the room for facts, upwards
//           at_peak: epoch | live bytes when that began (CAS), while a peak is kept (peak.h): by any thread, before it
//           changes the counters in a later epoch
// Hashes    two sites with one hash count as one: 64 bits, mixed, but not against an attacker
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] publishes the facts, [R3] a copy; [A1], [A3] a dump sees them. A reader loads `freed` [A2] before
//           `allocated`, which was added to before [R2]: so it never sees more freed than allocated
//           [R4] bytes are counted after at_peak was moved; [A4] a reader that sees them counted sees that, since it
//           looks at at_peak last
// Progress  wait-free, kLooks looks       Lost if killed: the words of facts in hand; half a sample's counts
// Checked   tests/profile/sites_model.cc, tests/profile/tables_test.cc
#pragma once

#include "base/integers.h"
#include "os/window.h"
#include "profile/peak.h"
#include "profile/stack_walk.h"

namespace freeway {
struct Describe;
}

namespace freeway::profile {

struct Stack {
  u64 frames[kMostFrames];  // return addresses, the innermost first
  unsigned depth = 0;
  u64 shape = 0;  // if frame pointers do not give it: a hash that tells it from others
};

struct Counts {
  u64 allocated = 0, allocated_bytes = 0, freed = 0, freed_bytes = 0;
  u64 born = 0;        // sum of the allocation times of all allocated blocks, ms
  u64 born_freed = 0;  // of the freed ones
  u64 died = 0;        // sum of the free times of those

  u64 live() const { return below(allocated, freed); }
  // 0 if no block is live, though counts may be read while they change.
  u64 live_bytes() const { return live() == 0 ? 0 : below(allocated_bytes, freed_bytes); }
  // Means, ms; 0 if there is none.
  u64 age(u64 now) const { return live() == 0 ? 0 : below(now, below(born, born_freed) / live()); }
  u64 lifetime() const { return freed == 0 ? 0 : below(died, born_freed) / freed; }

 private:
  static constexpr u64 below(u64 from, u64 what) { return from > what ? from - what : 0; }
};

// A site does not tell sizes apart that differ by less than an eighth.
constexpr u64 size_step(u64 bytes) {
  if (bytes < 16) return bytes;
  const unsigned top = log2_floor(bytes);
  return u64{top} * 8 + ((bytes >> (top - 3)) & 7) + 1000;
}

template <class Env, u32 kLooks = 32> class Sites {
 public:
  static constexpr u32 kNone = ~u32{0};
  static constexpr u32 kWordsEach = 24;  // of facts, on average

  static constexpr std::size_t bytes(u32 count);

  // Once (or again with the same): zeroed memory of bytes(count); `count` is a power of two, at least kLooks.
  void init(uptr memory, u32 count) {
    memory_.store_relaxed(memory);
    count_.store_relaxed(count);
  }

  // The site, made if there was none; kNone: no room.
  u32 at(const Stack& stack, u64 tag, u64 bytes, u64 interval) {
    const u64 hash = hash_of(stack, tag, size_step(bytes), interval);
    for (u32 look = 0; look < kLooks; ++look) {
      const u32 i = static_cast<u32>(hash + look) & (count() - 1);
      Site& site = this->site(i);
      u64 key = site.key.load_relaxed();
      if (key == 0) {
        Env::step("sites.claiming");
        if (site.key.cas_relaxed(key, hash)) key = hash;  // else: key is another thread's
      }
      if (key != hash) continue;
      return describe(site, stack, tag, interval) ? i : kNone;
    }
    return kNone;
  }

  // Counts a block of the site. A freed one was allocated at `born`. Times are ms. `epoch`: the peak's; 0: there is
  // none.
  void allocated(u32 i, u64 bytes, u64 now, u64 epoch = 0) {
    Site& site = this->site(i);
    if (epoch != 0) keep(site, epoch);
    site.born.fetch_add_relaxed(now);
    site.allocated_bytes.fetch_add_release(bytes);  // [R4] pairs with [A4]
    site.allocated.fetch_add_relaxed(1);
  }
  void freed(u32 i, u64 bytes, u64 born, u64 now, u64 epoch = 0) {
    Site& site = this->site(i);
    if (epoch != 0) keep(site, epoch);
    site.died.fetch_add_relaxed(now);
    site.born_freed.fetch_add_relaxed(born);
    site.freed_bytes.fetch_add_release(bytes);  // [R4] pairs with [A4]
    site.freed.fetch_add_release(1);            // [R2] pairs with [A2]
  }

  // Of the site of a block in the caller's hands: its facts came with the block.
  u64 interval_of(u32 i) const { return fact((site(i).facts.load_relaxed() >> kDepthBits) + 1).load_relaxed(); }

  // Whether the site's stack is still to be copied; notes that it was.
  bool wants_copy(u32 i) const { return site(i).copy.load_relaxed() == 0; }
  void set_copy(u32 i, u32 number) {
    u64 none = 0;
    site(i).copy.cas_release(none, u64{number} + 1);  // [R3] pairs with [A3]
  }

  struct View {
    u64 tag = 0, interval = 0;
    u64 copy = 0;  // its number, + 1; 0: there is none
    Stack stack;
    Counts counts;
    u64 at_peak = 0;  // bytes that were live when the epoch began
  };
  // Reads site `i` (below count()); false: there is none. `epoch`: the peak's; 0: none is kept.
  bool look(u32 i, View& view, u64 epoch = 0) const {
    const Site& site = this->site(i);
    const u64 packed = site.facts.load_acquire();  // [A1] pairs with [R1]
    if (packed == 0) return false;
    const Word* facts = &fact(packed >> kDepthBits);
    view.tag = facts[0].load_relaxed();
    view.interval = facts[1].load_relaxed();
    view.stack.depth = packed & low_bits(kDepthBits);
    for (unsigned f = 0; f < view.stack.depth; ++f) view.stack.frames[f] = facts[kHead + f].load_relaxed();
    view.counts = counts(site);
    view.at_peak = epoch == 0 ? 0 : peak::bytes_in(epoch, site.at_peak.load_relaxed(), view.counts.live_bytes());
    view.copy = site.copy.load_acquire();  // [A3] pairs with [R3]
    return true;
  }
  // 0 until there is memory: a dump may come before the first profile.
  u32 count() const { return memory_.load_relaxed() != 0 ? count_.load_relaxed() : 0; }

 private:
  friend struct freeway::Describe;                      // malloc/describe.cc
  static constexpr unsigned kDepthBits = 8, kHead = 2;  // tag, interval
  static_assert(kMostFrames < (1u << kDepthBits));
  using Word = typename Env::template Atomic<u64>;

  struct alignas(64) Site {
    Word key, facts, allocated, allocated_bytes, freed, freed_bytes, born, born_freed, died, copy, at_peak;
  };

  static u64 hash_of(const Stack& stack, u64 tag, u64 step, u64 interval) {
    u64 hash = window::mixed(window::mixed(tag ^ window::mixed(interval)) ^ step) ^ stack.shape;
    for (unsigned f = 0; f < stack.depth; ++f) hash = window::mixed(hash ^ stack.frames[f]);
    return hash == 0 ? 1 : hash;
  }

  // Ensures that the site's facts are there; false: no room for them.
  bool describe(Site& site, const Stack& stack, u64 tag, u64 interval) {
    if (site.facts.load_relaxed() != 0) return true;
    const u64 words = kHead + stack.depth, all = u64{count()} * kWordsEach;
    if (used_.load_relaxed() + words > all) return false;  // so that it never wraps
    const u64 place = 1 + used_.fetch_add_relaxed(words);  // 0 is none
    if (place + words > all) return false;
    fact(place).store_relaxed(tag);
    fact(place + 1).store_relaxed(interval);
    for (unsigned f = 0; f < stack.depth; ++f) fact(place + kHead + f).store_relaxed(stack.frames[f]);
    Env::step("sites.describing");
    site.facts.store_release(place << kDepthBits | stack.depth);  // [R1] pairs with [A1]
    return true;
  }

  // Keeps what the site has for the epoch, unless that was done.
  static void keep(Site& site, u64 epoch) {
    u64 kept = site.at_peak.load_relaxed();
    while (peak::epoch(kept) < epoch) {
      // No acquire: what is stored depends on them, so it cannot come before a change that they have seen [R4].
      const u64 freed = site.freed_bytes.load_relaxed(), allocated = site.allocated_bytes.load_relaxed();
      Env::step("sites.keeping");
      if (site.at_peak.cas_relaxed(kept, peak::pack(epoch, allocated > freed ? allocated - freed : 0))) break;
    }
  }

  static Counts counts(const Site& site) {
    Counts c;
    c.freed = site.freed.load_acquire();              // [A2] pairs with [R2]
    c.freed_bytes = site.freed_bytes.load_acquire();  // [A4] pairs with [R4]
    c.born_freed = site.born_freed.load_relaxed();
    c.died = site.died.load_relaxed();
    c.allocated = site.allocated.load_relaxed();
    c.allocated_bytes = site.allocated_bytes.load_acquire();  // [A4] pairs with [R4]
    c.born = site.born.load_relaxed();
    return c;
  }

  Site& site(u32 i) const { return reinterpret_cast<Site*>(memory_.load_relaxed())[i]; }
  Word& fact(u64 i) const { return reinterpret_cast<Word*>(memory_.load_relaxed() + count() * sizeof(Site))[i]; }

  typename Env::template Atomic<uptr> memory_;
  typename Env::template Atomic<u32> count_;
  Word used_;
};

template <class Env, u32 kLooks> constexpr std::size_t Sites<Env, kLooks>::bytes(u32 count) {
  return count * (sizeof(Site) + kWordsEach * sizeof(Word));
}

}  // namespace freeway::profile
