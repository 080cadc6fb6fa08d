// SPDX-License-Identifier: MIT
//
// realloc_test.cc: realloc and reallocarray in every direction between small, medium, large and huge blocks; the
// contents are kept up to the smaller size, a failed call changes nothing.
#include <gtest/gtest.h>

#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

constexpr size_t kSteps[] = {1,     8,      16,     17,      40,      100,     128,     500,    1000,  1024,
                             1025,  2048,   2049,   5000,    16384,   32767,   32768,   32769,  50000, 65536,
                             65537, 131072, 200000, 1048576, 3000000, 4194304, 4194305, 9000000};

TEST(Realloc, KeepsContentsBetweenAnyTwoSizes) {
  for (const size_t from : kSteps) {
    for (const size_t to : kSteps) {
      void* block = hide(malloc(hide(from)));
      ASSERT_NE(block, nullptr);
      fill(block, from, 5);
      void* moved = hide(realloc(block, hide(to)));
      ASSERT_NE(moved, nullptr) << from << " -> " << to;
      EXPECT_TRUE(is_aligned(moved, 16));
      EXPECT_GE(malloc_usable_size(moved), to);
      EXPECT_TRUE(holds(moved, from < to ? from : to, 5)) << from << " -> " << to;
      memset(moved, 0x33, malloc_usable_size(moved));
      free(moved);
    }
  }
}

TEST(Realloc, GrowingByteByByteKeepsContents) {
  char* text = nullptr;
  for (size_t length = 1; length <= 5000; ++length) {
    text = static_cast<char*>(hide(realloc(text, length)));
    ASSERT_NE(text, nullptr);
    text[length - 1] = static_cast<char>(length * 7);
  }
  for (size_t i = 0; i < 5000; ++i) ASSERT_EQ(text[i], static_cast<char>((i + 1) * 7));
  for (size_t length = 4999; length > 7; length -= 7) {
    text = static_cast<char*>(hide(realloc(text, length)));
    ASSERT_NE(text, nullptr);
    for (size_t i = 0; i < length; ++i) ASSERT_EQ(text[i], static_cast<char>((i + 1) * 7));
  }
  free(text);
}

TEST(Realloc, KeepsContentsToAndFromHugeBlocks) {
  const size_t sizes[] = {100,        70000,          20 * kMiB, kLargestLarge - 5, kLargestLarge + 5,
                          300 * kMiB, 300 * kMiB + 1, 700 * kMiB};
  for (const size_t from : sizes) {
    for (const size_t to : sizes) {
      void* block = hide(malloc(hide(from)));
      ASSERT_NE(block, nullptr);
      fill_probes(block, from, 9);
      void* moved = hide(realloc(block, hide(to)));
      ASSERT_NE(moved, nullptr) << from << " -> " << to;
      EXPECT_GE(malloc_usable_size(moved), to);
      EXPECT_TRUE(holds_probes(moved, from < to ? from : to, 9)) << from << " -> " << to;
      static_cast<char*>(moved)[to - 1] = 1;
      free(moved);
    }
  }
}

TEST(Realloc, GrowingAHugeBlockDoesNotCopyIt) {
  // 4 GiB of address space of which one page in 8 MiB is touched: a copy would touch all of it.
  const size_t before = anonymous_rss();
  void* block = hide(malloc(hide(kLargestLarge + 1)));
  ASSERT_NE(block, nullptr);
  fill_probes(block, kLargestLarge, 3);
  for (size_t size = 2 * kLargestLarge; size <= 16 * kLargestLarge; size *= 2) {
    block = hide(realloc(block, hide(size)));
    ASSERT_NE(block, nullptr);
  }
  EXPECT_TRUE(holds_probes(block, kLargestLarge, 3));
  EXPECT_LE(anonymous_rss(), before + 16 * kMiB);
  free(block);
}

TEST(Realloc, KeepsAlignedBlocksContents) {
  for (const size_t alignment : {size_t{32}, size_t{256}, size_t{4096}, size_t{65536}, size_t{1} << 20}) {
    for (const size_t from : {size_t{40}, size_t{3000}, size_t{70000}}) {
      for (const size_t to : {size_t{8}, size_t{500}, size_t{9000}, size_t{400000}}) {
        void* block = hide(memalign(alignment, hide(from)));
        ASSERT_NE(block, nullptr);
        fill(block, from, 11);
        void* moved = hide(realloc(block, hide(to)));
        ASSERT_NE(moved, nullptr);
        EXPECT_TRUE(holds(moved, from < to ? from : to, 11)) << alignment << ": " << from << " -> " << to;
        memset(moved, 1, malloc_usable_size(moved));
        free(moved);
      }
    }
  }
}

