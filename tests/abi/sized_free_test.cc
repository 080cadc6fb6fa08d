// SPDX-License-Identifier: MIT
//
// sized_free_test.cc: C23's free_sized and free_aligned_sized (7.24.3.4, 7.24.3.5): like free where the sizes are those
// that were asked for; the blocks come back for reuse and errno is kept.
#include <gtest/gtest.h>

#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

TEST(FreeSized, TakesBackBlocksOfMallocCallocAndRealloc) {
  for (const size_t size : kInterestingSizes) {
    void* plain = hide(malloc(hide(size)));
    void* zeroed = hide(calloc(1, hide(size)));
    void* resized = hide(realloc(hide(malloc(10)), hide(size == 0 ? 1 : size)));
    ASSERT_TRUE(plain != nullptr && zeroed != nullptr && resized != nullptr);
    errno = 4242;
    free_sized(plain, size);
    free_sized(zeroed, size);
    free_sized(resized, size == 0 ? 1 : size);
    EXPECT_EQ(errno, 4242);
  }
}

TEST(FreeSized, NullDoesNothing) {
  free_sized(hide(static_cast<void*>(nullptr)), 0);
  free_sized(hide(static_cast<void*>(nullptr)), 100);
  free_aligned_sized(hide(static_cast<void*>(nullptr)), 64, 100);
}

TEST(FreeSized, BlocksComeBackForReuse) {
  const size_t before = anonymous_rss();
  for (int round = 0; round < 200000; ++round) {
    void* block = hide(malloc(hide(size_t{5000})));
    ASSERT_NE(block, nullptr);
    memset(block, 1, 5000);
    free_sized(block, 5000);
  }
  EXPECT_LE(anonymous_rss(), before + 32 * kMiB);
}

TEST(FreeAlignedSized, TakesBackBlocksOfAlignedAlloc) {
  const size_t before = anonymous_rss();
  for (int round = 0; round < 20; ++round) {
    for (size_t alignment = 1; alignment <= kMiB; alignment *= 2) {
      for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{5000}, size_t{100000}}) {
        void* block = hide(aligned_alloc(alignment, hide(size)));
        ASSERT_NE(block, nullptr);
        memset(block, 1, size);
        errno = 4242;
        free_aligned_sized(block, alignment, size);
        ASSERT_EQ(errno, 4242);
      }
    }
  }
  EXPECT_LE(anonymous_rss(), before + 64 * kMiB);
}

}  // namespace
}  // namespace freeway::test
