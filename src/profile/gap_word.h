// SPDX-License-Identifier: MIT
// gap_word.h: the word in a CPU's slab that counts down to the next byte that a profile samples.
//
// Word      0 = not begun -> a gap (gap.h), in bytes -> less by each block of the CPU -> ended, by a block that is not
//           less
// Moves     count: gap > n -> gap - n, by a load and a store in a section of the CPU (malloc/*/fast_path.S, *counted*;
//           is_chosen) end: gap <= n -> a new gap, or 0 if none can be had (CAS): the thread that wins has the block
//           that ended it begin: any -> 0 (store), by a thread that follows the beginning of a profile
//           (malloc/malloc_form.h)
// Invariant a gap is never less than 0: the stored value is the loaded one less n, only if it is more than n. An
//           underflow would be a gap that never ends
// Chosen    a thread that ends a begun gap has one block sampled; one that finds another gap there by then, or none,
//           draws for its block
// Crossings an end by a thread that has gone to another CPU meanwhile, or a begin, may fall between count's load and
//           its store. Then the older gap goes on: it ends twice, or is one of the profile before, once a CPU (also
//           where the next one samples every block). No other thread's end or count can: a section that another thread
//           of the CPU interrupts begins again; between its store and its commit the block counts twice
// Late      a thread that draws a gap while another profile begins may store it when that has none yet: again one gap,
//           of each thread that draws then
// Bias      gaps are exponential: the rest of one is as good as a whole one, and may be forgotten or begun anywhere
//           (gap.h). So neither a begin nor a drawn block changes an estimate. A gap that ends twice is a sample too
//           many; one of the profile before leaves out its rest, on that CPU
// Who       any thread, any signal handler
// Orders    relaxed: a number, which publishes nothing
// Progress  wait-free       Lost if killed: nothing; the block in hand is not sampled
// Checked   tests/profile/gap_model.cc, tests/cache/rseq
#pragma once

#include "base/integers.h"

namespace freeway::profile {

// Word is a relaxed Atomic<u64> of Env.
template <class Word> void begin_gap(Word& gap) { gap.store_relaxed(0); }

// A block of so many bytes was not counted. Whether it has ended the gap, so that the caller has it sampled. draw(): a
// gap.
template <class Env, class Word, class Draw> bool end_gap(Word& gap, u64 bytes, Draw&& draw) {
  u64 left = gap.load_relaxed();
  // Another thread of this CPU, or a handler, may have ended it first.
  if (left > bytes) return false;
  const u64 next = draw();
  Env::step("gap.drawn");
  return gap.cas_relaxed(left, next) && left != 0;
}

}  // namespace freeway::profile
