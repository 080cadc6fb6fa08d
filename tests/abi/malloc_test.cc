// SPDX-License-Identifier: MIT
//
// malloc_test.cc: malloc and free against ISO C (7.24.3) and glibc's manual: every size gives a separate, aligned block
// that can be written whole; what cannot be had is refused with ENOMEM; free keeps errno.
#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "abi_test.h"

namespace freeway::test {
namespace {

constexpr size_t kFundamentalAlignment = 16;

TEST(Malloc, EverySmallSizeIsAlignedAndWritableToItsUsableEnd) {
  for (size_t size = 0; size <= 2100; ++size) {
    void* block = hide(malloc(hide(size)));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_TRUE(is_aligned(block, kFundamentalAlignment)) << size;
    const size_t usable = malloc_usable_size(block);
    ASSERT_GE(usable, size);
    fill(block, usable, 1);
    EXPECT_TRUE(holds(block, usable, 1)) << size;
    free(block);
  }
}

TEST(Malloc, BlocksOfAllSizesLieApartWhileAllAreAlive) {
  struct Held {
    void* block;
    size_t usable;
  };
  std::vector<Held> held;
  unsigned tag = 0;
  for (int round = 0; round < 3; ++round) {
    for (const size_t size : kInterestingSizes) {
      void* block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr) << size;
      ASSERT_TRUE(is_aligned(block, kFundamentalAlignment)) << size;
      const size_t usable = malloc_usable_size(block);
      ASSERT_GE(usable, size);
      fill(block, usable, tag++);
      held.push_back({block, usable});
    }
  }
  tag = 0;
  for (const Held& each : held) {
    EXPECT_TRUE(holds(each.block, each.usable, tag++)) << each.usable << " bytes were overwritten";
    free(each.block);
  }
}

TEST(Malloc, ZeroBytesGivePointersThatDifferFromAllOthers) {
  std::set<void*> seen;
  for (int i = 0; i < 5000; ++i) {
    void* block = hide(malloc(hide(size_t{0})));
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(seen.insert(block).second) << "handed out twice";
  }
  for (void* block : seen) free(block);
}

TEST(Malloc, ImpossibleSizesAreRefusedWithEnomem) {
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    EXPECT_EQ(hide(malloc(hide(size))), nullptr) << size;
    EXPECT_EQ(errno, ENOMEM) << size;
  }
}

TEST(Malloc, SizesBeyondTheAddressSpaceAreRefusedWithEnomem) {
  for (unsigned shift = 47; shift < 64; ++shift) {
    for (const size_t size : {(size_t{1} << shift) - 1, size_t{1} << shift, (size_t{1} << shift) + 1}) {
      errno = 0;
      EXPECT_EQ(hide(malloc(hide(size))), nullptr) << size;
      EXPECT_EQ(errno, ENOMEM) << size;
    }
  }
}

TEST(Malloc, RefusalLeavesNothingBroken) {
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(hide(malloc(hide(SIZE_MAX - i))), nullptr);
  void* block = hide(malloc(100));
  ASSERT_NE(block, nullptr);
  free(block);
}

TEST(Malloc, HugeBlocksCanBeHadAndUsedAtBothEnds) {
  for (const size_t size :
       {kLargestLarge - 1, kLargestLarge, kLargestLarge + 1, kLargestLarge + 4097, 3 * kLargestLarge}) {
    auto* block = static_cast<unsigned char*>(hide(malloc(hide(size))));
    ASSERT_NE(block, nullptr) << size;
    EXPECT_TRUE(is_aligned(block, kFundamentalAlignment));
    const size_t usable = malloc_usable_size(block);
    ASSERT_GE(usable, size);
    block[0] = 1;
    block[usable - 1] = 2;
    EXPECT_EQ(block[0] + block[usable - 1], 3);
    free(block);
  }
}

TEST(Malloc, ManyHugeBlocksInTurnDoNotUseUpTheAddressSpace) {
  const size_t before = address_space();
  for (int i = 0; i < 200; ++i) {
    void* block = hide(malloc(hide(kLargestLarge + size_t(i) * 4096)));
    ASSERT_NE(block, nullptr);
    free(block);
  }
  EXPECT_LE(address_space(), before + 2 * kLargestLarge) << "freed mappings stay";
}

TEST(Free, NullDoesNothing) {
  errno = 77;
  free(hide(static_cast<void*>(nullptr)));
  EXPECT_EQ(errno, 77);
}

// POSIX.1-2024 (free shall not modify errno) and glibc since 2.33: also where freeing takes system calls.
TEST(Free, KeepsErrnoAtEverySize) {
  for (const size_t size : kInterestingSizes) {
    for (int count : {1, 300}) {
      if (size * size_t(count) > 16 * kMiB) continue;
      std::vector<void*> blocks;
      for (int i = 0; i < count; ++i) blocks.push_back(hide(malloc(hide(size))));
      for (void* block : blocks) {
        errno = 4242;
        free(block);
        ASSERT_EQ(errno, 4242) << size;
      }
    }
  }
  void* huge = hide(malloc(hide(2 * kLargestLarge)));
  errno = 4242;
  free(huge);
  EXPECT_EQ(errno, 4242);
}

TEST(Free, MemoryComesBackForReuse) {
  // 200 rounds of 8 MiB each: without reuse 1.6 GB would be touched.
  const size_t before = anonymous_rss();
  for (int round = 0; round < 200; ++round) {
    std::vector<void*> blocks;
    const size_t size = round % 2 == 0 ? 1000 : 40000;
    for (size_t got = 0; got < 8 * kMiB; got += size) {
      void* block = hide(malloc(hide(size)));
      ASSERT_NE(block, nullptr);
      memset(block, round, size);
      blocks.push_back(block);
    }
    for (void* block : blocks) free(block);
  }
  EXPECT_LE(anonymous_rss(), before + 64 * kMiB);
}

}  // namespace
}  // namespace freeway::test
