// SPDX-License-Identifier: MIT
// guard_word.h: the word of a slot for one guarded block, and its transitions.
//
//   IDLE --take--> TAKEN --publish--> LIVE --retire--> RETIRING --rest--> IDLE (a later stamp)
//                  TAKEN --abandon--> IDLE (the old stamp)
//
// Layout    stamp : 61 | state : 3. The stamp says when the slot was last put to rest: 0 = never used. Idle slots that
//           were used are the quarantine; the lowest stamp is the slot that has rested longest
// All zero  an idle slot that was never used
#pragma once

#include "base/integers.h"

namespace freeway::guard {

enum class State : u64 { kIdle = 0, kTaken = 1, kLive = 2, kRetiring = 3 };

namespace slot_word {

constexpr unsigned kStateBits = 3;
constexpr u64 make(State state, u64 stamp) { return stamp << kStateBits | static_cast<u64>(state); }
constexpr State state(u64 word) { return static_cast<State>(word & low_bits(kStateBits)); }
constexpr u64 stamp(u64 word) { return word >> kStateBits; }
constexpr bool is_idle(u64 word) { return state(word) == State::kIdle; }
constexpr bool is_live(u64 word) { return state(word) == State::kLive; }
// Whether the slot ever had a block.
constexpr bool was_used(u64 word) { return word != 0; }

constexpr u64 taken(u64 idle) { return make(State::kTaken, stamp(idle)); }
constexpr u64 published(u64 taken) { return make(State::kLive, stamp(taken)); }
constexpr u64 abandoned(u64 taken) { return make(State::kIdle, stamp(taken)); }
constexpr u64 retired(u64 live) { return make(State::kRetiring, stamp(live)); }
constexpr u64 rested(u64 now) { return make(State::kIdle, now); }

}  // namespace slot_word
}  // namespace freeway::guard
