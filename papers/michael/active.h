// SPDX-License-Identifier: MIT
// active.h: a processor heap's Active word (Michael 2004, Fig. 3), as pure functions.
//
// Layout    credits:6 | ptr:58, from the lowest bit up: a descriptor's address, which is a multiple of 64, and in the
//           bits that are therefore free the number of blocks reserved in its superblock, less one. 0: no active
//           superblock
// Moves     take_credit  a thread reserves one block; the last one empties the word     (MallocFromActive, lines 1–6)
//           make         a thread that has reserved credits installs them in an empty word  (UpdateActive, line 3)
// Checked   papers/michael/tests/words_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::michael::active {

constexpr unsigned kCreditBits = 6;
constexpr u64 kCreditMask = low_bits(kCreditBits);
constexpr u32 kMaxCredits = u32{1} << kCreditBits;  // MAXCREDITS: blocks that the word can hold

// `credits` blocks, 1 … kMaxCredits, of the superblock whose descriptor is at `descriptor`.
constexpr u64 make(u64 descriptor, u32 credits) { return descriptor | (credits - 1); }

constexpr u64 descriptor_of(u64 word) { return word & ~kCreditMask; }  // mask_credits
constexpr u32 credits_of(u64 word) { return word == 0 ? 0 : static_cast<u32>(word & kCreditMask) + 1; }
constexpr bool is_last_credit(u64 word) { return (word & kCreditMask) == 0; }

// One block of it reserved; `word` is not 0.
constexpr u64 take_credit(u64 word) { return is_last_credit(word) ? 0 : word - 1; }

}  // namespace freeway::michael::active
