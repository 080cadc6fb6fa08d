// SPDX-License-Identifier: MIT
// bitmap.h: reading a superblock's bitmap: one bit a block, 1 = free. Pure but for relaxed loads.
#pragma once

#include "base/compiler.h"
#include "size/size_classes.h"
#include "superblock/descriptor.h"

namespace freeway::bitmap {

// Writes base + i * size for each bit i of `bits`. Returns how many.
FREEWAY_INLINE unsigned addresses_of(u64 bits, uptr base, u64 size, void** out) {
  if (bits == ~u64{0}) {  // a word of a superblock that is new, or of a program of phases
    for (unsigned i = 0; i < 64; ++i, base += size) out[i] = reinterpret_cast<void*>(base);
    return 64;
  }
  unsigned n = 0;
  for (; bits != 0; bits &= bits - 1) out[n++] = reinterpret_cast<void*>(base + lowest_bit(bits) * size);
  return n;
}

template <class Env> u32 free_blocks(const Descriptor<Env>& desc, const SizeClass& k) {
  u32 blocks = 0;
  for (unsigned w = 0; w < k.words; ++w) blocks += popcount(desc.words[w].load_relaxed());
  return blocks;
}

// The end of the run of free blocks that starts at block `first` (== first if that one is not free).
template <class Env> unsigned free_run(const Descriptor<Env>& desc, const SizeClass& k, unsigned first) {
  unsigned end = first;
  while (end < k.blocks) {
    const u64 taken = ~(desc.words[end / 64].load_relaxed() >> (end % 64));
    const unsigned length = taken == 0 ? 64 : lowest_bit(taken);
    const unsigned here = static_cast<unsigned>(clamp(length, 0, 64 - end % 64));
    end += here;
    if (here == 0 || end % 64 != 0) break;
  }
  return end < k.blocks ? end : k.blocks;
}

// Calls f(word, mask) for each word that holds bits of the blocks first … end - 1.
template <class F> void each_word(unsigned first, unsigned end, F&& f) {
  while (first < end) {
    const unsigned word = first / 64;
    const unsigned stop = (word + 1) * 64 < end ? (word + 1) * 64 : end;
    f(word, low_bits(stop - first) << (first % 64));
    first = stop;
  }
}

}  // namespace freeway::bitmap
