// SPDX-License-Identifier: MIT
//
// program_heap.h: heaps of the program (freeway/heap.h) for GoogleTest: made and asked for their figures.
#ifndef FREEWAY_TESTS_ABI_PROGRAM_HEAP_H
#define FREEWAY_TESTS_ABI_PROGRAM_HEAP_H

#include <freeway/heap.h>
#include <gtest/gtest.h>

#include <cstddef>

namespace freeway::test {

inline freeway_heap_t make_heap(size_t limit = 0, const char* name = nullptr) {
  const freeway_heap_options_t options = {name, limit};
  const freeway_heap_t heap = freeway_heap_new(&options, sizeof options);
  EXPECT_NE(heap, nullptr);
  return heap;
}
inline freeway_heap_stats_t stats_of(freeway_heap_t heap) {
  freeway_heap_stats_t stats;
  EXPECT_EQ(freeway_heap_stats(heap, &stats, sizeof stats), 0);
  return stats;
}

}  // namespace freeway::test

#endif  // FREEWAY_TESTS_ABI_PROGRAM_HEAP_H
