// SPDX-License-Identifier: MIT
//
// hardened_test.cc: what FREEWAY_HARDEN=1 and what may stand behind it promise: freed blocks rest, blocks come in an
// order that nobody knows, each process in its own, and a write to a resting block is named.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <sys/personality.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {
namespace {

// How many pairs it takes until the first block comes again; `argument`: its size.
FREEWAY_SCENARIO(PrintsHowLongABlockRests) {
  const auto size = static_cast<size_t>(argument);
  const auto first = reinterpret_cast<uintptr_t>(hide(malloc(size)));
  free(hide(reinterpret_cast<void*>(first)));
  int pairs = 0;
  for (; pairs < 1000000; ++pairs) {
    void* block = hide(malloc(size));
    free(block);
    if (reinterpret_cast<uintptr_t>(block) == first) break;
  }
  dprintf(1, "%d", pairs);
}

// Half of about 64 KiB, less a batch, since a process may change its CPU.
TEST(Hardened, AFreedBlockRests) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  for (const long size : {16, 64, 256, 1024}) {
    const int pairs = atoi(run_scenario("PrintsHowLongABlockRests", size, {"FREEWAY_HARDEN=1"}).out.c_str());
    EXPECT_GE(pairs, 32 * 1024 / (size > 32 ? size : 32) - 64) << size;
    EXPECT_LT(pairs, 1000000) << size << ": it never comes back";
  }
  EXPECT_EQ(run_scenario("PrintsHowLongABlockRests", 64).out, "0") << "not so without the option";
}

TEST(Hardened, ALongerRestIsLonger) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  const Outcome outcome = run_scenario("PrintsHowLongABlockRests", 1024, {"FREEWAY_HARDEN=1,quarantine=1048576"});
  EXPECT_GE(atoi(outcome.out.c_str()), 400);
}

// What freeway_explain says of a freed block, at once and when many others have been freed after it.
FREEWAY_SCENARIO(ExplainsABlockThatRests) {
  void* others[2000];
  for (void*& other : others) other = hide(malloc(64));
  void* block = hide(malloc(64));
  freeway_explanation_t found;
  freeway_explain(block, &found, sizeof found);
  require(found.state == FREEWAY_LIVE && found.what[0] == 0, "it is live");
  free(hide(block));
  freeway_explain(static_cast<char*>(block) + 9, &found, sizeof found);
  require(found.state == FREEWAY_FREE && found.begin == block && found.offset == 9, "it is free");
  dprintf(1, "%s, ", found.what);
  for (void* other : others) free(hide(other));
  freeway_explain(block, &found, sizeof found);
  require(found.state == FREEWAY_FREE, "it is free for longer");
  dprintf(1, "%s", found.what);
}
TEST(Hardened, FreewayExplainTellsOfTheRest) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  EXPECT_EQ(run_scenario("ExplainsABlockThatRests", 0, {"FREEWAY_HARDEN=1"}).out, "at rest since its free, ");
  EXPECT_TRUE(run_scenario("ExplainsABlockThatRests").out.starts_with("in a magazine, ")) << "none rests";
}

// What the heap needs itself, with one block.
FREEWAY_SCENARIO(PrintsItsMetadata) {
  free(hide(malloc(64)));
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  dprintf(1, "%zu", stats.metadata);
}
TEST(Hardened, BedsAreCountedAsMetadata) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  const auto metadata = [](const char* option) {
    return atol(run_scenario("PrintsItsMetadata", 0, {option}).out.c_str());
  };
  const long plain = metadata("FREEWAY_HARDEN=0"), with_beds = metadata("FREEWAY_HARDEN=1");
  EXPECT_GE(plain, 256 * 1024);
  EXPECT_GE(with_beds, plain + 512 * 1024);
}

// Which blocks come next in a process, and in two children that it forks one after the other.
FREEWAY_SCENARIO(PrintsWhatChildrenGet) {
  free(hide(malloc(64)));
  for (int child = 0; child < 2; ++child) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (int i = 0; i < 200; ++i) {
        char* block = static_cast<char*>(hide(malloc(64)));
        if (i >= 190) dprintf(1, "%lu ", static_cast<unsigned long>(reinterpret_cast<uintptr_t>(block) % 65536));
      }
      dprintf(1, "\n");
      _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    require(status == 0, "child");
  }
}

