// SPDX-License-Identifier: MIT
// PageManager: page blocks out of superpages: best fit among superpages, a buddy system inside (section 3.2).
//
// The paper has one lock around all of this and, under it, lists of superpages hashed by largest_free_order. Here each
// superpage's state is its words, and the lists are *sets*: one bit a superpage and order. A set's bit is a hint; the
// words are the truth.
//
// Words     free[] of each superpage (superpage_word.h)       sets[o]: bit n = superpage n was filed under order o
// Moves     take: CAS on a word, then file      give: fetch_or, then, if all is free, retire, else file
//           retire: word after word from "all free" to 0 (CAS); where one is not all free, those before are put back
//           file: set the bit of the order that is seen, clear the others, until the order seen is the one filed
// Invariant whoever cleared a bit of a word owns that leaf. When nobody is between a change and its filing, a superpage
//           with a free buddy is in the set of that order or a higher one, so that a search from there comes by
// Who       any thread, any signal handler
// Orders    [R1] giving a leaf publishes all that was done to it; [A1] taking or retiring it sees that, [A2] and the
//           base that the superpage's maker published with it
//           [R2] filing after a change; [A3] who takes that bit away sees the change when it looks again, [A5] who
//           finds it sees the superpage's header
//           [R3] a second look at a word that was not all free; [A4] who frees its last leaf later sees what was put
//           back before that look: of two threads that free the last page blocks of two words, one sees that all is
//           free
// ABA       none: a word says all there is to know; a base is read by owners of leaves only, and is constant for them
// Progress  lock-free       Lost if killed: the page block in hand; between a change and its filing, the superpage's
//           free memory is not found until the next page block of it is given; while retiring, the superpage
// Checked   papers/streamflow/tests/page_manager_model.cc, page_manager_test.cc
#pragma once

#include "papers/streamflow/superpage_word.h"
#include "papers/streamflow/superpages.h"

