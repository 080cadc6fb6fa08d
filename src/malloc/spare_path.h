// SPDX-License-Identifier: MIT
// spare_path.h: between malloc and free in assembly and entry.cc (spare_path.cc).
#pragma once

#include "malloc/slabs.h"

namespace freeway {

// malloc and free of blocks that a spare slab does not have or take.
void* allocate_otherwise(std::size_t size, const void* caller);
void free_otherwise(void* block, const void* caller);
// The same of a block that is in no superblock: one of a heap of the program's goes into a magazine at once.
void free_own(void* block, uptr frame);

}  // namespace freeway
