// SPDX-License-Identifier: MIT
//
// large_test.cc: FREEWAY_GUARD=0,large: what a program sees of the inaccessible page that ends each large block. (Each
// way that blocks are resized, moved and refused: tests/pages/large_guarded_test.cc.)
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>
#include <vector>

#include "guard_test.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr size_t kFrame = 64 * kKiB;

Outcome run_with_ends(const std::string& name, long argument = 0) {
  return run_scenario(name, argument, {"FREEWAY_GUARD=0,large"});
}

char* large_block(size_t size) {
  char* block = static_cast<char*>(hide(malloc(size)));
  require(block != nullptr, "a large block");
  return block;
}

// Whether a byte can be read, without touching it.
bool can_read(const void* address) {
  static int ends[2] = {-1, -1};
  if (ends[0] < 0) require(pipe(ends) == 0, "a pipe");
  char byte;
  if (write(ends[1], address, 1) != 1) return false;
  return read(ends[0], &byte, 1) == 1;
}

// All of the block can be used, and the page behind it cannot.
void require_guarded(const char* block, size_t size) {
  const size_t usable = malloc_usable_size(const_cast<char*>(block));
  require(usable >= size && (usable + page_bytes() + reinterpret_cast<uintptr_t>(block)) % kFrame == 0, "its size");
  require(can_read(block) && can_read(block + usable - 1), "what can be read");
  require(!can_read(block + usable) && !can_read(block + usable + page_bytes() - 1), "what cannot");
}

// Mappings of this process.
size_t mappings() {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  size_t lines = 0;
  char text[4096];
  for (ssize_t got; (got = read(fd, text, sizeof text)) > 0;)
    for (ssize_t i = 0; i < got; ++i) lines += text[i] == '\n';
  close(fd);
  return lines;
}

void require_sound() { require(freeway_audit(nullptr, 0) == 0, "an audit without errors"); }

FREEWAY_SCENARIO(WritesBehindALargeBlock) {
  char* block = large_block(100 * kKiB);
  announce(block);
  const size_t usable = malloc_usable_size(block);
  memset(block, 1, usable);
  if (argument > 0) *hide(block + usable - 1 + argument) = 1;
  dprintf(1, "survived");
}
TEST(GuardLarge, AWriteBehindABlockFaults) {
  for (const long distance : {1L, static_cast<long>(page_bytes())}) {
    const Outcome outcome = run_with_ends("WritesBehindALargeBlock", distance);
    EXPECT_EQ(outcome.signal, SIGSEGV) << distance;
    EXPECT_EQ(outcome.err, "");
  }
  const Outcome outcome = run_with_ends("WritesBehindALargeBlock", 0);
  EXPECT_TRUE(outcome.succeeded()) << "all that is usable can be used: " << outcome.err;
}
TEST(GuardLarge, WithoutTheOptionNothingFaults) {
  EXPECT_TRUE(run_scenario("WritesBehindALargeBlock", 0).succeeded());
  EXPECT_TRUE(run_scenario("BlocksEndWhereTheirFramesDo", 0).succeeded());
}
FREEWAY_SCENARIO(BlocksEndWhereTheirFramesDo) {
  for (const size_t size : {kFrame, 100 * kKiB, 3 * kMiB}) {
    char* block = large_block(size);
    require((reinterpret_cast<uintptr_t>(block) + malloc_usable_size(block)) % kFrame == 0, "no page is left");
    free(block);
  }
}
TEST(GuardLarge, WithGuardedSamplesTheFaultIsExplained) {
  if (!on_flagship()) GTEST_SKIP() << "FREEWAY_GUARD is the flagship's";
  const Outcome outcome = run_scenario("WritesBehindALargeBlock", 5, {"FREEWAY_GUARD=1000000000,large"});
  unsigned long block = 0;
  ASSERT_EQ(sscanf(outcome.out.c_str(), "pointer %lx", &block), 1);
  char where[64];
  snprintf(where, sizeof where, "at 0x%lx, by 0x", block);
  expect_explained(outcome, SIGSEGV,
                   {"freeway: overflow: a write at ", ", 5 bytes past the end of a block of ", where});
  EXPECT_EQ(outcome.reports().size(), 1u);
}