namespace freeway::streamflow {

// `Space`, besides what superpages.h asks for: take_superpage(bytes, index of its header) -> address, a multiple of
// `bytes`, 0 = refused; give_superpage(address, bytes).
template <class Env, class Space, unsigned kWords, unsigned kLeaves> class PageManager {
  static_assert(kWords <= 2 && kLeaves <= 64 && is_power_of_two(kLeaves));

 public:
  using Headers = Superpages<Env, Space, kWords, kLeaves>;
  using Header = typename Headers::Header;
  static constexpr unsigned kLeafCount = kWords * kLeaves;
  static constexpr std::size_t kBytes = kLeafCount * kMinPageBlock;
  static constexpr int kTop = static_cast<int>(log2_floor(kLeafCount));  // the order of a whole superpage
  static constexpr u64 kAll = low_bits(kLeaves);

  struct Taken {
    uptr address = 0;  // 0: no memory
    u32 name = 0;
  };

  void init(Space* space) {
    space_ = space;
    headers_.init(space);
  }
  Headers& headers() { return headers_; }

  static constexpr u32 number_of(u32 name) { return name / kLeafCount; }
  static constexpr unsigned leaf_of(u32 name) { return name % kLeafCount; }
  uptr address_of(u32 name) const {
    return headers_.at(number_of(name)).base.load_relaxed() + leaf_of(name) * kMinPageBlock;
  }
  typename Env::template Atomic<u32>& link(u32 name) const { return headers_.at(number_of(name)).links[leaf_of(name)]; }

  // A page block of 16 KiB << order.
  Taken take(unsigned order) {
    for (int o = static_cast<int>(order); o <= kTop; ++o) {
      const u32 words = headers_.made() / 64 + 1;
      for (u32 word = 0; word < words; ++word)
        // OPTIMISTIC: sets
        for (u64 hints = sets_[o][word].load_acquire(); hints != 0; hints &= hints - 1) {  // [A5] pairs with [R2]
          const Taken taken = take_from(word * 64 + lowest_bit(hints), order);
          if (taken.address != 0) return taken;
        }
    }
    return take_new(order);
  }

  // Gives a page block back, and its superpage to the OS if it was the last one.
  void give(u32 name, unsigned order) {
    const u32 n = number_of(name);
    Header& s = headers_.at(n);
    const u64 mask = superpage_word::block_mask(leaf_of(name) % kLeaves, order);
    const u64 now = s.free[leaf_of(name) / kLeaves].fetch_or_acq_rel(mask) | mask;  // [R1] [A4] pairs with [A1] [R3]
    // From here on the superpage may be somebody else's to give back; its header is a header for ever.
    Env::step("manager.given");
    if (now == kAll && retire(n, s)) return;
    file(n, s);
  }

  // The order of the superpage's largest free buddy as seen word by word; kNothing: none.
  static int largest_free_order(const Header& s) {
    int largest = superpage_word::kNothing;
    unsigned empty = 0;
    for (const auto& word : s.free) {
      const u64 free = word.load_relaxed();
      const int order = superpage_word::largest_free_order(free);
      if (order > largest) largest = order;
      empty += free == kAll;
    }
    return empty == kWords ? kTop : largest;
  }

  // For audits: whether the superpage is filed under `order`.
  bool is_filed(u32 number, int order) const {
    return (sets_[order][number / 64].load_relaxed() >> (number % 64) & 1) != 0;
  }

 private:
  // The word, and the order of the buddy in it, that `order` fits in best.
  struct Fit {
    unsigned word;
    u64 free;
    int order;
  };
  static Fit best_fit(const Header& s, unsigned order) {
    Fit best{0, 0, superpage_word::kNothing};
    for (unsigned w = 0; w < kWords; ++w) {
      const u64 free = s.free[w].load_relaxed();
      const int fit = superpage_word::best_fit_order(free, order);
      if (fit >= 0 && (best.order < 0 || fit < best.order)) best = {w, free, fit};
    }
    return best;
  }

  Taken take_from(u32 n, unsigned order) {
    Header& s = headers_.at(n);
    for (;;) {
      Fit fit = best_fit(s, order);
      if (fit.order < 0) break;
      const unsigned leaf = superpage_word::place(fit.free, fit.order);
      Env::step("manager.take");
      const u64 rest = fit.free & ~superpage_word::block_mask(leaf, order);
      if (!s.free[fit.word].cas_acquire(fit.free, rest)) continue;  // [A1] [A2] pairs with [R1] [R4]
      file(n, s);
      return taken(n, s, fit.word * kLeaves + leaf);
    }
    file(n, s);  // the hint was stale
    return {};
  }

  static Taken taken(u32 n, const Header& s, unsigned leaf) {
    return {s.base.load_relaxed() + leaf * kMinPageBlock, n * kLeafCount + leaf};
  }

  Taken take_new(unsigned order) {
    const u32 n = headers_.take();
    if (n == 0) return {};
    Header& s = headers_.at(n);
    Env::step("manager.superpage");
    const uptr base = space_->take_superpage(kBytes, headers_.index_of(n));
    if (base == 0) {
      headers_.recycle(n);
      return {};
    }
    s.base.store_relaxed(base);
    for (unsigned w = 0; w < kWords; ++w)
      s.free[w].store_release(w == 0 ? kAll & ~superpage_word::block_mask(0, order) : kAll);  // [R4] pairs with [A2]
    file(n, s);
    return taken(n, s, 0);
  }

  void file(u32 n, const Header& s) {
    const u64 bit = u64{1} << (n % 64);
    int filed;
    int seen = largest_free_order(s);
    do {
      filed = seen;
      put_in_set(n / 64, bit, filed);
      seen = largest_free_order(s);
    } while (seen != filed);
  }

  void put_in_set(u32 word, u64 bit, int order) {
    // Set even if it looks set: who is about to clear it must see what was changed before.
    if (order >= 0) sets_[order][word].fetch_or_release(bit);  // [R2] pairs with [A3] [A5]
    Env::step("manager.filed");
    for (int o = 0; o <= kTop; ++o)
      if (o != order && (sets_[o][word].load_relaxed() & bit) != 0)
        sets_[o][word].fetch_and_acquire(~bit);  // [A3] pairs with [R2]
  }

  // Tries to give the superpage back; false: some of it is in use, or somebody else is at it.
  bool retire(u32 n, Header& s) {
    for (;;) {
      unsigned claimed = 0;
      for (; claimed < kWords; ++claimed) {
        u64 all = kAll;
        if (!s.free[claimed].cas_acquire(all, 0)) break;  // [A1] pairs with [R1]
        Env::step("manager.claimed");
      }
      if (claimed == kWords) break;
      for (unsigned w = 0; w < claimed; ++w) s.free[w].fetch_or_relaxed(kAll);
      // A failed CAS may have looked at the past; this look is at the present, and the next giver sees that it was
      // made.
      if (s.free[claimed].fetch_or_release(0) != kAll) return false;  // [R3] pairs with [A4]
    }
    file(n, s);
    space_->give_superpage(s.base.load_relaxed(), kBytes);
    headers_.recycle(n);
    return true;
  }

  static constexpr u32 kSetWords = Headers::kMost / 64;

  Space* space_ = nullptr;
  Headers headers_;
  typename Env::template Atomic<u64> sets_[kTop + 1][kSetWords];
};

}  // namespace freeway::streamflow
