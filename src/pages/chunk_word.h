// SPDX-License-Identifier: MIT
// chunk_word.h: pure functions on the word whose bits say which of a chunk's 64 frames are used.
//
// Word      one bit a frame of 64 KiB: 1 = used (the frame has an owner), 0 = free
// Moves     claim: 0s -> 1s (one CAS, all frames of the run or none)     free, trim: 1s -> 0s (one fetch_and)
// Duties    the thread that sets a bit owns the frame until it is cleared; there is no state in between to be stopped
//           in
#pragma once

#include "base/integers.h"

namespace freeway {

constexpr unsigned kChunkFrames = 64;
constexpr std::size_t kChunkSize = std::size_t{kChunkFrames} * 64 * kKiB;  // 4 MiB

namespace chunk_word {

// The bits of `frames` frames from `first` on; first + frames <= 64, frames >= 1.
constexpr u64 run_mask(unsigned first, unsigned frames) { return low_bits(frames) << first; }

// Bits at which a run of `frames` zeros of `used` begins; 1 <= frames <= 64.
constexpr u64 run_starts(u64 used, unsigned frames) {
  u64 starts = ~used;
  unsigned have = 1;  // each bit of `starts` begins a run of `have` zeros
  while (have < frames && starts != 0) {
    unsigned step = frames - have < have ? frames - have : have;
    starts &= starts >> step;
    have += step;
  }
  return starts;
}

// Every multiple of `alignment` (a power of two, at most 64) below 64.
constexpr u64 aligned_starts(unsigned alignment) {
  u64 bits = 1;
  for (unsigned step = alignment; step < 64; step *= 2) bits |= bits << step;
  return bits;
}

// The first frame of the lowest free run of `frames` frames that starts at a multiple of `alignment`; 64 if none.
constexpr unsigned find_run(u64 used, unsigned frames, unsigned alignment) {
  u64 starts = run_starts(used, frames) & aligned_starts(alignment);
  return starts == 0 ? kChunkFrames : lowest_bit(starts);
}

// The frames of the lowest run of ones in `bits` (not 0).
constexpr u64 lowest_run(u64 bits) {
  unsigned first = lowest_bit(bits);
  u64 rest = ~(bits >> first);
  unsigned length = rest == 0 ? 64 : lowest_bit(rest);
  return run_mask(first, length > 64 - first ? 64 - first : length);
}

}  // namespace chunk_word
}  // namespace freeway
