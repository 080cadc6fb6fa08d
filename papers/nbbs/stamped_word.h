// SPDX-License-Identifier: MIT
// stamped_word.h: the word of a bunch in the corrected form, as pure functions.
//
// Layout    bit 0            UP: all words above carry their hint for this one (kept only while a bit below is set)
//           bits 1 … 2^k-1   OCC: the node at that position is handed out as a unit
//           then 2^k bits    hints: something is occupied in the bunch whose root is that position's node
//           the rest         stamp: how often an allocation climbed through the word
//           k = 1: 1 + 1 + 2 + 60 bits, k = 3: 1 + 7 + 8 + 48, k = 4: 1 + 15 + 16 + 32
// "Partly occupied" (the paper's L and R of the nodes within the word) is not stored: it is the or of the bits below.
// The stamp wraps after 2^60, 2^48, 2^32 climbs through one word: see tree.h.
// Checked   papers/nbbs/tests/words_test.cc (exhaustive)
#pragma once

#include "papers/nbbs/shape.h"

namespace freeway::nbbs {

template <unsigned kLevels> struct StampedWord {
  using In = Bunches<kLevels>;
  static constexpr u64 kUp = 1;
  static constexpr u64 kOccupied = low_bits(In::kPositions) & ~kUp;
  static constexpr u64 kHints = low_bits(2 * In::kPositions) & ~low_bits(In::kPositions);
  static constexpr u64 kInUse = kOccupied | kHints;
  static constexpr u64 kStamp = u64{1} << (2 * In::kPositions);  // one stamp

  static constexpr u64 bit(unsigned position) { return u64{1} << position; }
  static constexpr u64 hint(Node bunch_root) { return bit(In::own_position(bunch_root)); }

  // The bits that keep the node at `position` from being occupied: its own, its ancestors', and all below it.
  static constexpr u64 conflicts(unsigned position) { return In::and_above(position) | In::and_below(position); }
  // The bits of `position` and its ancestors in the word: one of them set ends a climb from below.
  static constexpr u64 occupied_over(unsigned position) { return In::and_above(position); }

  static constexpr u64 with_stamp(u64 word) { return word + kStamp; }
  // A word that became empty has nothing for which anything above must be kept.
  static constexpr u64 settled(u64 word) { return (word & kInUse) == 0 ? word & ~kUp : word; }
};

}  // namespace freeway::nbbs
