// SPDX-License-Identifier: MIT
// explain.h: whether a small block is live: decided here alone.
#pragma once

#include "freeway/freeway.h"
#include "malloc/heap.h"

namespace freeway {

// Of block `index` of the superblock, which begins at `block`. `what`: why it is free.
freeway_state_t state_of(Heap& heap, unsigned c, u32 descriptor, u32 index, uptr block, const char*& what);

}  // namespace freeway
