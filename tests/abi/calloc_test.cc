// SPDX-License-Identifier: MIT
//
// calloc_test.cc: calloc gives zeroes whoever had the memory before, refuses products that overflow, and does not write
// to memory that the kernel hands out zeroed.
#include <gtest/gtest.h>

#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

// How many blocks of `size` bytes make the memory go round through every cache there is, within `budget` bytes.
size_t blocks_within(size_t size, size_t budget) {
  const size_t count = budget / (size + 1);
  return count < 1 ? 1 : count > 3000 ? 3000 : count;
}

TEST(Calloc, IsZeroAfterDirtyReuseAtEverySize) {
  for (const size_t size : kInterestingSizes) {
    const size_t count = blocks_within(size, 4 * kMiB);
    std::vector<void*> blocks(count);
    for (void*& block : blocks) {
      block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr);
      memset(block, 0xff, malloc_usable_size(block));
    }
    for (void* block : blocks) free(block);
    // The same size, and smaller ones: a block may be bigger than what was asked for.
    for (const size_t again : {size, size - size / 8, size / 2 + 1}) {
      for (void*& block : blocks) {
        block = hide(calloc(hide(again), 1));
        ASSERT_NE(block, nullptr);
        ASSERT_TRUE(is_zero(block, again)) << "calloc(" << again << ", 1) after blocks of " << size;
        memset(block, 0xee, malloc_usable_size(block));
      }
      for (void* block : blocks) free(block);
    }
  }
}

TEST(Calloc, IsZeroWhenDirtyMemoryCameFromAnotherKindOfBlock) {
  // Frames go from superblocks to large blocks and back.
  for (int round = 0; round < 3; ++round) {
    for (const size_t dirty : {size_t{64}, size_t{3000}, size_t{32768}, size_t{70000}, size_t{2000000}}) {
      for (const size_t clean :
           {size_t{48}, size_t{1000}, size_t{20000}, size_t{65536}, size_t{1000000}, size_t{9000000}}) {
        std::vector<void*> blocks(blocks_within(dirty, 8 * kMiB));
        for (void*& block : blocks) {
          block = hide(malloc(hide(dirty)));
          ASSERT_NE(block, nullptr);
          memset(block, 0xaa, dirty);
        }
        for (void* block : blocks) free(block);
        std::vector<void*> zeroed(blocks_within(clean, 8 * kMiB));
        for (void*& block : zeroed) {
          block = hide(calloc(1, hide(clean)));
          ASSERT_NE(block, nullptr);
          ASSERT_TRUE(is_zero(block, clean)) << clean << " bytes after blocks of " << dirty;
        }
        for (void* block : zeroed) free(block);
      }
    }
  }
}

TEST(Calloc, IsZeroAfterTrimmingDirtyMemory) {
  for (const size_t size : {size_t{32}, size_t{1000}, size_t{5000}, size_t{100000}}) {
    std::vector<void*> blocks(blocks_within(size, 8 * kMiB));
    for (void*& block : blocks) {
      block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr);
      memset(block, 0x55, malloc_usable_size(block));
    }
    for (void* block : blocks) free(block);
    malloc_trim(0);
    for (void*& block : blocks) {
      block = hide(calloc(hide(size), 1));
      ASSERT_NE(block, nullptr);
      ASSERT_TRUE(is_zero(block, size)) << size;
    }
    for (void* block : blocks) free(block);
  }
}

TEST(Calloc, OverflowingProductsAreRefusedWithEnomem) {
  struct Product {
    size_t count, size;
  };
  const Product products[] = {{SIZE_MAX, SIZE_MAX},
                              {SIZE_MAX, 2},
                              {2, SIZE_MAX},
                              {SIZE_MAX / 2 + 1, 2},
                              {size_t{1} << 32, size_t{1} << 32},
                              {(size_t{1} << 32) + 1, (size_t{1} << 32) + 1},
                              {SIZE_MAX / 16 + 2, 16},
                              {SIZE_MAX / 3 + 1, 3},
                              {size_t{PTRDIFF_MAX}, 1},
                              {1, size_t{PTRDIFF_MAX} + 1},
                              {PTRDIFF_MAX / 8 + 1, 8},
                              {SIZE_MAX, 1},
                              {1, SIZE_MAX}};
  for (const Product& product : products) {
    errno = 0;
    EXPECT_EQ(hide(calloc(hide(product.count), hide(product.size))), nullptr) << product.count << " x " << product.size;
    EXPECT_EQ(errno, ENOMEM);
  }
}

TEST(Calloc, NothingTimesAnythingGivesAPointerOfItsOwn) {
  void* none = hide(calloc(0, hide(size_t{100})));
  void* empty = hide(calloc(hide(size_t{100}), 0));
  void* overflow_free = hide(calloc(0, hide(SIZE_MAX)));
  ASSERT_NE(none, nullptr);
  ASSERT_NE(empty, nullptr);
  ASSERT_NE(overflow_free, nullptr);
  EXPECT_NE(none, empty);
  EXPECT_NE(none, overflow_free);
  free(none);
  free(empty);
  free(overflow_free);
}

TEST(Calloc, IsAligned) {
  for (const size_t size : kInterestingSizes) {
    void* block = hide(calloc(1, hide(size)));
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(is_aligned(block, 16)) << size;
    free(block);
  }
}

TEST(Calloc, DoesNotWriteToFreshMemory) {
  malloc_trim(0);
  for (const size_t size : {24 * kMiB, 2 * kLargestLarge}) {
    const size_t before = anonymous_rss();
    void* block = hide(calloc(1, hide(size)));
    ASSERT_NE(block, nullptr);
    EXPECT_LE(anonymous_rss(), before + 4 * kMiB) << "calloc of " << size << " touched its pages";
    free(block);
  }
}

}  // namespace
}  // namespace freeway::test
