// SPDX-License-Identifier: MIT
//
// double_free_test.cc: the second free of a block. Of a large block it is seen at once; of a small one exactly at the
// second free under FREEWAY_HARDEN=1, and where nothing of its size was freed on this CPU in between; else at latest
// when the block's batch goes back to its superblock.
#include <gtest/gtest.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include <set>
#include <string>

#include "abi_test.h"
#include "scenario.h"
#include "tests/support/cpu_affinity.h"

namespace freeway::test {
namespace {

constexpr int kOthers = 20000;  // more than any magazine of the class holds
void* others[kOthers];

void allocate_others(size_t size) {
  for (void*& each : others) {
    each = hide(malloc(size));
    require(each != nullptr, "malloc");
  }
}
FREEWAY_SCENARIO(LargeTwice) {
  const auto size = static_cast<size_t>(argument);
  // Neighbours on both sides stay alive, so that the frames are not taken for something else.
  void* before = hide(malloc(size));
  void* block = hide(malloc(size));
  void* after = hide(malloc(size));
  require(before != nullptr && after != nullptr && block != nullptr, "malloc");
  announce(block);
  free(block);
  dprintf(1, "first\n");
  free(hide(block));
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfALargeBlockIsSeenAtOnce) {
  for (const long size : {32769L, 100000L, 5000000L, 2 * long(kLargestLarge)}) {
    const Outcome outcome = run_scenario("LargeTwice", size);
    EXPECT_TRUE(outcome.aborted()) << size << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find("first"), std::string::npos) << "the first free was taken for a double one";
    // The frames belong to nothing any more, so the second free may also be called one of a foreign pointer.
    expect_report(outcome, {"double free", "free of a foreign pointer"});
  }
}

FREEWAY_SCENARIO(SmallTwice) {
  const auto size = static_cast<size_t>(argument);
  void* block = hide(malloc(size));
  void* other = hide(malloc(size));
  announce(block);
  free(block);
  free(other);
  dprintf(1, "first\n");
  free(hide(block));
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfASmallBlockIsSeenExactlyAtTheSecondFreeWhenHardened) {
  for (const long size : {1, 16, 32, 100, 1000, 1024, 2048, 4096, 10000, 32768}) {
    const Outcome outcome = run_scenario("SmallTwice", size, {"FREEWAY_HARDEN=1"});
    EXPECT_TRUE(outcome.aborted()) << size << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find("first"), std::string::npos);
    EXPECT_EQ(outcome.out.find("survived"), std::string::npos);
    expect_report(outcome, {"double free"});
  }
}

// `argument`: bytes. On one CPU, so that both frees find the same magazine.
FREEWAY_SCENARIO(SmallTwiceInARow) {
  require(freeway_test::stay_on(freeway_test::usable_cpus().front()), "one CPU");
  free(hide(
      malloc(static_cast<size_t>(argument))));  // of another CPU's superblock perhaps: the first such goes home at once
  void* block = hide(malloc(static_cast<size_t>(argument)));
  announce(block);
  free(block);
  dprintf(1, "first\n");
  free(hide(block));
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfASmallBlockTwiceInARowIsSeenAtOnce) {
  for (const long size : {1, 16, 32, 100, 1000, 1024, 2048, 4096, 10000, 32768}) {
    const Outcome outcome = run_scenario("SmallTwiceInARow", size);
    EXPECT_TRUE(outcome.aborted()) << size << "\n" << outcome.err;
    EXPECT_NE(outcome.out.find("first"), std::string::npos);
    EXPECT_EQ(outcome.out.find("survived"), std::string::npos);
    expect_report(outcome, {"double free"});
  }
}

// Every class, one process: report mode goes on after each.
FREEWAY_SCENARIO(EveryClassTwice) {
  int classes = 0;
  for (size_t size = 1, last = 0; size <= kLargestSmall; ++size) {
    void* block = hide(malloc(size));
    const size_t usable = malloc_usable_size(block);
    free(block);
    if (usable == last) continue;
    last = usable;
    ++classes;
    free(hide(block));
  }
  dprintf(1, "%d classes\n", classes);
}

