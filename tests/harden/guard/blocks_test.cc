// SPDX-License-Identifier: MIT
//
// blocks_test.cc: guarded blocks are blocks: contents, sizes, alignment, threads, handlers; and there are always
// others.
#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "guard_test.h"

namespace freeway::test {
namespace {

FREEWAY_SCENARIO(UsesBlocks) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{100}, size_t{1000}, size_t{4096}}) {
    auto* block = static_cast<unsigned char*>(hide(calloc(1, size)));
    require(is_guarded(block) && reinterpret_cast<uintptr_t>(block) % 16 == 0, "a guarded block");
    require(malloc_usable_size(block) == (size == 0 ? 1 : size), "its size");
    for (size_t i = 0; i < size; ++i) require(block[i] == 0, "calloc's zeros");
    for (size_t i = 0; i < size; ++i) block[i] = static_cast<unsigned char>(i * 7);
    for (size_t larger : {size + 1, 2 * size + 100, size / 2 + 1}) {
      auto* other = static_cast<unsigned char*>(hide(realloc(block, larger)));
      require(other != nullptr && malloc_usable_size(other) >= larger, "realloc");
      for (size_t i = 0; i < std::min(std::min(size, larger), size / 2 + 1); ++i)
        require(other[i] == static_cast<unsigned char>(i * 7), "what realloc keeps");
      block = other;
    }
    free(block);
  }
  for (size_t alignment = 16; alignment <= 65536; alignment *= 2)
    for (size_t size : {size_t{1}, alignment, alignment + 1, size_t{3000}}) {
      void* block = nullptr;
      require(posix_memalign(&block, alignment, size) == 0, "posix_memalign");
      require(reinterpret_cast<uintptr_t>(block) % alignment == 0, "its alignment");
      memset(block, 1, size);
      free(block);
    }
  require(freeway_audit(nullptr, 0) == 0, "a heap that adds up");
}
TEST(GuardedBlocks, HaveWhatEveryBlockHas) {
  const Outcome outcome = run_guarded("UsesBlocks");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(run_scenario("UsesBlocks", 0, {"FREEWAY_GUARD=1", "FREEWAY_HARDEN=1"}).succeeded());
}

FREEWAY_SCENARIO(UsesThemUp) {
  constexpr int kBlocks = 1000;
  static char* blocks[kBlocks];
  for (int round = 0; round < 3; ++round) {
    int guarded = 0;
    for (char*& block : blocks) {
      block = static_cast<char*>(hide(malloc(100)));
      require(block != nullptr, "malloc");
      memset(block, round, 100);
      guarded += is_guarded(block);
    }
    freeway_stats_t stats;
    freeway_stats(&stats, sizeof(stats));
    require(stats.guarded_blocks >= static_cast<size_t>(guarded), "they are counted");
    require(stats.guarded_blocks <= 192, "some slots always rest");
    if (round == 0) require(guarded >= 100, "many are guarded, the rest are not");
    for (char* block : blocks) {
      for (int i = 0; i < 100; ++i) require(block[i] == round, "contents");
      free(block);
    }
  }
  require(freeway_audit(nullptr, 0) == 0, "a heap that adds up");
}
TEST(GuardedBlocks, WhereNoSlotIsLeftBlocksAreOrdinary) {
  const Outcome outcome = run_guarded("UsesThemUp");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// Fills, checks and frees blocks of many sizes; `tag` tells one user from another.
void churn(unsigned tag, int rounds) {
  unsigned char* blocks[24] = {};
  size_t sizes[24] = {};
  unsigned random = tag;
  for (int i = 0; i < rounds; ++i) {
    random = random * 1664525 + 1013904223;
    const unsigned at = random >> 8 & 15;
    for (size_t k = 0; k < sizes[at]; ++k) require(blocks[at][k] == static_cast<unsigned char>(tag + at), "contents");
    free(blocks[at]);
    sizes[at] = random >> 16 & 2047;
    blocks[at] = static_cast<unsigned char*>(malloc(sizes[at]));
    require(blocks[at] != nullptr, "malloc");
    memset(blocks[at], static_cast<int>(tag + at), sizes[at]);
  }
  for (unsigned char* block : blocks) free(block);
}

FREEWAY_SCENARIO(Threads) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) threads.emplace_back([t] { churn(t * 20, 4000); });
  for (std::thread& each : threads) each.join();
  require(freeway_audit(nullptr, 0) == 0, "a heap that adds up");
}
TEST(GuardedBlocks, ThreadsDoNotGetEachOthers) {
  for (const char* guard : {"FREEWAY_GUARD=1", "FREEWAY_GUARD=3"})
    for (const char* harden : {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"}) {
      const Outcome outcome = run_scenario("Threads", 0, {guard, harden});
      EXPECT_TRUE(outcome.succeeded()) << guard << " " << harden << "\n" << outcome.err;
      EXPECT_EQ(outcome.err, "");
    }
}

FREEWAY_SCENARIO(Storm) {
  static std::atomic<bool> over{false};
  struct sigaction action = {};
  action.sa_handler = [](int) { churn(99, 20); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t stormed = pthread_self();
  std::thread sender([stormed] {
    while (!over) pthread_kill(stormed, SIGUSR1), usleep(100);
  });
  churn(1, 5000);
  over = true;
  sender.join();
}
TEST(GuardedBlocks, HandlersMayComeAtAnyMoment) {
  const Outcome outcome = run_scenario("Storm", 0, {"FREEWAY_GUARD=1", "FREEWAY_HARDEN=1"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

FREEWAY_SCENARIO(CountsThem) {
  freeway_stats_t before, after;
  freeway_stats(&before, sizeof(before));
  char* block = guarded_block(1000, At::kEnd);
  freeway_stats(&after, sizeof(after));
  require(after.guarded >= before.guarded + 1000 && after.guarded_blocks > before.guarded_blocks, "it is counted");
  require(after.live >= after.guarded && after.live_blocks >= after.guarded_blocks, "as live");
  free(block);
}
TEST(GuardedBlocks, AreInTheStatistics) {
  const Outcome outcome = run_scenario("CountsThem", 0, {"FREEWAY_GUARD=1", "FREEWAY_STATS=1"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "  guarded ")) << outcome.err;
}

FREEWAY_SCENARIO(GuardsNothing) {
  for (int i = 0; i < 5000; ++i) require(!is_guarded(hide(malloc(64))), "nothing is guarded");
}
TEST(GuardedBlocks, ThereAreNoneUnlessAskedFor) {
  EXPECT_TRUE(run_scenario("GuardsNothing").succeeded());
  EXPECT_TRUE(run_scenario("GuardsNothing", 0, {"FREEWAY_GUARD=0"}).succeeded());
}

}  // namespace
}  // namespace freeway::test
