// SPDX-License-Identifier: MIT
// superpage_word.h: the buddy system inside a superpage, as pure functions on its state word (section 3.2).
//
// Word      one bit a leaf of 16 KiB: 1 = free, 0 = in a page block (or there is no superpage). A buddy of order o is
//           an aligned run of 2^o leaves. Nothing is split or merged: which buddies are free follows from the leaves,
//           so the paper's bitmaps are one word, and `largest_free_order` is computed, not kept
// Moves     take: a free buddy's bits -> 0 (CAS)      give: its bits -> 1 (fetch_or)
//           retire: all bits -> 0 (CAS from "all free"): the superpage is its maker's to give back
// Checked   papers/streamflow/tests/superpage_word_test.cc (against a buddy system with lists, exhaustive for 8
//           leaves)
#pragma once

#include "pages/chunk_word.h"

namespace freeway::streamflow::superpage_word {

constexpr int kNothing = -1;

constexpr u64 block_mask(unsigned leaf, unsigned order) { return low_bits(1u << order) << leaf; }

// The leaves at which a free buddy of this order begins; order <= 6.
constexpr u64 free_buddies(u64 free, unsigned order) {
  return chunk_word::run_starts(~free, 1u << order) & chunk_word::aligned_starts(1u << order);
}

// Those that are not part of a larger free buddy.
constexpr u64 whole_buddies(u64 free, unsigned order) {
  if (order == 6) return free_buddies(free, 6);
  const u64 larger = free_buddies(free, order + 1);
  return free_buddies(free, order) & ~(larger | larger << (1u << order));
}

constexpr int largest_free_order(u64 free) {
  for (int order = 6; order >= 0; --order)
    if (free_buddies(free, static_cast<unsigned>(order)) != 0) return order;
  return kNothing;
}

// The order of the smallest free buddy that has room for one of `order`; kNothing: none.
constexpr int best_fit_order(u64 free, unsigned order) {
  for (unsigned fit = order; fit <= 6; ++fit)
    if (whole_buddies(free, fit) != 0) return static_cast<int>(fit);
  return kNothing;
}
// Where a block of `order` goes in a buddy of order `fit`: the lowest one.
constexpr unsigned place(u64 free, int fit) { return lowest_bit(whole_buddies(free, static_cast<unsigned>(fit))); }

}  // namespace freeway::streamflow::superpage_word
