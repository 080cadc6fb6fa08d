// SPDX-License-Identifier: MIT
// slots.h: a slot of a magazine holds the address of a block, negative (bit 63 set) if the block is far.
//
// The fast path pops no negative slot: it finds the births of near blocks only (harden/births.h). It pushes none
// either: far blocks' frames have no class there. So both go the slow path, and do have a magazine.
#pragma once

#include "base/compiler.h"
#include "base/integers.h"

namespace freeway::slots {

constexpr u64 kFar = u64{1} << 63;

inline u64 of(const void* block, bool far) { return reinterpret_cast<u64>(block) | (far ? kFar : 0); }
inline void* block_of(u64 slot) { return reinterpret_cast<void*>(slot & ~kFar); }
inline void* block_of(const void* slot) { return block_of(reinterpret_cast<u64>(slot)); }

// of, true, for a batch in place.
inline void to_far(void** blocks, unsigned count) {
  for (unsigned i = 0; i < count; ++i) blocks[i] = reinterpret_cast<void*>(of(blocks[i], true));
}

}  // namespace freeway::slots