TEST(Realloc, OfNullIsMalloc) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1000}, size_t{100000}}) {
    void* block = hide(realloc(hide(static_cast<void*>(nullptr)), hide(size)));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_GE(malloc_usable_size(block), size);
    free(block);
  }
}

TEST(Realloc, ToZeroBytesFreesAndGivesNullAsGlibcDoes) {
  // 100,000 blocks of 10,000 bytes each: were they not freed, a gigabyte would be in use at the end.
  const size_t before = anonymous_rss();
  for (int i = 0; i < 100000; ++i) {
    void* block = hide(malloc(hide(size_t{10000})));
    ASSERT_NE(block, nullptr);
    memset(block, 1, 10000);
    ASSERT_EQ(hide(realloc(block, hide(size_t{0}))), nullptr);
  }
  EXPECT_LE(anonymous_rss(), before + 64 * kMiB);
}

TEST(Realloc, FailureLeavesTheBlockAsItWas) {
  for (const size_t from : {size_t{20}, size_t{5000}, size_t{100000}, kLargestLarge + 1}) {
    void* block = hide(malloc(hide(from)));
    ASSERT_NE(block, nullptr);
    const size_t touched = from > kMiB ? kMiB : from;
    fill(block, touched, 21);
    for (const size_t size : kImpossibleSizes) {
      errno = 0;
      ASSERT_EQ(hide(realloc(block, hide(size))), nullptr) << size;
      ASSERT_EQ(errno, ENOMEM) << size;
    }
    EXPECT_TRUE(holds(block, touched, 21));
    free(block);
  }
}

TEST(Realloc, OfNullRefusesImpossibleSizes) {
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    EXPECT_EQ(hide(realloc(hide(static_cast<void*>(nullptr)), hide(size))), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
}

TEST(Realloc, ShrinkingALargeBlockGivesMemoryBack) {
  const size_t before = anonymous_rss();
  std::vector<void*> blocks;
  for (int i = 0; i < 8; ++i) {
    void* block = hide(malloc(hide(16 * kMiB)));
    ASSERT_NE(block, nullptr);
    memset(block, 1, 16 * kMiB);
    block = hide(realloc(block, hide(128 * kKiB)));
    ASSERT_NE(block, nullptr);
    EXPECT_LE(malloc_usable_size(block), kMiB);
    blocks.push_back(block);
  }
  // 128 MiB were touched and 1 MiB is in use; what was cut off must serve the next request or go back.
  EXPECT_LE(anonymous_rss(), before + 48 * kMiB);
  for (void* block : blocks) free(block);
}

TEST(Reallocarray, MultipliesAndKeepsContents) {
  auto* numbers = static_cast<uint64_t*>(hide(reallocarray(nullptr, 10, sizeof(uint64_t))));
  ASSERT_NE(numbers, nullptr);
  for (uint64_t i = 0; i < 10; ++i) numbers[i] = i * i;
  numbers = static_cast<uint64_t*>(hide(reallocarray(numbers, 100000, sizeof(uint64_t))));
  ASSERT_NE(numbers, nullptr);
  EXPECT_GE(malloc_usable_size(numbers), 100000 * sizeof(uint64_t));
  for (uint64_t i = 0; i < 10; ++i) EXPECT_EQ(numbers[i], i * i);
  free(numbers);
}

TEST(Reallocarray, OverflowIsRefusedAndLeavesTheBlock) {
  void* block = hide(malloc(100));
  ASSERT_NE(block, nullptr);
  fill(block, 100, 2);
  struct Product {
    size_t count, size;
  };
  for (const Product& product : {Product{SIZE_MAX, 2}, Product{2, SIZE_MAX}, Product{size_t{1} << 33, size_t{1} << 33},
                                 Product{SIZE_MAX / 2 + 1, 2}, Product{PTRDIFF_MAX / 2 + 1, 2}, Product{1, SIZE_MAX}}) {
    errno = 0;
    EXPECT_EQ(hide(reallocarray(hide(block), hide(product.count), hide(product.size))), nullptr);
    EXPECT_EQ(errno, ENOMEM);
  }
  EXPECT_TRUE(holds(block, 100, 2));
  free(block);
}

TEST(Reallocarray, OfNothingIsReallocToZero) {
  void* block = hide(malloc(100));
  EXPECT_EQ(hide(reallocarray(block, hide(size_t{0}), 8)), nullptr);  // freed, as realloc(block, 0)
  void* fresh = hide(reallocarray(nullptr, hide(size_t{0}), 8));
  EXPECT_NE(fresh, nullptr);
  free(fresh);
}

}  // namespace
}  // namespace freeway::test
