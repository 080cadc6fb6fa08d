// SPDX-License-Identifier: MIT
//
// freeway/pmr.h: what standard containers get from it is Freeway's, aligned, and refused as the standard says.
#include <freeway/pmr.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

namespace {

std::size_t block_size(const void* block) { return freeway_block_info(block, nullptr, 0); }

// It is there before any constructor runs.
constinit freeway::detail::immortal_resource made_at_compile_time;

// Uses it after main.
struct FreesAtTheEnd {
  std::pmr::vector<int> numbers{freeway::resource()};
  FreesAtTheEnd() { numbers.resize(1000, 1); }
  ~FreesAtTheEnd() {
    numbers.resize(100000, 2);  // a virtual call to the resource, a new block and a free
    if (numbers[999] != 1 || numbers[99999] != 2) std::abort();
  }
} frees_at_the_end;

TEST(Pmr, BlocksAreFreewaysOwn) {
  std::pmr::memory_resource* resource = freeway::resource();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{40}, std::size_t{5000}, std::size_t{1} << 20}) {
    void* block = resource->allocate(bytes);
    EXPECT_GE(block_size(block), bytes);
    resource->deallocate(block, bytes);
    EXPECT_EQ(block_size(block), 0u) << "still live: " << bytes;
  }
}

TEST(Pmr, NoBytesAreABlockToo) {
  void* first = freeway::resource()->allocate(0);
  void* second = freeway::resource()->allocate(0);
  EXPECT_NE(first, nullptr);
  EXPECT_NE(first, second);
  freeway::resource()->deallocate(first, 0);
  freeway::resource()->deallocate(second, 0);
}

TEST(Pmr, EveryAlignmentIsKept) {
  // Also sizes whose blocks do not lie at multiples of a power of two by themselves.
  for (const std::size_t bytes : {std::size_t{24}, std::size_t{48}, std::size_t{112}, std::size_t{1000}}) {
    for (std::size_t alignment = 1; alignment <= std::size_t{1} << 20; alignment *= 2) {
      void* blocks[8];
      for (void*& block : blocks) {
        block = freeway::resource()->allocate(bytes, alignment);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << bytes << " at " << alignment;
      }
      for (void* block : blocks) freeway::resource()->deallocate(block, bytes, alignment);
    }
  }
}

TEST(Pmr, ContainersTakeTheirMemoryFromIt) {
  freeway_stats_t before{}, during{}, after{};
  freeway_stats(&before, sizeof(before));
  {
    std::pmr::map<int, std::pmr::string> names(freeway::resource());
    for (int i = 0; i < 10000; ++i) names.emplace(i, std::string(100, static_cast<char>('a' + i % 26)));
    freeway_stats(&during, sizeof(during));
    for (int i = 0; i < 10000; ++i) ASSERT_EQ(names.at(i), std::string(100, static_cast<char>('a' + i % 26)).c_str());
    EXPECT_GE(block_size(names.at(7).data()), 101u);
  }
  freeway_stats(&after, sizeof(after));
  EXPECT_GE(during.live_blocks, before.live_blocks + 20000);
  EXPECT_LT(after.live_blocks, before.live_blocks + 1000);
}

TEST(Pmr, WhatCannotBeHadThrowsBadAlloc) {
  std::pmr::memory_resource* resource = freeway::resource();
  EXPECT_THROW((void)resource->allocate(PTRDIFF_MAX), std::bad_alloc);
  EXPECT_THROW((void)resource->allocate(PTRDIFF_MAX, 4096), std::bad_alloc);
}

TEST(Pmr, ThereIsOne) {
  EXPECT_EQ(freeway::resource(), freeway::resource());
  EXPECT_TRUE(freeway::resource()->is_equal(*freeway::resource()));
  const freeway::malloc_resource another;
  EXPECT_FALSE(freeway::resource()->is_equal(another));
  EXPECT_FALSE(freeway::resource()->is_equal(*std::pmr::null_memory_resource()));
}

TEST(Pmr, ItMayBeTheDefault) {
  std::pmr::memory_resource* previous = std::pmr::set_default_resource(freeway::resource());
  {
    std::pmr::vector<int> numbers(100);
    EXPECT_EQ(numbers.get_allocator().resource(), freeway::resource());
    EXPECT_GE(block_size(numbers.data()), 100 * sizeof(int));
  }
  std::pmr::set_default_resource(previous);
}

}  // namespace