TEST(DoubleFree, IsSeenInEverySizeClassWhenHardened) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  const Outcome outcome = run_scenario("EveryClassTwice", 0, {"FREEWAY_HARDEN=1", "FREEWAY_ON_ERROR=report"});
  ASSERT_TRUE(outcome.succeeded()) << outcome.err;
  int classes = 0;
  ASSERT_EQ(sscanf(outcome.out.c_str(), "%d classes", &classes), 1);
  EXPECT_GE(classes, 20);
  EXPECT_EQ(outcome.reports().size(), size_t(classes)) << outcome.err;
  for (const std::string& line : outcome.reports()) {
    Report report;
    EXPECT_TRUE(parse_report(line, &report)) << line;
    EXPECT_EQ(report.kind, "double free") << line;
  }
}

FREEWAY_SCENARIO(EveryCallAfterFree) {
  void* block = hide(malloc(200));
  void* other = hide(malloc(200));
  require(other != nullptr, "malloc");
  announce(block);
  free(block);
  dprintf(1, "first\n");
  switch (argument) {
    case 0: free_sized(hide(block), 200); break;
    case 1: free_aligned_sized(hide(block), 16, 200); break;
    case 2: ::operator delete(hide(block)); break;
    case 3: ::operator delete[](hide(block), size_t{200}); break;
    case 4: hide(realloc(hide(block), 5000)); break;
    case 5:
      hide(realloc(hide(block), 190));  // it would stay where it is
      break;
    case 6: hide(malloc_usable_size(hide(block))); break;
  }
  dprintf(1, "survived\n");
}

TEST(DoubleFree, ThroughEveryCallThatFreesIsSeenWhenHardened) {
  for (long call = 0; call <= 6; ++call) {
    const Outcome outcome = run_scenario("EveryCallAfterFree", call, {"FREEWAY_HARDEN=1"});
    EXPECT_TRUE(outcome.aborted()) << call << "\n" << outcome.err;
    EXPECT_EQ(outcome.out.find("survived"), std::string::npos);
    const char* kind = call < 4    ? "double free"
                       : call == 6 ? "malloc_usable_size of a freed pointer"
                                   : "realloc of a freed pointer";
    expect_report(outcome, {kind});
  }
}

