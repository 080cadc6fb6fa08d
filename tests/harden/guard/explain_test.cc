// SPDX-License-Identifier: MIT
//
// explain_test.cc: what freeway_explain says of guarded blocks.
#include "guard_test.h"

namespace freeway::test {
namespace {

FREEWAY_SCENARIO(Explains) {
  char* block = guarded_block(64, At::kEnd);
  freeway_explanation_t found;
  require(freeway_explain(block + 3, &found, sizeof(found)) == FREEWAY_GUARDED_BLOCK, "a guarded block");
  require(found.state == FREEWAY_LIVE && found.begin == block && found.size == 64 && found.offset == 3, "live");
  require(found.allocated_by != nullptr && found.allocated_in == static_cast<uint64_t>(gettid()), "who made it");
  require(found.freed_by == nullptr && found.freed_in == 0, "nobody freed it");
  freeway_explain(block + 64 + 5, &found, sizeof(found));
  require(found.begin == block && found.offset == 69, "past its end, on the fence");
  free(block);
  freeway_explain(block, &found, sizeof(found));
  require(found.kind == FREEWAY_GUARDED_BLOCK && found.state == FREEWAY_FREE && found.begin == block, "free");
  require(found.freed_by != nullptr && found.freed_in == static_cast<uint64_t>(gettid()), "who freed it");
  block = guarded_block(100, At::kBeginning);
  freeway_explain(block - 1, &found, sizeof(found));
  require(found.begin == block && found.offset == -1, "before its beginning");
  freeway_explain_to(2, block - 1);
}
TEST(GuardExplain, KnowsTheBlockItsMakerAndWhoFreedIt) {
  const Outcome outcome = run_guarded("Explains");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, " is 1 byte before a live guarded block of 100 bytes at 0x")) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "freeway:   allocated by 0x")) << outcome.err;
}

FREEWAY_SCENARIO(TellsOfBlocks) {
  char* block = guarded_block(64, At::kEnd);
  freeway_block_info_t info;
  require(freeway_block_info(block, &info, sizeof(info)) == 64 && info.kind == FREEWAY_GUARDED_BLOCK,
          "a guarded block");
  require(info.superblock_size >= 64 && info.superblock_blocks == 1 && info.superblock_live == 1, "alone");
  require(freeway_block_info(block + 1, nullptr, 0) == 0 && freeway_block_info(block + 64, nullptr, 0) == 0,
          "none there");
  require(freeway_should_move(block) == 0 && freeway_should_move(block + 64) == 0, "a guarded block need not move");
  free(block);
  require(freeway_block_info(block, nullptr, 0) == 0, "it is free");
}
TEST(GuardExplain, BlockInfoKnowsTheLiveBlock) {
  const Outcome outcome = run_guarded("TellsOfBlocks");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

__attribute__((noinline)) void* make(long how) {
  void* block = nullptr;
  if (how == 0) block = malloc(64);
  if (how == 1) block = calloc(1, 64);
  if (how == 2) block = realloc(nullptr, 64);
  if (how == 3) require(posix_memalign(&block, 64, 64) == 0, "posix_memalign");
  if (how == 4) block = aligned_alloc(64, 64);
  if (how == 5) block = reallocarray(nullptr, 4, 16);
  return block;
}
FREEWAY_SCENARIO(NamesCallers) {
  for (long how = 0; how < 6; ++how) {
    freeway_explanation_t found;
    require(freeway_explain(hide(make(how)), &found, sizeof(found)) == FREEWAY_GUARDED_BLOCK, "a guarded block");
    const auto caller = reinterpret_cast<uintptr_t>(found.allocated_by), begin = reinterpret_cast<uintptr_t>(&make);
    require(caller > begin && caller < begin + 1000, "the caller is make()");
  }
}
TEST(GuardExplain, NamesTheCallerOfEachFunction) {
  const Outcome outcome = run_guarded("NamesCallers");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
