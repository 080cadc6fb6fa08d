// SPDX-License-Identifier: MIT
//
// The builds for comparison work as mallocs of programs with one thread: `local` (every block is local) and `paper`
// (the paper's 8 bytes before a shared block). Which one it is, FREEWAY_TEST_VARIANT says.
#include <gtest/gtest.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <string>
#include <vector>

#include "freeway/freeway.h"
#include "tests/support/random.h"

namespace freeway::hmalloc {
namespace {

const std::string variant = getenv("FREEWAY_TEST_VARIANT");

TEST(Variants, BlocksLieAsTheVariantSays) {
  auto address = [](void* block) { return reinterpret_cast<uintptr_t>(block); };
  void* blocks[200];
  for (void*& block : blocks) block = malloc(24);
  bool close = false;
  for (int i = 1; i < 200; ++i) {
    ASSERT_EQ(address(blocks[i]) % (variant == "paper" ? 64 : 16), variant == "paper" ? 8u : 0u);
    close |= address(blocks[i]) - address(blocks[i - 1]) == 32;
  }
  EXPECT_EQ(close, variant == "local");
  for (void* block : blocks) free(block);
}

TEST(Variants, BlocksKeepTheirContents) {
  test::Random random(test::test_seed());
  struct Block {
    unsigned char* at;
    size_t bytes;
    unsigned char stamp;
  };
  std::vector<Block> blocks(3000);
  for (int i = 0; i < 200000; ++i) {
    Block& block = blocks[random.below(blocks.size())];
    for (size_t at = 0; at < block.bytes; at += 1 + block.bytes / 16) ASSERT_EQ(block.at[at], block.stamp);
    const size_t bytes = 1 + random.below(random.chance(5) ? 60000 : 500);
    const auto stamp = static_cast<unsigned char>(random.next());
    if (random.chance(20)) {
      block.at = static_cast<unsigned char*>(realloc(block.at, bytes));
    } else {
      free(block.at);
      const size_t alignment = size_t{32} << random.below(6);
      block.at = static_cast<unsigned char*>(random.chance(10) ? aligned_alloc(alignment, bytes) : malloc(bytes));
    }
    ASSERT_NE(block.at, nullptr);
    ASSERT_GE(malloc_usable_size(block.at), bytes);
    memset(block.at, stamp, bytes);
    block.bytes = bytes;
    block.stamp = stamp;
  }
  for (Block& block : blocks) free(block.at);
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
}

}  // namespace
}  // namespace freeway::hmalloc
