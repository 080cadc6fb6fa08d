// SPDX-License-Identifier: MIT
// remotely_freed.h: the one word of a page block that several threads change, as pure functions (section 3.1.1).
//
// Layout    head:32 | owner:32 from the lowest bit up. head: offset in the page block of the object freed last, 0 =
//           none owner: the id of a thread heap | kNobody (the paper's id NULL): orphaned | kListed: in a global list
//           The paper needs both in one compare-and-swap: 64 consecutive bits (its footnote 3). On a 64-bit machine the
//           head is an offset for that.
// Moves     remote free  {o, h} -> {o, x}         x's link is h; any thread that owns the object x
//           reclaim      {me, h} -> {me, 0}       the owner, into `freed`
//           orphan       {me, 0} -> {nobody, 0}   the owner at its end, page block full; fails if something was freed
//           adopt        {nobody, 0} -> {me, 0}   a thread that frees an object and sees that nobody owns it
//           hand over    {nobody, 0} -> {listed, x}  the same, by a freer that has no heap; then it lists the page
//           block list         {me, h} -> {listed, h}   the owner at its end, something free; then it lists the page
//           block take over    {listed, h} -> {me, 0}   who took it off the list
// Invariant only the owner moves owner away from itself; from `nobody` exactly one thread does; a page block is in a
//           list (or on its way, in one pair of hands) exactly while the word says `listed`
// ABA       a remote free that is overtaken by reclaim and by the same object freed again finds the same word, and
//           links to the same head: that is right, since the word is all there is to know. Owners: a heap's id is used
//           again only after the heap let go of all of its page blocks
// Checked   papers/streamflow/tests/remotely_freed_model.cc
#pragma once

#include "base/integers.h"

namespace freeway::streamflow::remotely_freed {

constexpr u32 kNobody = 0;
constexpr u32 kListed = ~u32{0};

constexpr u64 word(u32 owner, u32 head) { return u64{owner} << 32 | head; }
constexpr u32 owner(u64 word) { return static_cast<u32>(word >> 32); }
constexpr u32 head(u64 word) { return static_cast<u32>(word); }

}  // namespace freeway::streamflow::remotely_freed