FREEWAY_SCENARIO(ExplainsTheGuard) {
  char* block = large_block(200 * kKiB);
  const size_t usable = malloc_usable_size(block);
  freeway_explanation_t found;
  require(freeway_explain(block + usable + 7, &found, sizeof found) == FREEWAY_LARGE_BLOCK, "the block");
  require(found.begin == block && found.size == usable && found.offset == static_cast<ptrdiff_t>(usable + 7),
          "its place");
  freeway_explain_to(1, block + usable);
}
TEST(GuardLarge, FreewayExplainKnowsThePage) {
  const Outcome outcome = run_with_ends("ExplainsTheGuard");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "1 byte past the end of a live large block of ")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "guard page")) << outcome.out;
}

FREEWAY_SCENARIO(EveryFunctionGuards) {
  for (const size_t size : {40 * kKiB, kFrame - page_bytes(), kFrame, 100 * kKiB, 5 * kMiB, 300 * kMiB}) {
    char* block = large_block(size);
    require_guarded(block, size);
    fill_probes(block, size, 1);
    for (const size_t next : {size + 10 * kKiB, 2 * size, 5 * size, size}) {
      block = static_cast<char*>(hide(realloc(block, next)));
      require(block != nullptr && holds_probes(block, size, 1), "realloc keeps what there was");
      require_guarded(block, next);
    }
    free(block);
    block = static_cast<char*>(hide(calloc(3, size / 3 + 1)));
    require(block != nullptr && is_zero(block, size < 5 * kMiB ? size : 5 * kMiB), "calloc's zeros");
    require_guarded(block, size);
    memset(block, 1, size < 5 * kMiB ? size : 5 * kMiB);
    free(block);
    for (const size_t alignment : {size_t{4096}, kFrame, 8 * kMiB}) {
      block = static_cast<char*>(hide(aligned_alloc(alignment, size)));
      require(block != nullptr && is_aligned(block, alignment), "alignment");
      require_guarded(block, size);
      free(block);
    }
  }
  require_sound();
}
TEST(GuardLarge, EveryFunctionGivesBlocksWithAGuard) {
  const Outcome outcome = run_with_ends("EveryFunctionGuards");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

struct Held {
  char* block = nullptr;
  size_t size = 0;
  unsigned tag = 0;
};

// Both ends of each block, and its guard now and then.
void churn(std::uint64_t seed, int steps) {
  Random random(seed);
  Held held[12];
  for (int i = 0; i < steps; ++i) {
    Held& h = held[random.below(12)];
    const size_t size = 33 * kKiB + random.below(random.chance(3) ? 16 * kMiB : 600 * kKiB);
    if (h.block != nullptr) {
      require(holds(h.block, 64, h.tag) && holds(h.block + h.size - 64, 64, h.tag), "contents");
      if (random.chance(5)) require(freeway_explain(h.block + h.size, nullptr, 0) == FREEWAY_LARGE_BLOCK, "its guard");
    }
    if (h.block == nullptr || random.chance(30)) {
      free(h.block);
      h.block = static_cast<char*>(hide(random.chance(30) ? calloc(1, size) : malloc(size)));
    } else if (random.chance(50)) {
      h.block = static_cast<char*>(hide(realloc(h.block, size)));
      require(h.block == nullptr || holds(h.block, 64, h.tag), "contents after realloc");
    } else {
      free(h.block);
      h.block = nullptr;
      if (random.chance(5)) malloc_trim(0);
      continue;
    }
    require(h.block != nullptr, "memory");
    h.size = malloc_usable_size(h.block);
    h.tag = static_cast<unsigned>(i);
    fill(h.block, 64, h.tag);
    fill(h.block + h.size - 64, 64, h.tag);
  }
  for (Held& h : held) free(h.block);
}

size_t large_blocks() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats.large_blocks;
}

