// SPDX-License-Identifier: MIT
// spare_path.h: between malloc and free in assembly and entry.cc (spare_path.cc).
#pragma once

#include "malloc/slabs.h"

namespace freeway {

// malloc and free of what a spare slab does not have or take.
void* allocate_otherwise(std::size_t size, const void* caller);
void free_otherwise(void* block, const void* caller);
// What is in no superblock: a block of a strip, at once, or the same.
void free_own(void* block, uptr frame);

}  // namespace freeway
