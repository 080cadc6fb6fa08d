// SPDX-License-Identifier: MIT
//
// faults_test.cc: what a program does wrong with a guarded block faults at that instruction and is explained; what it
// does wrong elsewhere is not.
#include <csignal>

#include "guard_test.h"

namespace freeway::test {
namespace {

FREEWAY_SCENARIO(WritesPastTheEnd) {
  char* block = guarded_block(64, At::kEnd);
  announce(block);
  *hide(block + 63 + argument) = 1;
}
TEST(GuardFaults, AWriteOneBytePastTheEndIsAnOverflowByOne) {
  expect_explained(run_guarded("WritesPastTheEnd", 1), SIGSEGV,
                   {"freeway: overflow: a write at ", ", 1 byte past the end of a block of 64 at ", "allocated by 0x"});
  expect_explained(run_guarded("WritesPastTheEnd", 1000), SIGSEGV, {", 1000 bytes past the end of a block of 64 at "});
}
TEST(GuardFaults, TheLastByteIsTheBlocks) {
  const Outcome outcome = run_guarded("WritesPastTheEnd", 0);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}
TEST(GuardFaults, TheExplanationNamesTheBlockAndTheCallerInTheProgram) {
  const Outcome outcome = run_guarded("WritesPastTheEnd", 1);
  unsigned long block = 0, begin = 0, end = 0, told_block = 0, told_caller = 0;
  ASSERT_EQ(sscanf(outcome.out.c_str(), "pointer %lx code %lx %lx", &block, &begin, &end), 3) << outcome.out;
  const char* at = strstr(outcome.err.c_str(), "block of 64 at ");
  const char* by = strstr(outcome.err.c_str(), "allocated by ");
  ASSERT_TRUE(at != nullptr && by != nullptr) << outcome.err;
  ASSERT_EQ(sscanf(at, "block of 64 at %lx", &told_block), 1);
  ASSERT_EQ(sscanf(by, "allocated by %lx", &told_caller), 1);
  EXPECT_EQ(told_block, block);
  EXPECT_TRUE(told_caller > begin && told_caller < end) << outcome.out << outcome.err;
}

FREEWAY_SCENARIO(ReadsPastTheEnd) {
  char* block = guarded_block(64, At::kEnd);
  dprintf(1, "%d", *hide(block + 64));
}
TEST(GuardFaults, AReadPastTheEndIsCalledARead) {
  expect_explained(run_guarded("ReadsPastTheEnd"), SIGSEGV, {"overflow: a read at "});
}

FREEWAY_SCENARIO(WritesBeforeTheBeginning) {
  char* block = guarded_block(100, At::kBeginning);
  *hide(block - argument) = 1;
}
TEST(GuardFaults, AWriteBeforeTheBeginningIsAnUnderflow) {
  expect_explained(run_guarded("WritesBeforeTheBeginning", 1), SIGSEGV,
                   {"freeway: underflow: a write at ", ", 1 byte before a block of 100 at "});
}

FREEWAY_SCENARIO(UsesAfterFree) {
  char* block = guarded_block(200, At::kEnd);
  block[7] = 1;
  free(block);
  if (argument == 0) dprintf(1, "%d", *hide(block + 7));
  else *hide(block + 7) = 1;
  dprintf(1, "survived");
}
TEST(GuardFaults, AUseAfterFreeNamesWhoFreedIt) {
  for (long write : {0L, 1L}) {
    const Outcome outcome = run_guarded("UsesAfterFree", write);
    expect_explained(outcome, SIGSEGV,
                     {write != 0 ? "use after free: a write at " : "use after free: a read at ",
                      "7 bytes inside a block of 200 at ", "allocated by 0x", "freed by 0x"});
    EXPECT_EQ(outcome.out, "");
  }
}

FREEWAY_SCENARIO(UsesAfterManyFrees) {
  char* block = guarded_block(200, At::kEnd);
  free(block);
  for (long i = 0; i < argument; ++i) free(hide(malloc(200)));
  *hide(block) = 1;
}
TEST(GuardFaults, AFreedBlockStaysInaccessibleForSixtyFourOthers) {
  expect_explained(run_guarded("UsesAfterManyFrees", 64), SIGSEGV, {"use after free: a write at "});
}

FREEWAY_SCENARIO(FreesTwice) {
  void* block = guarded_block(48, At::kEnd);
  announce(block);
  free(block);
  free(hide(block));
  dprintf(1, "survived");
}
TEST(GuardFaults, ADoubleFreeIsNamedAtOnceWithTheFirstOne) {
  const Outcome outcome = run_guarded("FreesTwice");
  expect_explained(outcome, SIGABRT, {"freeway: double free of 0x", "allocated by 0x", "freed by 0x"});
  EXPECT_FALSE(contains(outcome.out, "survived"));
  EXPECT_TRUE(run_scenario("FreesTwice", 0, {"FREEWAY_GUARD=1", "FREEWAY_ON_ERROR=report"}).succeeded());
}

FREEWAY_SCENARIO(FreesTheInside) { free(hide(guarded_block(48, At::kEnd) + argument)); }
TEST(GuardFaults, AFreeInsideOrBesideABlockIsNamed) {
  expect_explained(run_guarded("FreesTheInside", 16), SIGABRT, {"free of an interior pointer 0x", "allocated by 0x"});
  expect_explained(run_guarded("FreesTheInside", 8), SIGABRT, {"free of a misaligned pointer 0x"});
  expect_explained(run_guarded("FreesTheInside", 48), SIGABRT, {"free of a foreign pointer 0x"});
}

FREEWAY_SCENARIO(CallsAfterFree) {
  void* block = guarded_block(48, At::kEnd);
  free(block);
  if (argument == 0) hide(malloc_usable_size(hide(block)));
  else hide(realloc(hide(block), 1000));
}
TEST(GuardFaults, ReallocAndUsableSizeOfAFreedBlockAreNamed) {
  expect_explained(run_guarded("CallsAfterFree", 0), SIGABRT, {"malloc_usable_size of a freed pointer 0x"});
  expect_explained(run_guarded("CallsAfterFree", 1), SIGABRT, {"realloc of a freed pointer 0x"});
}

FREEWAY_SCENARIO(WritesIntoTheSlack) {
  char* block = guarded_block(100, At::kEnd);
  memset(block, 1, 100 + static_cast<size_t>(argument));
  free(block);
}
TEST(GuardFaults, AWriteIntoWhatAlignmentLeavesIsFoundAtTheFree) {
  expect_explained(run_guarded("WritesIntoTheSlack", 1), SIGABRT,
                   {"overflow: the bytes past the end of 0x", "allocated by"});
  EXPECT_TRUE(run_guarded("WritesIntoTheSlack", 0).succeeded());
}

FREEWAY_SCENARIO(FaultsElsewhere) {
  free(hide(malloc(100)));
  if (argument == 0) *hide(reinterpret_cast<volatile int*>(16)) = 1;
  if (argument == 1) kill(getpid(), SIGSEGV);
  if (argument == 2) kill(getpid(), SIGBUS);
  if (argument == 3) raise(SIGSEGV);
  if (argument == 4) *hide(const_cast<char*>("constant")) = 1;
}
TEST(GuardFaults, WhatHappensElsewhereEndsTheProgramWithoutAWord) {
  for (long how : {0L, 1L, 2L, 3L, 4L}) {
    const Outcome outcome = run_guarded("FaultsElsewhere", how);
    EXPECT_EQ(outcome.signal, how == 2 ? SIGBUS : SIGSEGV) << how;
    EXPECT_EQ(outcome.err, "") << how;
  }
}

}  // namespace
}  // namespace freeway::test
