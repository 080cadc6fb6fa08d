// SPDX-License-Identifier: MIT
// large.h: blocks above kMaxSmall, each a run of frames or a mapping of its own (pages/large.h): counted, and sampled
// by profiles.
#pragma once

#include "malloc/malloc.h"

namespace freeway {

// Null: refused. `zero`, unless null: whether the block is known to be zero.
void* allocate_large(std::size_t bytes, std::size_t alignment, bool* zero);
// Frees the block, or reports it. `info` is its page-map entry, kLarge or kHuge.
void free_large(uptr address, FrameInfo info, const void* caller);
// Resizes the block in place, or moves its pages and changes `address`; false: it is as it was.
bool resize_large(uptr& address, FrameInfo info, std::size_t bytes);

inline bool begins_large(uptr address) { return address % kFrameSize == 0; }
inline std::size_t large_bytes(FrameInfo info) { return process_malloc.substrate().large().bytes_of(info); }

}  // namespace freeway
