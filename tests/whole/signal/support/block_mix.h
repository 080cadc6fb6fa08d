// SPDX-License-Identifier: MIT
//
// The operations of all interruption tests: get, resize and give back a patterned block, through every function that
// a program may use, over sizes that reach every layer of an allocator.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_BLOCK_MIX_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_BLOCK_MIX_H

#include <cstdint>
#include <cstdlib>

#include "tests/support/random.h"
#include "tests/whole/signal/support/call_watch.h"
#include "tests/whole/signal/support/patterned_block.h"

namespace freeway_test {

// How large blocks may be: the share of each kind is per thousand.
struct SizeMix {
  unsigned medium;  // 1 KiB to 32 KiB
  unsigned large;   // 32 KiB to 512 KiB
  unsigned giant;   // 512 KiB to 4 MiB
};
constexpr SizeMix kSmallOnly{0, 0, 0};
constexpr SizeMix kUpToMedium{80, 0, 0};
constexpr SizeMix kMostlySmall{40, 4, 0};
constexpr SizeMix kAllSizes{80, 18, 2};

inline size_t random_size(Random& random, const SizeMix& mix) {
  const uint64_t pick = random.below(1000);
  if (pick < mix.giant) return random.between(512u << 10, 4u << 20);
  if (pick < mix.giant + mix.large) return random.between(32u << 10, 512u << 10);
  if (pick < mix.giant + mix.large + mix.medium) return random.between(1u << 10, 32u << 10);
  // Half of the rest is concentrated on a few sizes, so that magazines fill up and run dry.
  return random.one_in(2) ? 32u << random.below(4) : random.between(kSmallestBlock, 1024);
}

inline void require_zero(const void* block, size_t size) {
  for (size_t offset = 0; offset + 8 <= size; offset = next_pattern_offset(offset))
    require(read_word(block, offset) == 0, "calloc gave memory that is not zero", offset, read_word(block, offset));
}

// A block of `size` bytes, stamped. Fails the test if there is none.
inline void* allocate_block(Random& random, size_t size) {
  void* block = nullptr;
  const uint64_t pick = random.below(20);
  const size_t alignment = pick >= 18 ? size_t{32} << random.below(8) : 16;
  if (pick < 12) {
    enter_allocator(Call::kMalloc);
    block = ::malloc(size);
  } else if (pick < 16) {
    enter_allocator(Call::kCalloc);
    block = ::calloc(1, size);
  } else if (pick < 18) {
    enter_allocator(Call::kRealloc);
    block = ::realloc(nullptr, size);
  } else if (pick < 19) {
    enter_allocator(Call::kAlignedAlloc);
    block = ::aligned_alloc(alignment, size);
  } else {
    enter_allocator(Call::kPosixMemalign);
    if (::posix_memalign(&block, alignment, size) != 0) block = nullptr;
  }
  leave_allocator();
  require(block != nullptr, "no memory", size, pick);
  require(reinterpret_cast<uintptr_t>(block) % alignment == 0, "misaligned block", alignment,
          reinterpret_cast<uintptr_t>(block));
  if (pick >= 12 && pick < 16) require_zero(block, size);
  stamp(block, size, static_cast<uint32_t>(random.next()));
  return block;
}

inline void* allocate_block(Random& random, const SizeMix& mix) {
  return allocate_block(random, random_size(random, mix));
}

// Checks and frees a stamped block.
inline void release_block(void* block) {
  verify(block, "damaged block, found when freed");
  unstamp(block);
  enter_allocator(Call::kFree);
  ::free(block);
  leave_allocator();
}

// Checks a stamped block, gives it another size and stamps it again.
inline void* resize_block(Random& random, void* block, size_t size) {
  const size_t old_size = verify(block, "damaged block, found when resized");
  const uint64_t seed = seed_of(block);
  enter_allocator(Call::kRealloc);
  void* moved = ::realloc(block, size);
  leave_allocator();
  require(moved != nullptr, "no memory for realloc", size);
  verify_prefix(moved, seed, std::min(old_size, size), "realloc lost contents");
  stamp(moved, size, static_cast<uint32_t>(random.next()));
  return moved;
}

}  // namespace freeway_test
#endif
