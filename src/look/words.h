// SPDX-License-Identifier: MIT
// words.h: what kinds of memory a heap has, in the words that people read: `freeway stat`, `top`, `map` and the text of
// FREEWAY_STATS say the same ones. docs/reading-stat.md says what is normal.
#pragma once

namespace freeway::look {

struct Word {
  char name[12];
  char meaning[56];
};

inline constexpr Word kLive{"live", "blocks that the program has"};
inline constexpr Word kCached{"cached", "free blocks in per-CPU caches, ready for malloc"};
inline constexpr Word kStuck{"stuck", "other free blocks, on superblocks that live blocks keep"};
inline constexpr Word kFree{"free", "memory without blocks: trimming returns it to the OS"};
inline constexpr Word kMetadata{"metadata", "the allocator's own tables"};
inline constexpr Word kReturned{"returned", "memory given back to the OS"};

}  // namespace freeway::look
