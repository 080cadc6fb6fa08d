// SPDX-License-Identifier: MIT
//
// full_test.cc: tables that are full, by FREEWAY_PROFILE=1,stacks=4096,blocks=1024: what has no room is counted as
// lost, what is there stays exact, and nothing else is the worse for it.
#include <gtest/gtest.h>

#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"

namespace freeway::test {
namespace {

TEST(FullTables, BlocksWithoutRoomAreLostAndNoOthers) {
  std::vector<void*> blocks(10000);
  {
    Tagged tagged(5);
    for (void*& block : blocks) block = hide(malloc(100));
  }
  const Dump full = take_dump();
  const uint64_t live = full.of_tag(5).live, lost = full.facts.at("lost_blocks");
  EXPECT_GT(live, 500u) << "the table is nearly full";
  EXPECT_LE(live, 1024u);
  EXPECT_GE(lost, 10000 - 1024u);
  for (void* block : blocks) free(block);
  EXPECT_EQ(take_dump().of_tag(5).live, 0u) << "those that were followed are all seen to go";
  {
    Tagged tagged(5);
    for (size_t i = 0; i < 50; ++i) blocks[i] = hide(malloc(100));
  }
  EXPECT_EQ(take_dump().of_tag(5).live, 50u) << "and there is room again";
  for (size_t i = 0; i < 50; ++i) free(blocks[i]);
}

TEST(FullTables, StacksWithoutRoomAreLostAndNoOthers) {
  void* kept;
  {
    Tagged tagged(6);
    kept = hide(malloc(100));
  }
  const bool was_there = take_dump().of_tag(6).live == 1;  // the table may be full already
  for (uint64_t tag = 1000; tag < 11000; ++tag) {
    Tagged tagged(tag);
    free(hide(malloc(100)));
  }
  const Dump dump = take_dump();
  EXPECT_GT(dump.facts.at("lost_stacks"), 10000 - 4096u - 1);
  EXPECT_LE(dump.samples.size(), 4096u);
  EXPECT_EQ(dump.of_tag(6).live, was_there ? 1u : 0u);
  free(kept);
  EXPECT_EQ(take_dump().of_tag(6).live, 0u);
}

}  // namespace
}  // namespace freeway::test
