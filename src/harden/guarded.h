// SPDX-License-Identifier: MIT
// guarded.h: FREEWAY_GUARD: some blocks on pages of their own, between inaccessible ones.
//
// Layout    fence | page | fence | page | … | fence: slot i's block lies on the i-th page, at its end or at its
//           beginning. The pages are accessible while a block is live there; freed, they stay inaccessible until the
//           slot is used again
// Words     guard_slots.h; range: the place of the pages, once; odds, lottery: they choose the allocations to guard
//           last_explained: a thread's last fault (exchange). Two threads may share one word: then a fault that comes
//           twice may be explained twice, nothing else
// Orders    guarded.cc:[R1] publishes the range and the odds; guarded.cc:[A1] a thread that samples sees them.
// Who       any thread, any signal handler, the child of any fork (which has the pages as they are, copied when
//           written)
// Lost if killed: the slot in hand, 1 of kSlots, and its page
// Checked   tests/harden/guard
#pragma once

#include "base/compiler.h"
#include "harden/guard_slots.h"
#include "os/machine.h"

namespace freeway::guard {

constexpr unsigned kSlots = 256;
constexpr unsigned kResting = kSlots / 4;
using ProcessSlots = Slots<Machine, kSlots, kResting>;

struct Range {
  Atomic<uptr> begin;
  Atomic<u64> bytes;  // 0 while nothing is guarded; stored after `begin`
};
extern FREEWAY_HIDDEN constinit Range range;
extern FREEWAY_HIDDEN constinit ProcessSlots process_slots;
extern FREEWAY_HIDDEN constinit Atomic<u64> faults;

// Whether the address is a guarded block's, or beside one. Nothing is, while the option is off.
FREEWAY_INLINE bool owns(uptr address) { return address - range.begin.load_relaxed() < range.bytes.load_relaxed(); }
FREEWAY_INLINE bool is_on() { return range.bytes.load_relaxed() != 0; }

// From now on one in `odds` of the calls of sample() may have a guarded block. May be called again, by several threads
// at once. Without memory nothing is guarded.
void start(u64 odds);

// A guarded block of `bytes` for the call that returns to `caller`; null: this one is not chosen, too large (over a
// page), or there is no slot for it. Keeps errno. `owner`: the handle of the heap of the program's that it is of.
void* sample(std::size_t bytes, const void* caller, u64 owner = 0);

enum class Freed { kOk, kTwice, kInterior, kForeign, kOverrun };  // kOverrun: ok, but its last bytes were overwritten
Freed give(uptr address, const void* caller);
// Bytes of the live block that begins there; 0: none does.
std::size_t usable(uptr address);
// Of the live or last block near the address: the handle of its heap; 0: it is of none.
u64 owner(uptr address);

// The heap's live blocks.
struct Sum {
  u64 blocks = 0, bytes = 0;
};
Sum live_of(u64 owner);
// Frees them all: the heap has ended. overrun(address): of those whose last bytes were overwritten.
void give_all(u64 owner, const void* caller, void (*overrun)(uptr address, const void* caller));

// free's verdict on an address at which no live block begins.
Freed classify(uptr address);
// Names `caller` as the block's maker, in place of the one that sample() was given.
void name_maker(const void* block, const void* caller);
FREEWAY_INLINE void* made_for(void* block, const void* caller) {
  if (FREEWAY_UNLIKELY(owns(reinterpret_cast<uptr>(block)))) name_maker(block, caller);
  return block;
}

// Of an address for which owns() is true.
Near near(uptr address);
// Writes lines to fd 2: the makers and freers of the nearest block. 0, or the error of the last line that failed.
long write_history(const Near& what, int fd = 2);

// Adds a function that knows other inaccessible pages: find(address, near) says whether the address is on one, and
// beside which block. Once, or again with the same.
using FindEnd = bool (*)(uptr address, Near& near);
void know_ends(FindEnd find);
// Explains a fault at the address on fd 2, if it is near a guarded block, or on a page that the added function knows.
// `pc`: the instruction; access: 'r', 'w', '?'. The thread's last fault again is counted and not explained: after a
// handler that puts the default back and returns, it comes twice.
bool explain_fault(uptr address, uptr pc, char access);

}  // namespace freeway::guard