#if __has_include(<sys/rseq.h>)
// A thread that is not registered for rseq any more has no CPU's slab: its blocks are in its spare one.
FREEWAY_SCENARIO(WithoutRegistration) {
  free(hide(malloc(200)));
  auto* const area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  for (const unsigned bytes : {32u, __rseq_size})
    if (syscall(SYS_rseq, area, bytes, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0) break;
  void* block = hide(malloc(200));
  void* other = hide(malloc(200));
  require(other != nullptr, "malloc");
  announce(block);
  free(block);
  if (argument == 0) hide(realloc(hide(block), 190));
  if (argument == 1) hide(realloc(hide(block), 5000));
  if (argument == 2) hide(malloc_usable_size(hide(block)));
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfTheLastBlockIsSeenByReallocInAThreadThatIsNotRegistered) {
  for (long call = 0; call < 3; ++call) {
    const Outcome outcome = run_scenario("WithoutRegistration", call);
    EXPECT_TRUE(outcome.aborted()) << call << "\n" << outcome.err;
    EXPECT_EQ(outcome.out.find("survived"), std::string::npos) << call;
    expect_report(outcome, {call == 2 ? "malloc_usable_size of a freed pointer" : "realloc of a freed pointer"});
  }
}
#endif

// `argument` % 10: what lies between the two frees; / 10: the size. Blocks go back to their superblocks from the top of
// a full magazine, so the magazine is filled first.
FREEWAY_SCENARIO(SmallTwiceThenManyFrees) {
  const auto size = static_cast<size_t>(argument / 10);
  const long between = argument % 10;
  allocate_others(size);
  void* block = hide(malloc(size));
  announce(block);
  int freed = 0;
  while (freed < kOthers / 2) free(others[freed++]);
  free(block);
  for (long i = 0; i < between; ++i) free(others[freed++]);
  free(hide(block));
  while (freed < kOthers) free(others[freed++]);
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfASmallBlockIsSeenAtLatestWhenItsBatchGoesBack) {
  for (const long size : {16, 48, 200, 1024, 4000}) {
    for (const long between : {1, 5}) {  // 0: seen at once, or after a migration here
      const Outcome outcome = run_scenario("SmallTwiceThenManyFrees", size * 10 + between);
      EXPECT_TRUE(outcome.aborted()) << size << " " << between << "\n" << outcome.out << outcome.err;
      EXPECT_EQ(outcome.out.find("survived"), std::string::npos) << size << " " << between;
      expect_report(outcome, {"double free"}, When::kBatchReturned);
    }
  }
}

// Trimming sends everything back, so it finds what no flush has reached: `argument` / 100 the size, % 100 the number of
// frees in between.
FREEWAY_SCENARIO(SmallTwiceThenTrim) {
  const auto size = static_cast<size_t>(argument / 100);
  void* block = hide(malloc(size));
  void* between[100];
  for (void*& each : between) each = hide(malloc(size));
  announce(block);
  free(block);
  for (long i = 0; i < argument % 100; ++i) free(between[i]);
  free(hide(block));
  malloc_trim(0);
  dprintf(1, "survived\n");
}

TEST(DoubleFree, OfASmallBlockIsSeenByTrimming) {
  for (const long size : {1, 16, 48, 200, 1024, 4000, 32768}) {
    for (const long between : {1, 99}) {
      const Outcome outcome = run_scenario("SmallTwiceThenTrim", size * 100 + between);
      EXPECT_TRUE(outcome.aborted()) << size << " " << between << "\n" << outcome.out << outcome.err;
      expect_report(outcome, {"double free"}, When::kBatchReturned);
    }
  }
}

FREEWAY_SCENARIO(ReportedDoubleFreeDoesNotHandOutTwice) {
  static void* blocks[64];
  for (void*& each : blocks) each = hide(malloc(64));
  for (int i = 0; i < 64; i += 2) {
    free(hide(blocks[i]));
    free(hide(blocks[i]));
  }
  std::set<void*> seen;
  for (int i = 1; i < 64; i += 2) seen.insert(blocks[i]);
  for (int i = 0; i < 5000; ++i) require(seen.insert(hide(malloc(64))).second, "a block was handed out twice");
  dprintf(1, "survived\n");
}

TEST(DoubleFree, ReportedOneIsNotHandedOutTwice) {
  const Outcome outcome =
      run_scenario("ReportedDoubleFreeDoesNotHandOutTwice", 0, {"FREEWAY_HARDEN=1", "FREEWAY_ON_ERROR=report"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.reports().size(), 32u) << outcome.err;
}

FREEWAY_SCENARIO(HardenedHeapIsAHeap) {
  static void* blocks[5000];
  std::set<void*> seen;
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 5000; ++i) {
      const auto size = static_cast<size_t>(1 + (i * 7919 + round * 31) % 4000);
      blocks[i] = hide(malloc(size));
      require(blocks[i] != nullptr, "malloc");
      fill(blocks[i], size, unsigned(i));
    }
    for (int i = 0; i < 5000; ++i) {
      const auto size = static_cast<size_t>(1 + (i * 7919 + round * 31) % 4000);
      require(holds(blocks[i], size, unsigned(i)), "contents");
      free(blocks[i]);
    }
  }
}

TEST(Harden, CorrectProgramsRunWithoutAWord) {
  const Outcome outcome = run_scenario("HardenedHeapIsAHeap", 0, {"FREEWAY_HARDEN=1"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.signal << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

FREEWAY_SCENARIO(PrintsOrderOfBlocks) {
  // How often the next block lies right behind the one before.
  int in_order = 0;
  char* last = static_cast<char*>(hide(malloc(64)));
  for (int i = 0; i < 500; ++i) {
    char* next = static_cast<char*>(hide(malloc(64)));
    if (next == last + 64) ++in_order;
    last = next;
  }
  dprintf(1, "%d", in_order);
}

TEST(Harden, HandsBlocksOutInRandomOrder) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_HARDEN is the flagship's";
  const int hardened = atoi(run_scenario("PrintsOrderOfBlocks", 0, {"FREEWAY_HARDEN=1"}).out.c_str());
  EXPECT_LE(hardened, 100) << "of 500 blocks so many lay right behind the one before";
}

}  // namespace
}  // namespace freeway::test
