// SPDX-License-Identifier: MIT
//
// confined_heap.h: things in the way of a heap that grows, so that a test meets the end of its first arena and of its
// first segment of metadata soon. For a process that has allocated little yet.
#ifndef FREEWAY_TESTS_CONFINED_HEAP_H
#define FREEWAY_TESTS_CONFINED_HEAP_H

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace freeway_test {

// Leaves the first arena `arena` bytes and the first segment of metadata `segment` (multiples of 64 KiB). False where
// the heap is no window of places (src/os/window.h), and nothing can be in its way.
inline bool confine_heap(size_t arena, size_t segment) {
  constexpr uintptr_t kChunk = uintptr_t{4} << 20, kArena = uintptr_t{64} << 30;
  void* const block = std::malloc(100'000);
  const uintptr_t base = reinterpret_cast<uintptr_t>(block) & ~(kChunk - 1);
  std::free(block);
  const auto occupy = [](uintptr_t from, uintptr_t to) {
    constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
    void* const place = reinterpret_cast<void*>(from);
    void* const got = ::mmap(place, to - from, PROT_NONE, kFlags, -1, 0);
    if (got != place && got != MAP_FAILED) ::munmap(got, to - from);
    return got == place;
  };
  return occupy(base + arena, base + kArena) && occupy(base + kArena + segment, base + kArena + segment + 65536);
}

}  // namespace freeway_test

#endif  // FREEWAY_TESTS_CONFINED_HEAP_H
