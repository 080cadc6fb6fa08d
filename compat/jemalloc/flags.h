// SPDX-License-Identifier: MIT
// flags.h: the flags of mallocx and its like. Those of caches and arenas mean nothing to Freeway.
#pragma once

#include <cstddef>

#include "exported.h"

namespace freeway_jemalloc {

struct Flags {
  static constexpr int kLgAlignmentMask = 0x3f;

  int bits;

  constexpr std::size_t alignment() const { return std::size_t{1} << (bits & kLgAlignmentMask); }
  constexpr bool zero() const { return (bits & MALLOCX_ZERO) != 0; }
};

}  // namespace freeway_jemalloc
