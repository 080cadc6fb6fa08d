// SPDX-License-Identifier: MIT
// sizes.h: which sizes a program may name for a block that it frees: those for which malloc may have given this
// block, and those to which realloc may have shrunk it. Nothing else is ever reported, so all that makes a block longer
// than its size's class must be known here: loans, alignments, realloc, heaps of the program, pages of guards.
//
// Checked   tests/malloc/sizes_test.cc, tests/abi/told_size_test.cc
#pragma once

#include "cache/loans.h"

namespace freeway {

// Whether realloc keeps a block of `old_bytes`: it is large enough, and not more than half of it would be wasted.
constexpr bool keeps(std::size_t bytes, std::size_t old_bytes) {
  return bytes <= old_bytes && (bytes > old_bytes / 2 || old_bytes <= kMinBlock);
}

// What the program says of the block.
struct Told {
  std::size_t size, alignment;  // alignment: 1 where none is named
  bool may_be_resized;          // by realloc: not so what operator new gave

  // Whether malloc could be asked for it.
  constexpr bool can_be() const { return size <= PTRDIFF_MAX && is_power_of_two(alignment); }
  constexpr bool is_aligned() const { return alignment > kMinBlock; }
};

namespace sizes {

constexpr std::size_t bytes_asked(const Told& told) { return told.size == 0 ? 1 : told.size; }
constexpr std::size_t rounded(const Told& told) { return align_up(bytes_asked(told), told.alignment); }

// A block of class `c` of malloc's.
constexpr bool may_be_small(unsigned c, const Told& told) {
  const unsigned asked = class_of_aligned(told.size, told.alignment);
  if (asked != 0 && (asked == c || loans::lends(c, asked))) return true;
  return told.may_be_resized && keeps(told.size, kSizeClasses[c].size);
}

// A block of so many frames, where `needed` frames have room for the size. Small sizes have such blocks only if they
// are aligned, to more than all classes or where there was no memory for another superblock. The kernel may refuse to
// make a huge block shorter.
constexpr bool may_be_large(std::size_t frames, std::size_t needed, bool is_huge, const Told& told) {
  if (told.size <= kMaxSmall && !told.is_aligned()) return false;
  return needed == frames || (told.may_be_resized && is_huge && needed < frames);
}

// A guarded block: it has the bytes that were asked for, up to their multiple of the alignment (aligned new), or those
// of the class where it is aligned.
constexpr bool may_be_guarded(std::size_t bytes, const Told& told) {
  const std::size_t least = bytes_asked(told);
  const std::size_t most =
      told.is_aligned() ? kSizeClasses[class_of_aligned(told.size, told.alignment)].size : rounded(told);
  return least <= bytes && bytes <= most;
}

}  // namespace sizes
}  // namespace freeway
