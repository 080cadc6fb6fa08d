// SPDX-License-Identifier: MIT
// malloc_test.cc: the buddy system as this program's malloc: what is its own (the rest is in tests/abi and beside it).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "freeway/buddy.h"
#include "freeway/freeway.h"

namespace {

size_t size_of(size_t bytes) {
  size_t size = 16;
  while (size < bytes) size *= 2;
  return size;
}

TEST(NbbsMalloc, BlocksArePowersOfTwoAtMultiplesOfThem) {
  for (size_t bytes = 0; bytes <= size_t{256} << 10; bytes = bytes * 5 / 4 + 1) {
    void* block = malloc(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % size_of(bytes), 0U) << bytes;
    EXPECT_EQ(malloc_usable_size(block), size_of(bytes)) << bytes;
    free(block);
  }
}

TEST(NbbsMalloc, WhatWasFreedLastIsTakenFirst) {
  std::vector<void*> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(malloc(200));
  for (int i : {17, 80, 3}) {
    free(blocks[static_cast<size_t>(i)]);
    EXPECT_EQ(malloc(200), blocks[static_cast<size_t>(i)]);
  }
  for (void* block : blocks) free(block);
}

// Regions come and go: what a hundred of them held is given back, by the free that empties them and by trimming.
TEST(NbbsMalloc, EmptyRegionsAreGivenBack) {
  freeway_stats_t before, full, after;
  freeway_stats(&before, sizeof(before));
  std::vector<void*> blocks;
  for (int i = 0; i < 400; ++i) blocks.push_back(malloc(100 << 10));
  freeway_stats(&full, sizeof(full));
  EXPECT_GE(full.superblocks, before.superblocks + 99) << "four in a region";
  for (void* block : blocks) free(block);
  freeway_stats(&after, sizeof(after));
  EXPECT_LE(after.superblocks, before.superblocks + 2) << "one empty region is kept";
}

TEST(NbbsMalloc, TrimmingGivesBackThePagesOfFreeBlocks) {
  std::vector<char*> blocks;
  for (int i = 0; i < 256; ++i) {
    blocks.push_back(static_cast<char*>(malloc(64 << 10)));
    memset(blocks.back(), 1, 64 << 10);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
  EXPECT_EQ(malloc_trim(0), 1);
  for (size_t i = 1; i < blocks.size(); i += 2) {
    EXPECT_EQ(blocks[i][0] + blocks[i][65535], 2) << "the live ones are untouched";
    free(blocks[i]);
  }
}

// The library exports the buddy system on its own, beside malloc.
TEST(NbbsMalloc, TheLibraryExportsFreewayBuddy) {
  auto metadata_size =
      reinterpret_cast<decltype(&freeway_buddy_metadata_size)>(dlsym(RTLD_DEFAULT, "freeway_buddy_metadata_size"));
  auto create = reinterpret_cast<decltype(&freeway_buddy_create)>(dlsym(RTLD_DEFAULT, "freeway_buddy_create"));
  auto alloc = reinterpret_cast<decltype(&freeway_buddy_alloc)>(dlsym(RTLD_DEFAULT, "freeway_buddy_alloc"));
  auto free_block = reinterpret_cast<decltype(&freeway_buddy_free)>(dlsym(RTLD_DEFAULT, "freeway_buddy_free"));
  ASSERT_TRUE(metadata_size != nullptr && create != nullptr && alloc != nullptr && free_block != nullptr);
  const freeway_buddy_options_t options = {16, 4, 128, 256 << 10, 0};
  const size_t bytes = metadata_size(&options);
  void* metadata = aligned_alloc(64, (bytes + 63) / 64 * 64);
  void* memory = aligned_alloc(4 << 20, 4 << 20);
  freeway_buddy_t* buddy = create(metadata, bytes, memory, &options);
  ASSERT_NE(buddy, nullptr);
  void* block = alloc(buddy, 1000);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(free_block(buddy, block), 0);
  free(memory);
  free(metadata);
}

}  // namespace
