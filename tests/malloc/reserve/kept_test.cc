// SPDX-License-Identifier: MIT
//
// kept_test.cc: what freeway_reserve and FREEWAY_PREFAULT make resident stays so through purges and trims, what
// FREEWAY_PURGE=never and mallopt(M_TRIM_THRESHOLD, -1) keep only trims give back, and what limits and impossible
// arguments do.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/abi/scenario.h"

namespace freeway::test {
namespace {

freeway_stats_t stats() {
  freeway_stats_t now;
  freeway_stats(&now, sizeof now);
  return now;
}

void expect_succeeds(const char* scenario, std::initializer_list<const char*> options = {}) {
  const Outcome outcome = run_scenario(scenario, 0, options);
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << " " << outcome.out << outcome.err;
}

void require_sound() {
  freeway_audit_t audit;
  require(freeway_audit(&audit, sizeof audit) == 0 && audit.frames_stranded == 0, "audit");
  require(audit.frames_charged ==
              audit.frames_small + audit.frames_large + audit.frames_huge + audit.frames_dirty + audit.frames_tables,
          "what is charged is not what there is");
}

// Time enough, and slow calls enough, for the policy to give back what it likes: `bytes` come and go for some ticks.
void let_purge(size_t bytes) {
  for (int i = 0; i < 8; ++i) {
    std::vector<void*> blocks;
    for (size_t had = 0; had < bytes; had += 100000) blocks.push_back(hide(malloc(100000)));
    for (void* block : blocks) free(block);
    const timespec tick = {0, 260'000'000};
    nanosleep(&tick, nullptr);
    for (int call = 0; call < 20; ++call) free(hide(malloc(70000)));
  }
}

FREEWAY_SCENARIO(ReservedAndKept) {
  const size_t before = anonymous_rss();
  require(freeway_reserve(1000, 40000) == 40000, "reserve");
  require(freeway_reserve(200000, 100) == 100, "reserve of large blocks");
  require(anonymous_rss() >= before + 60000000, "it is not resident");
  require_sound();
  let_purge(kMiB);
  require(stats().dirty >= 60000000, "a purge gave it back");
  freeway_trim(0);
  require(stats().dirty >= 60000000, "a trim gave it back");
  require(anonymous_rss() >= before + 60000000, "it is not resident any more");
  let_purge(200 * kMiB);
  let_purge(kMiB);
  const size_t dirty = stats().dirty;
  require(dirty >= 60000000, "a purge of more gave it back");
  require(dirty <= 150 * kMiB, "more is kept");
  require_sound();
}

TEST(Reserve, WhatIsReadyStaysReady) { expect_succeeds("ReservedAndKept"); }

// Parts of different lengths: the shorter ones end, and their frames are free, while the longer ones still take some.
FREEWAY_SCENARIO(ReservedByThreads) {
  constexpr size_t kThreads = 4, kParts = 3;
  const size_t before = anonymous_rss();
  std::vector<std::thread> threads;
  for (size_t thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([thread] {
      const size_t blocks = 20 * (thread + 1);
      for (size_t part = 0; part < kParts; ++part)
        require(freeway_reserve(200000, blocks) == blocks, "reserve of large blocks");
      require(freeway_reserve(1000, 10000 * (thread + 1)) == 10000 * (thread + 1), "reserve");
    });
  for (std::thread& each : threads) each.join();
  const size_t bytes = (1 + 2 + 3 + 4) * (kParts * 20 * 200000 + 10000 * 1000);
  require(stats().dirty >= bytes, "a thread counted another's frames as its own");
  require(anonymous_rss() >= before + bytes, "it is not resident");
  require_sound();
}

TEST(Reserve, WhatThreadsReserveAtTheSameTimeAddsUp) {
  for (int round = 0; round < 4; ++round) expect_succeeds("ReservedByThreads");
}

// The first blocks of a size may be of a larger class (cache/loans.h), which has nothing ready.
FREEWAY_SCENARIO(ReservedBlocksAreUsed) {
  constexpr size_t kSize = 200, kCount = 1000;
  require(freeway_reserve(kSize, kCount) == kCount, "reserve");
  void* block = hide(malloc(kSize));
  const size_t own = malloc_usable_size(block);
  require(own < kSize + kSize / 4, "the first block is not of the class that was reserved");
  for (size_t i = 0; i < kCount - 1; ++i)
    require(malloc_usable_size(hide(malloc(kSize))) == own, "a block is of another class");
}

TEST(Reserve, WhatIsReadyIsWhatMallocGives) { expect_succeeds("ReservedBlocksAreUsed"); }

void keeps_until_trimmed() {
  let_purge(100 * kMiB);
  require(stats().dirty >= 100 * kMiB, "something was given back");
  require(stats().purges == 0, "something was given back");
  require(freeway_trim(0) >= 90 * kMiB && stats().dirty == 0, "a trim gives back");
  require_sound();
}

FREEWAY_SCENARIO(KeptForGood) { keeps_until_trimmed(); }

TEST(Purge, NeverMeansByTrimsOnly) { expect_succeeds("KeptForGood", {"FREEWAY_PURGE=never"}); }

// What programs that must not be late call: https://man7.org/linux/man-pages/man3/mallopt.3.html, M_TRIM_THRESHOLD.
FREEWAY_SCENARIO(KeptByMallopt) {
  require(mallopt(M_TRIM_THRESHOLD, -1) == 1 && mallopt(M_MMAP_MAX, 0) == 1, "mallopt");
  keeps_until_trimmed();
}

TEST(Purge, MalloptsTrimThresholdOfMinusOneMeansNever) {
  expect_succeeds("KeptByMallopt");
  expect_succeeds("KeptByMallopt", {"FREEWAY_BACKGROUND=1"});
}

FREEWAY_SCENARIO(KeptUntilAnotherThreshold) {
  mallopt(M_TRIM_THRESHOLD, -1);
  let_purge(100 * kMiB);
  require(stats().purges == 0, "something was given back");
  mallopt(M_MMAP_MAX, 0);  // alone it asks for nothing
  mallopt(M_TRIM_THRESHOLD, 128 * 1024);
  let_purge(kMiB);
  require(stats().dirty < 50 * kMiB, "nothing was given back");
}

TEST(Purge, AnotherThresholdEndsIt) { expect_succeeds("KeptUntilAnotherThreshold"); }

// The user's word outlives the program's.
FREEWAY_SCENARIO(KeptWhateverTheThreshold) {
  mallopt(M_TRIM_THRESHOLD, 128 * 1024);
  keeps_until_trimmed();
}

TEST(Purge, AThresholdDoesNotEndTheUsersNever) { expect_succeeds("KeptWhateverTheThreshold", {"FREEWAY_PURGE=never"}); }

FREEWAY_SCENARIO(ResidentAtStart) {
  require(stats().dirty >= 63 * kMiB && anonymous_rss() >= 64 * kMiB, "it is not resident");
  require_sound();
  let_purge(200 * kMiB);
  freeway_trim(0);
  require(stats().dirty >= 63 * kMiB && anonymous_rss() >= 64 * kMiB, "it is not resident any more");
  require_sound();
}

TEST(Prefault, StaysWhateverIsPurged) { expect_succeeds("ResidentAtStart", {"FREEWAY_PREFAULT=64m"}); }

FREEWAY_SCENARIO(UnderALimit) {
  const size_t got = freeway_reserve(1000, 100000);
  require(got < 100000, "a limit of 64 MiB has room for 100 MB");
  require(got > 40000, "a limit of 64 MiB has no room for 40 MB");
  require(stats().held <= 64 * kMiB, "above the limit");
  require(freeway_reserve(100000, 1000) == 0, "there is no room");
  require_sound();
  void* block = hide(malloc(20 * kMiB));
  require(block != nullptr, "what is ready serves other sizes where there is no other room");
  free(block);
  require_sound();
}

TEST(Reserve, GoesUpToALimit) { expect_succeeds("UnderALimit", {"FREEWAY_LIMIT=,64m"}); }

TEST(Reserve, ImpossibleOnesReserveNothing) {
  EXPECT_EQ(freeway_reserve(100, 0), 0u);
  EXPECT_EQ(freeway_reserve(SIZE_MAX, 1), 0u);
  EXPECT_EQ(freeway_reserve(PTRDIFF_MAX, 2), 0u);
  EXPECT_EQ(freeway_reserve(kLargestLarge + 1, 1), 0u) << "a mapping of its own is never ready";
  EXPECT_EQ(freeway_reserve(0, 10), 10u) << "the smallest blocks";
}

}  // namespace
}  // namespace freeway::test