FREEWAY_SCENARIO(RandomBlocks) {
  const size_t before = large_blocks();
  const auto seed = static_cast<std::uint64_t>(argument);
  churn(seed, 10'000);
  std::thread others[3];
  for (unsigned i = 0; i < 3; ++i) others[i] = std::thread([=] { churn(seed + i + 1, 3000); });
  for (std::thread& other : others) other.join();
  require_sound();
  require(large_blocks() == before, "no block that is left");
}
TEST(GuardLarge, RandomBlocksKeepContentsAndAnAuditAgrees) {
  const Outcome outcome = run_with_ends("RandomBlocks", static_cast<long>(test_seed() >> 1));
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << "signal " << outcome.signal;
}

FREEWAY_SCENARIO(TakesManyBlocks) {
  constexpr size_t kMost = 8192, kBlocks = kMost + 500;
  const size_t before = mappings();
  std::vector<char*> blocks(kBlocks);
  for (int round = 0; round < 3; ++round) {
    for (char*& block : blocks) *(block = large_block(40 * kKiB)) = 1;
    require(mappings() <= before + 2 * kMost + 50, "two mappings for each guard at most");
    require_guarded(blocks[10], 40 * kKiB);
    require(malloc_usable_size(blocks.back()) % kFrame + page_bytes() != kFrame, "the last ones have none");
    for (char* block : blocks) free(block);
    require(mappings() <= before + 50, "and all are one again afterwards");
  }
  require_sound();
}
TEST(GuardLarge, GuardsUseUpNoMappings) {
  const Outcome outcome = run_with_ends("TakesManyBlocks");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(RunsOutOfMappings) {
  char* first = large_block(100 * kKiB);
  void* pages[70'000];
  size_t count = 0;
  while (count < 70'000) {
    void* at = mmap(nullptr, page_bytes(), count % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) break;
    pages[count++] = at;
  }
  if (count == 70'000) return static_cast<void>(dprintf(1, "skip"));
  char* block = static_cast<char*>(hide(malloc(100 * kKiB)));
  if (block != nullptr) memset(block, 1, malloc_usable_size(block));
  free(first);
  free(block);
  for (int i = 0; i < 50; ++i) {  // what was freed can be used, all of it
    block = static_cast<char*>(hide(malloc(100 * kKiB)));
    require(block != nullptr, "memory that is there");
    memset(block, 1, malloc_usable_size(block));
    free(block);
  }
  while (count > 0) munmap(pages[--count], page_bytes());
  block = large_block(100 * kKiB);
  require_guarded(block, 100 * kKiB);
  require_sound();
}
TEST(GuardLarge, AtTheMappingLimitBlocksHaveNoGuard) {
  const Outcome outcome = run_with_ends("RunsOutOfMappings");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
  if (outcome.out == "skip") GTEST_SKIP() << "mappings are not limited here";
}

// A closed page is not counted by this limit, an open one is: at the limit those of freed blocks stay closed.
FREEWAY_SCENARIO(RunsOutOfData) {
  static char* blocks[2000];
  rlimit limit;
  getrlimit(RLIMIT_DATA, &limit);
  limit.rlim_cur = proc_value("status", "VmData:") * kKiB + 64 * kMiB;
  require(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
  size_t count = 0;
  while (count < 2000 && (blocks[count] = static_cast<char*>(hide(malloc(100 * kKiB)))) != nullptr) ++count;
  require(count > 300 && count < 2000, "memory up to the limit");
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  require_sound();
  for (int i = 0; i < 20; ++i) {  // what can be had can be used
    char* block = static_cast<char*>(hide(malloc(40 * kKiB + static_cast<size_t>(i) * 10 * kKiB)));
    if (block != nullptr) memset(block, 1, malloc_usable_size(block));
    free(block);
  }
  limit.rlim_cur = limit.rlim_max;
  require(setrlimit(RLIMIT_DATA, &limit) == 0, "setrlimit");
  malloc_trim(0);
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  require(stats.large < 2 * kMiB, "all frames are free again");
  require_sound();
}
TEST(GuardLarge, WhatADataLimitKeepsClosedComesBackWithoutIt) {
  const Outcome outcome = run_with_ends("RunsOutOfData");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err << " signal " << outcome.signal;
}

FREEWAY_SCENARIO(Forks) {
  char* block = large_block(100 * kKiB);
  const pid_t pid = fork();
  if (pid == 0) {
    require_guarded(block, 100 * kKiB);
    char* other = large_block(100 * kKiB);
    require_guarded(other, 100 * kKiB);
    free(block);
    churn(7, 500);
    require_sound();
    *hide(other + malloc_usable_size(other)) = 1;
  }
  int status = 0;
  require(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child's fault");
  require_guarded(block, 100 * kKiB);
  free(block);
  require_sound();
}
TEST(GuardLarge, AForkedChildHasTheGuardsAndSetsItsOwn) {
  const Outcome outcome = run_with_ends("Forks");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(Trims) {
  for (int round = 0; round < 3; ++round) {
    char* blocks[50];
    for (char*& block : blocks) {
      block = static_cast<char*>(hide(calloc(1, kMiB)));
      require(block != nullptr && is_zero(block, malloc_usable_size(block)), "zeros");
      memset(block, 1, malloc_usable_size(block));
    }
    const size_t full = anonymous_rss();
    for (char* block : blocks) free(block);
    malloc_trim(0);
    require(anonymous_rss() + 45 * kMiB < full, "memory that goes back");
  }
  require_sound();
}
TEST(GuardLarge, TrimGivesAllOfTheMemoryBack) {
  const Outcome outcome = run_with_ends("Trims");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
