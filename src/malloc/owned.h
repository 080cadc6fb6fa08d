// SPDX-License-Identifier: MIT
// owned.h: the slab that a thread keeps between its calls, where there is no rseq (cache/owned_slabs.h).
#pragma once

#include "cache/owned_slabs.h"
#include "os/machine.h"

namespace freeway {

extern FREEWAY_HIDDEN constinit thread_local OwnedSlabs<Machine>::Own own;

// malloc and free of what the way in the own slab does not do.
void* allocate_otherwise(std::size_t size, const void* caller);
void free_otherwise(void* block, const void* caller);
// What is in no superblock: a block of a strip, at once, or the same.
void free_own(void* block, uptr frame);

}  // namespace freeway
