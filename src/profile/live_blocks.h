// SPDX-License-Identifier: MIT
// LiveBlocks: the sampled blocks that are live, by address.
//
// Words     address: 0 = free -> address | 1 (CAS): being filled in -> address -> 0 (CAS, by the thread that frees the
//           block). site, size, born, place: the owner's, between the first two steps
// Duties    the thread that has the block in hand puts and takes its entry: before malloc returns it, before free gives
//           it away. So there is at most one entry for an address. Of two frees of one block (the program's error) one
//           takes it
// Places    an entry lies in the kNear entries from its address's hash on: no chains, no tombstones. If all of them are
//           taken the block is not followed
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] publishes the facts; [A1] others than the owner (leak searches, readers from outside) see them. They
//           reach the owner with the block
//           [A2] a thread that puts a block into an entry comes after the one that took the last one out of it: [R1]'s
//           sequence goes on through the taker's step, and the taker has read the facts before that [A3]
//           [R3] a fact is stored after the address was moved; [A3] a thread that reads the fact sees that in its
//           second look. A program that hands blocks on by relaxed stores may free one on a processor that does not
//           see its entry yet: then the entry stays, as a leak
// Progress  wait-free, kNear looks       Lost if killed: the entry in hand, with its block
// Checked   tests/profile/live_blocks_model.cc, tests/profile/tables_test.cc
#pragma once

#include "base/integers.h"
#include "os/window.h"

namespace freeway {
struct Describe;
}

namespace freeway::profile {

struct LiveBlock {
  uptr address = 0;
  u64 site = 0, bytes = 0;
  u64 born = 0;   // ms since the profile began
  u32 place = 0;  // its place if it were not sampled: see profiler.h
};

template <class Env, u32 kNear = 16> class LiveBlocks {
 public:
  static constexpr std::size_t bytes(u32 count);

  // Once (or again with the same): zeroed memory of bytes(count); `count` is a power of two, at least kNear.
  void init(uptr memory, u32 count) {
    entries_.store_relaxed(reinterpret_cast<Entry*>(memory));
    count_.store_relaxed(count);
  }

  // Notes a block that the caller has in hand; false: no room.
  bool put(const LiveBlock& block) {
    for (u32 look = 0; look < kNear; ++look) {
      Entry& entry = near(block.address, look);
      u64 seen = entry.address.load_relaxed();
      if (seen != 0) continue;
      Env::step("live.putting");
      if (!entry.address.cas_acquire(seen, block.address | kFilling))  // [A2] pairs with [R1]
        continue;
      entry.site.store_release(block.site);        // [R3] pairs with [A3]
      entry.size.store_release(block.bytes);       // [R3] pairs with [A3]
      entry.born.store_release(block.born);        // [R3] pairs with [A3]
      place_of(entry).store_release(block.place);  // [R3] pairs with [A3]
      Env::step("live.filled");
      entry.address.store_release(block.address);  // [R1] pairs with [A1] [A2]
      return true;
    }
    return false;
  }

  // Takes the entry of a block that the caller has in hand; false: it has none.
  bool take(uptr address, LiveBlock& block) {
    for (u32 look = 0; look < kNear; ++look) {
      Entry& entry = near(address, look);
      u64 seen = entry.address.load_relaxed();
      if (seen != address) continue;
      block = facts(entry, address);
      Env::step("live.taking");
      return entry.address.cas_relaxed(seen, 0);
    }
    return false;
  }

  // Calls f(block) for each of them; for some of those that come and go meanwhile.
  template <class F> void each(F&& f) const {
    const Entry* const entries =
        entries_.load_relaxed();  // null until there is memory: a dump may come before the first profile
    for (u32 i = 0; entries != nullptr && i < count_.load_relaxed(); ++i) {
      const Entry& entry = entries[i];
      const u64 address = entry.address.load_acquire();  // [A1] pairs with [R1]
      if (address == 0 || (address & kFilling) != 0) continue;
      const LiveBlock block = facts(entry, address);
      if (entry.address.load_relaxed() == address) f(block);
    }
  }

 private:
  friend struct freeway::Describe;  // malloc/describe.cc
  static constexpr u64 kFilling = 1;
  using Word = typename Env::template Atomic<u64>;
  using Place = typename Env::template Atomic<u32>;

  struct Entry {
    Word address, site, size, born;
  };

  Entry& near(uptr address, u32 look) {
    const u32 place = static_cast<u32>(window::mixed(address) >> 32) + look;
    return entries_.load_relaxed()[place & (count_.load_relaxed() - 1)];
  }
  // Behind the entries, whose length stays a power of two.
  Place& place_of(const Entry& entry) const {
    Entry* const entries = entries_.load_relaxed();
    return reinterpret_cast<Place*>(entries + count_.load_relaxed())[&entry - entries];
  }
  LiveBlock facts(const Entry& entry, uptr address) const {
    return {address, entry.site.load_acquire(),  // [A3] pairs with [R3]
            entry.size.load_acquire(),           // [A3] pairs with [R3]
            entry.born.load_acquire(),           // [A3] pairs with [R3]
            place_of(entry).load_acquire()};     // [A3] pairs with [R3]
  }

  typename Env::template Atomic<Entry*> entries_;
  typename Env::template Atomic<u32> count_;
};

template <class Env, u32 kNear> constexpr std::size_t LiveBlocks<Env, kNear>::bytes(u32 count) {
  return count * (sizeof(Entry) + sizeof(Place));
}

}  // namespace freeway::profile