TEST(Hardened, ChildrenOfAForkGoWaysOfTheirOwn) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) != 0) GTEST_SKIP() << "the same in each run, as was asked for";
  const std::string out = run_scenario("PrintsWhatChildrenGet", 0, {"FREEWAY_HARDEN=1"}).out;
  const std::size_t end = out.find('\n');
  ASSERT_NE(end, std::string::npos);
  // Ten blocks of 64 or more: alike once in 10^18 times.
  EXPECT_NE(out.substr(0, end), out.substr(end + 1, end));
}

FREEWAY_SCENARIO(WritesToAFreedBlock) {
  auto* block = static_cast<volatile unsigned char*>(hide(malloc(64)));
  free(hide(const_cast<unsigned char*>(block)));
  require(block[0] == 0xdf && block[63] == 0xdf, "filled");
  if (argument >= 0) block[argument] = 1;
  for (int i = 0; i < 5000; ++i) free(hide(malloc(64)));
  dprintf(1, "end");
}

TEST(Hardened, AWriteToARestingBlockIsNamed) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  for (const long at : {0, 9, 63}) {
    const Outcome outcome = run_scenario("WritesToAFreedBlock", at, {"FREEWAY_HARDEN=1,fill"});
    EXPECT_TRUE(outcome.aborted()) << at;
    ASSERT_EQ(outcome.reports().size(), 1u) << outcome.err;
    EXPECT_NE(outcome.err.find("written to after it was freed, at byte " + std::to_string(at / 8 * 8)),
              std::string::npos)
        << outcome.err;
  }
  const Outcome going_on = run_scenario("WritesToAFreedBlock", 1, {"FREEWAY_HARDEN=1,fill", "FREEWAY_ON_ERROR=report"});
  EXPECT_EQ(going_on.reports().size(), 1u) << going_on.err;
  EXPECT_EQ(going_on.out, "end");
}

TEST(Hardened, WhoDoesNotWriteHearsNothing) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  const Outcome outcome = run_scenario("WritesToAFreedBlock", -1, {"FREEWAY_HARDEN=1,fill"});
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, "end");
}

// A resting block is no more live than any free one, and nothing of it is lost.
FREEWAY_SCENARIO(FreesARestingBlockAgain) {
  void* block = hide(malloc(64));
  free(block);
  for (long i = 0; i < argument; ++i) free(hide(malloc(64)));
  free(hide(block));
}

TEST(Hardened, ADoubleFreeOfARestingBlockIsNamed) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  for (const long later : {0, 1, 63, 64, 65, 200, 300}) {
    const Outcome outcome = run_scenario("FreesARestingBlockAgain", later, {"FREEWAY_HARDEN=1"});
    EXPECT_TRUE(outcome.aborted()) << later;
    EXPECT_NE(outcome.err.find("double free of"), std::string::npos) << outcome.err;
  }
}

FREEWAY_SCENARIO(AuditsAndTrims) {
  static void* blocks[20000];
  for (int round = 0; round < 3; ++round) {
    for (auto& block : blocks) block = hide(malloc(static_cast<size_t>(&block - blocks) % 5000));
    for (auto& block : blocks) free(block);
    freeway_audit_t audit;
    memset(&audit, 0, sizeof(audit));
    freeway_audit(&audit, sizeof(audit));
    require(audit.errors == 0, "audit");
    require(audit.blocks_cached > 1000, "resting blocks are counted");
  }
  malloc_trim(0);
  freeway_audit_t audit;
  memset(&audit, 0, sizeof(audit));
  freeway_audit(&audit, sizeof(audit));
  require(audit.errors == 0, "audit after the trim");
  require(audit.blocks_cached < 1000, "trim ends their rest");
}

TEST(Hardened, RestingBlocksAreAccountedForAndTrimmed) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  for (const char* more : {"", ",fill", ",quarantine=0", ",fill,quarantine=1m"}) {
    const Outcome outcome = run_scenario("AuditsAndTrims", 0, {(std::string("FREEWAY_HARDEN=1") + more).c_str()});
    EXPECT_TRUE(outcome.succeeded()) << more << "\n" << outcome.err;
  }
}

}  // namespace
}  // namespace freeway::test
