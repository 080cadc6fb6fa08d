// SPDX-License-Identifier: MIT
// profile.h: small blocks of which a profile may sample one (profile.cc).
#pragma once

#include "malloc/heap.h"

namespace freeway {

// Whether bytes are counted for a profile is looked up again; now and then: the same if tracers have come or gone, or a
// follower was gone in the middle of it.
void follow_profile(Heap& heap);
void tick_profile(Heap& heap);
// A block of `bytes` (at most kMaxSmall) at a multiple of `alignment`; null: no class has one, or there is no memory.
void* allocate_small_aligned(std::size_t bytes, std::size_t alignment);
// Whether a block of `bytes` that is allocated now, which nothing counts, is to be sampled; a profile is made.
bool is_chosen(std::size_t bytes);
// Frees a sampled block, found good.
void free_sampled(Heap& heap, unsigned c, uptr block, u32 descriptor);

}  // namespace freeway
