// SPDX-License-Identifier: MIT
// words.h: pure functions on the words of a heap that processes share.
//
// A *seat* is a participant's place in the file: 1 … kMaxSeats; 0 is nobody.
//
// participant  kind:2 | token or claimer:9 | claimer's life:26 | life:26. One a seat, NONE(0) at first
//              NONE(g)             nobody sits there: g lives are over
//              ALIVE(g,t)          a process lives its life g there, or has died in it. By the token t, a number of 0 …
//                                  511, the kernel tells which: a process keeps its token while it lives, for all of
//                                  its seats. A claimer's life of 1: *unsettled*, it still cleans up after life g - 1
//              RECOVERING(R,r,g)   seat R, in its life r, cleans up after the life g
// entry        kind:3 | holder:8 | class:8 | count:32. One a frame of 64 KiB: the truth about the frame
//              FREE = 0            nobody's
//              TAIL(k)             belongs to the run that begins k frames before
//              CLAIM(P,n)          a run of n frames that seat P is making or taking apart; some of them may be FREE
//                                  still
//              SMALL(c,P)          a superblock of class c, held by seat P, or by nobody: P = 0 (it is *idle*)
//              LARGE(n)            one block of n frames
// state        one byte a block: the truth about the block, and its lock
//              FREE = 0            its superblock's holder may take it
//              CACHED(P) = P       seat P's; a slot of P's magazines names it
//              LIVE = 255          the program's
// backing      one byte a frame: what of it has memory (backing.h)
//              kSome               some of its 64 KiB may have; without it none has
//              kAll                all of its 64 KiB have
//              kTables             its bits and states have, for good
//
// All are zero in a new file. Lives count modulo 2^26: a claimer that sleeps through so many lives of one seat is not
// noticed.
// Checked      shared/tests/words_test.cc
#pragma once

#include "base/integers.h"

namespace freeway::shared {

constexpr u32 kNobody = 0;
constexpr u32 kMaxSeats = 254;

namespace state {

constexpr u8 kFree = 0;
constexpr u8 kLive = 255;
constexpr u8 cached(u32 seat) { return static_cast<u8>(seat); }

}  // namespace state

namespace backing {

constexpr u8 kAll = 1, kTables = 2, kSome = 4;

}  // namespace backing

namespace participant {

enum class Kind : u32 { kNone, kAlive, kRecovering };

constexpr unsigned kLifeBits = 26;
constexpr u32 kLifeMask = static_cast<u32>(low_bits(kLifeBits));
constexpr u32 kTokens = 512;

constexpr u64 pack(Kind kind, u32 who, u32 claimers_life, u32 life) {
  return static_cast<u64>(kind) | u64{who} << 2 | u64{claimers_life & kLifeMask} << 11 | u64{life & kLifeMask} << 37;
}
constexpr u64 none(u32 life) { return pack(Kind::kNone, 0, 0, life); }
constexpr u64 alive(u32 life, u32 token) { return pack(Kind::kAlive, token, 0, life); }
constexpr u64 unsettled(u32 life, u32 token) { return pack(Kind::kAlive, token, 1, life); }
constexpr u64 recovering(u32 claimer, u32 claimers_life, u32 life) {
  return pack(Kind::kRecovering, claimer, claimers_life, life);
}

// A word of a damaged file may have the fourth kind: it reads as NONE.
constexpr Kind kind(u64 word) { return (word & 3) == 3 ? Kind::kNone : static_cast<Kind>(word & 3); }
constexpr u32 token(u64 word) { return static_cast<u32>(word >> 2) & (kTokens - 1); }
constexpr u32 claimer(u64 word) { return token(word); }
constexpr u32 claimers_life(u64 word) { return static_cast<u32>(word >> 11) & kLifeMask; }
constexpr bool is_unsettled(u64 word) { return kind(word) == Kind::kAlive && claimers_life(word) != 0; }
constexpr u32 life(u64 word) { return static_cast<u32>(word >> 37) & kLifeMask; }

}  // namespace participant

namespace entry {

enum class Kind : u32 { kFree, kTail, kClaim, kSmall, kLarge };

constexpr u64 pack(Kind kind, u32 holder, u32 size_class, u32 count) {
  return static_cast<u64>(kind) | u64{holder} << 3 | u64{size_class} << 11 | u64{count} << 19;
}
constexpr u64 kFree = 0;
constexpr u64 tail(u32 distance) { return pack(Kind::kTail, kNobody, 0, distance); }
constexpr u64 claim(u32 seat, u32 frames) { return pack(Kind::kClaim, seat, 0, frames); }
constexpr u64 small(u32 size_class, u32 holder) { return pack(Kind::kSmall, holder, size_class, 0); }
constexpr u64 large(u32 frames) { return pack(Kind::kLarge, kNobody, 0, frames); }

constexpr Kind kind(u64 word) { return static_cast<Kind>(word & 7); }  // of a damaged file: may be none of them
constexpr u32 holder(u64 word) { return static_cast<u32>(word >> 3) & 0xff; }
constexpr u32 size_class(u64 word) { return static_cast<u32>(word >> 11) & 0xff; }
constexpr u32 count(u64 word) { return static_cast<u32>(word >> 19); }

}  // namespace entry
}  // namespace freeway::shared
