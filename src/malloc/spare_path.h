// SPDX-License-Identifier: MIT
// spare_path.h: between malloc and free in assembly and entry.cc (spare_path.cc).
#pragma once

#include "malloc/slabs.h"

namespace freeway {

// malloc and free of blocks that a spare slab does not have or take.
void* allocate_otherwise(std::size_t size, const void* caller);
void free_otherwise(void* block, const void* caller);

}  // namespace freeway

// What lies in no superblock of malloc's: a block of a heap, at once, or free_otherwise.
extern "C" FREEWAY_HIDDEN void freeway_free_own(void* block, freeway::u64, freeway::u64 frame);
