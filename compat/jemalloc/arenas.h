// SPDX-License-Identifier: MIT
// arenas.h: the numbers of arenas and of caches. There is one heap, arena 0; the others are numbers: what programs
// allocate with them is in the same heap.
#pragma once

#include "numbers.h"

namespace freeway_jemalloc {

constexpr unsigned kAllArenas = 4096;                  // MALLCTL_ARENAS_ALL
constexpr unsigned kDestroyedArenas = kAllArenas + 1;  // MALLCTL_ARENAS_DESTROYED

inline constinit Numbers<kAllArenas> arenas{1};
inline constinit Numbers<kAllArenas> caches{0};

}  // namespace freeway_jemalloc
