// SPDX-License-Identifier: MIT
// Peak: when the blocks of a profile were most. What each site had live at that moment, sites.h keeps.
//
// Weight    a sampled block stands for so many bytes, in the mean: bytes / sampled_share (gap.h). *live*: their sum
// Words     top: 0 = no peak is kept -> epoch:16 | room:48. An epoch begins when live has grown by a step, a 1024th,
//           over what it was when the one before began; room: how many bytes live is below that
//           limit: live where the next epoch begins, a sum; it says how long a step is, and nothing else
// Moves     more: room > weight -> room - weight, else epoch + 1, room = a step      less: room + weight (CAS)
//           In the last epoch neither moves anything: the peak stays what it is. Steps of a 1024th need 29,000 epochs
// Copies    nothing is copied when an epoch begins. Before a thread changes a site, it sees whether the site was kept
//           for the epoch of top, and else keeps its live bytes (Sites::keep). So a site's bytes at the peak are those
//           kept for top's epoch, or what it has now if there are none
// Exact     live and the epoch are one word: an epoch begins with the move that makes live so much. What it may be off
//           by is one block a thread, of those that are between their site's move and theirs here
// Who       any thread, any signal handler, the child of any fork
// Orders    [R1] an epoch comes after the sums of all blocks that it counts (moves are RMWs: each release before goes
//           on through them); [A1] a thread that keeps a site for it sees them
// Progress  lock-free      Lost if killed: the block in hand is in its site's sums, and not here
// Checked   tests/profile/sites_model.cc, tests/profile/tables_test.cc
#pragma once

#include "base/integers.h"
#include "profile/gap.h"

namespace freeway {
struct Describe;
}

namespace freeway::profile {

namespace peak {

constexpr unsigned kByteBits = 48;
constexpr u64 kMostBytes = low_bits(kByteBits), kLastEpoch = low_bits(64 - kByteBits);
constexpr u64 kStepsOfWhole = 1024;

// Of top, and of what a site keeps.
constexpr u64 epoch(u64 word) { return word >> kByteBits; }
constexpr u64 bytes(u64 word) { return word & kMostBytes; }
constexpr u64 pack(u64 epoch, u64 bytes) { return epoch << kByteBits | (bytes < kMostBytes ? bytes : kMostBytes); }

// What begins an epoch, when live is so much.
constexpr u64 step(u64 live) { return live / kStepsOfWhole + 1; }

constexpr bool begins_epoch(u64 top, u64 weight) { return weight >= bytes(top); }
constexpr u64 more(u64 top, u64 weight, u64 next_step) {
  if (epoch(top) == kLastEpoch) return top;
  return begins_epoch(top, weight) ? pack(epoch(top) + 1, next_step) : top - weight;
}
constexpr u64 less(u64 top, u64 weight) {
  return epoch(top) == kLastEpoch ? top : pack(epoch(top), bytes(top) + weight);
}

// A site's bytes in the epoch, by what it kept and what it has.
constexpr u64 bytes_in(u64 epoch_now, u64 kept, u64 live) { return epoch(kept) >= epoch_now ? bytes(kept) : live; }

// In the mean, of blocks of so many bytes.
constexpr u64 weight(u64 block, u64 interval) {
  if (block == 0 || interval <= kEveryBlock) return block;
  return static_cast<u64>(static_cast<double>(block) / sampled_share(block, interval));
}

}  // namespace peak

template <class Env> class Peak {
 public:
  // Keeps the peak of blocks that are sampled with this interval, before their profile begins (which publishes it).
  // Once, or again with the same.
  void begin(u64 interval) {
    interval_.store_relaxed(interval);
    u64 none = 0, unset = 0;
    limit_.cas_relaxed(unset, 1);
    top_.cas_relaxed(none, peak::pack(1, 1));
  }

  // The epoch of the peak of blocks with that interval; 0: none is kept.
  u64 epoch(u64 interval) const {
    const u64 top = top_.load_acquire();  // [A1] pairs with [R1]
    return top != 0 && interval == interval_.load_relaxed() ? peak::epoch(top) : 0;
  }
  u64 began_ms() const { return began_ms_.load_relaxed(); }  // of the last epoch

  // A block was counted in its site, at `now`.
  void more(u64 weight, u64 now) {
    u64 top = top_.load_relaxed(), over, step;
    do {
      over = weight - peak::bytes(top);  // over the limit, where an epoch begins
      step = peak::step(limit_.load_relaxed() + over);
      Env::step("peak.growing");
    } while (!top_.cas_release(top, peak::more(top, weight, step)));  // [R1] pairs with [A1]
    if (peak::epoch(top) == peak::kLastEpoch || !peak::begins_epoch(top, weight)) return;
    limit_.fetch_add_relaxed(over + step);
    u64 began = began_ms_.load_relaxed();  // perhaps of a later epoch already
    while (began < now && !began_ms_.cas_relaxed(began, now)) {}
  }
  // A block's end was counted.
  void less(u64 weight) {
    u64 top = top_.load_relaxed();
    do Env::step("peak.shrinking");
    while (!top_.cas_release(top, peak::less(top, weight)));  // [R1] pairs with [A1]
  }

 private:
  friend struct freeway::Describe;  // malloc/describe.cc
  using Word = typename Env::template Atomic<u64>;
  Word top_, limit_, interval_, began_ms_;
};

}  // namespace freeway::profile
