// SPDX-License-Identifier: MIT
// size_table.h: Freeway's size classes, found out by asking freeway_malloc and freeway_malloc_usable_size.
//
// Words     g_known: how many classes the table has; 0: nobody has found them yet
// Moves     each thread that finds 0 fills the whole table and stores the count. All store the same
// Orders    [S1] the count publishes the classes; [S2] sees them
// Progress  wait-free but for the some 3,000 calls of malloc and free. Lost if killed: a block
#pragma once

#include <cstddef>

namespace freeway_jemalloc {

// The size of the block that Freeway gives for `size` bytes, aligned to `alignment`, a power of two; 0 where none can
// be.
std::size_t block_size(std::size_t size, std::size_t alignment);

}  // namespace freeway_jemalloc
