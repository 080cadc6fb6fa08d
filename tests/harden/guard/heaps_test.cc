// SPDX-License-Identifier: MIT
//
// heaps_test.cc: guarded blocks of heaps that the program makes: their faults, their figures, and the end of their heap
// beside others' calls.
#include <freeway/heap.h>

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "guard_test.h"

namespace freeway::test {
namespace {

freeway_heap_t new_heap(size_t limit = 0) {
  const freeway_heap_options_t options = {"guarded", limit};
  const freeway_heap_t heap = freeway_heap_new(&options, sizeof(options));
  require(heap != nullptr, "a heap");
  return heap;
}
freeway_heap_stats_t stats_of(freeway_heap_t heap) {
  freeway_heap_stats_t stats;
  require(freeway_heap_stats(heap, &stats, sizeof(stats)) == 0, "its figures");
  return stats;
}
// A guarded block of the heap that ends where its page does. Others are kept.
__attribute__((noinline)) char* block_of(freeway_heap_t heap, size_t size) {
  for (int i = 0; i < 150; ++i) {
    char* block = static_cast<char*>(hide(freeway_heap_malloc(heap, size)));
    require(block != nullptr, "a block");
    if (is_guarded(block) && reinterpret_cast<uintptr_t>(block) % page_bytes() != 0) return block;
  }
  require(false, "a guarded block");
  return nullptr;
}

FREEWAY_SCENARIO(WritesPastTheEndInAHeap) {
  char* block = block_of(new_heap(), 64);
  announce(block);
  *hide(block + 64) = 1;
}
TEST(GuardedHeaps, AnOverflowNamesTheCallerInTheProgram) {
  const Outcome outcome = run_guarded("WritesPastTheEndInAHeap");
  expect_explained(outcome, SIGSEGV,
                   {"freeway: overflow: a write at ", ", 1 byte past the end of a block of 64 at ", "allocated by 0x"});
  unsigned long block = 0, begin = 0, end = 0, caller = 0;
  ASSERT_EQ(sscanf(outcome.out.c_str(), "pointer %lx code %lx %lx", &block, &begin, &end), 3) << outcome.out;
  const char* by = strstr(outcome.err.c_str(), "allocated by ");
  ASSERT_TRUE(by != nullptr && sscanf(by, "allocated by %lx", &caller) == 1) << outcome.err;
  EXPECT_TRUE(caller > begin && caller < end) << outcome.out << outcome.err;
}

enum End : long { kFree, kRealloc, kDestroy };
FREEWAY_SCENARIO(UsesAfterTheEndInAHeap) {
  const freeway_heap_t heap = new_heap();
  char* block = block_of(heap, 200);
  if (argument == kFree) free(block);
  if (argument == kRealloc) require(freeway_heap_realloc(heap, block, 0) == nullptr, "a free");
  if (argument == kDestroy) require(freeway_heap_destroy(heap) == 0, "destroy");
  *hide(block + 7) = 1;
  dprintf(1, "survived");
}
TEST(GuardedHeaps, AUseAfterFreeOrDestroyIsExplained) {
  for (const long end : {kFree, kRealloc, kDestroy}) {
    const Outcome outcome = run_guarded("UsesAfterTheEndInAHeap", end);
    expect_explained(outcome, SIGSEGV,
                     {"use after free: a write at ", "7 bytes inside a block of 200 at ", "freed by 0x"});
    EXPECT_EQ(outcome.out, "");
  }
}

FREEWAY_SCENARIO(FreesTwiceInAHeap) {
  const freeway_heap_t heap = new_heap();
  void* block = block_of(heap, 48);
  if (argument == kFree) free(block);
  if (argument == kDestroy) require(freeway_heap_destroy(heap) == 0, "destroy");
  free(hide(block));
}
FREEWAY_SCENARIO(ResizesAfterFreeInAHeap) {
  const freeway_heap_t heap = new_heap();
  void* block = block_of(heap, 48);
  free(block);
  hide(argument == 0 ? realloc(hide(block), 1000) : freeway_heap_realloc(heap, hide(block), 1000));
}
TEST(GuardedHeaps, SecondFreesAreNamed) {
  for (const long end : {kFree, kDestroy})
    expect_explained(run_guarded("FreesTwiceInAHeap", end), SIGABRT,
                     {"freeway: double free of 0x", "allocated by 0x", "freed by 0x"});
  for (const long own : {0L, 1L})
    expect_explained(run_guarded("ResizesAfterFreeInAHeap", own), SIGABRT, {"realloc of a freed pointer 0x"});
}

FREEWAY_SCENARIO(OverrunsByOneInAHeap) {
  const freeway_heap_t heap = new_heap();
  char* block = block_of(heap, 60);
  *hide(block + 60) = 1;
  if (argument == kFree) free(block);
  if (argument == kDestroy) freeway_heap_destroy(heap);
}
TEST(GuardedHeaps, BytesPastTheEndAreLookedAtWhenTheyAreFreedOrTheirHeapEnds) {
  for (const long end : {kFree, kDestroy})
    expect_explained(run_guarded("OverrunsByOneInAHeap", end), SIGABRT,
                     {"freeway: overflow: the bytes past the end of 0x"});
}

FREEWAY_SCENARIO(ResizesInAHeap) {
  const freeway_heap_t heap = new_heap(), other = new_heap();
  for (const size_t size : {size_t{50}, size_t{3000}, size_t{100000}, size_t{20}}) {
    auto* block = reinterpret_cast<unsigned char*>(block_of(heap, 100));
    memset(block, 7, 100);
    const size_t before = stats_of(heap).live_blocks;
    require(freeway_heap_realloc(other, block, size) == nullptr && errno == EINVAL, "another heap refuses it");
    auto* moved = static_cast<unsigned char*>(
        hide(size % 100 == 0 ? realloc(block, size) : freeway_heap_realloc(heap, block, size)));
    require(moved != nullptr && malloc_usable_size(moved) >= size, "realloc");
    for (size_t i = 0; i < std::min(size, size_t{100}); ++i) require(moved[i] == 7, "what realloc keeps");
    require(stats_of(heap).live_blocks == before, "it stays in its heap");
    free(moved);
    require(stats_of(heap).live_blocks == before - 1, "it was the heap's");
  }
  require(freeway_heap_destroy(heap) == 0 && freeway_heap_destroy(other) == 0, "destroy");
  require(freeway_audit(nullptr, 0) == 0, "a heap that adds up");
}
TEST(GuardedHeaps, ReallocKeepsContentsAndHeap) {
  for (const char* harden : {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"}) {
    const Outcome outcome = run_scenario("ResizesInAHeap", 0, {"FREEWAY_GUARD=1", harden});
    EXPECT_TRUE(outcome.succeeded()) << harden << "\n" << outcome.err;
  }
}

FREEWAY_SCENARIO(ResizesWhereAHeapHasBeen) {
  const freeway_heap_t heap = new_heap();
  for (int i = 0; i < 300; ++i) require(freeway_heap_malloc(heap, 100) != nullptr, "a block");
  require(freeway_heap_destroy(heap) == 0, "destroy");
  for (int i = 0; i < 300; ++i) {
    void* block = hide(malloc(100));
    require(is_guarded(block), "a guarded block");
    block = hide(realloc(block, 200));
    require(block != nullptr, "realloc");
    free(block);
  }
}
TEST(GuardedHeaps, MallocsBlocksFollowInTheirSlots) {
  const Outcome outcome = run_guarded("ResizesWhereAHeapHasBeen");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

FREEWAY_SCENARIO(CountsThemInAHeap) {
  const freeway_heap_t heap = new_heap(64 << 10), other = new_heap();
  freeway_stats_t before, after;
  freeway_stats(&before, sizeof(before));
  for (size_t i = 0; i < 100; ++i) {
    auto* block = static_cast<unsigned char*>(freeway_heap_calloc(heap, 1, 4000));
    require(block != nullptr && is_guarded(block), "a guarded block, which no limit counts");
    for (size_t k = 0; k < 4000; ++k) require(block[k] == 0, "calloc's zeros");
  }
  const freeway_heap_stats_t stats = stats_of(heap);
  require(stats.live_blocks == 100 && stats.live == 100 * 4000 && stats.held == 0, "its figures");
  require(stats_of(other).live_blocks == 0, "the other's figures");
  freeway_stats(&after, sizeof(after));
  require(after.guarded_blocks == before.guarded_blocks + 100, "all guarded blocks");
  require(freeway_heap_destroy(heap) == 0, "destroy");
  freeway_stats(&after, sizeof(after));
  require(after.guarded_blocks == before.guarded_blocks, "none is left");
  freeway_heap_destroy(other);
}
TEST(GuardedHeaps, AreInTheFiguresAndNotInTheLimit) {
  const Outcome outcome = run_guarded("CountsThemInAHeap");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// Heaps come and go beside each other's blocks, a heap's that stays, and malloc's.
FREEWAY_SCENARIO(HeapsComeAndGo) {
  const freeway_heap_t common = new_heap();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([common, t] {
      for (int round = 0; round < 300; ++round) {
        const freeway_heap_t mine = new_heap();
        unsigned char* blocks[12];
        for (int i = 0; i < 12; ++i) {
          void* block = i % 3 == 0 ? malloc(100) : freeway_heap_malloc(i % 3 == 1 ? common : mine, 100);
          require(block != nullptr, "a block");
          blocks[i] = static_cast<unsigned char*>(memset(block, t * 12 + i, 100));
        }
        for (int i = 0; i < 12; ++i)
          for (int k = 0; k < 100; ++k) require(blocks[i][k] == t * 12 + i, "contents");
        free(blocks[2]);
        require(freeway_heap_destroy(mine) == 0, "destroy");
        for (int i = 0; i < 12; ++i) {
          if (i % 3 == 2) continue;
          for (int k = 0; k < 100; ++k) require(blocks[i][k] == t * 12 + i, "contents of others");
          free(blocks[i]);
        }
      }
    });
  for (std::thread& each : threads) each.join();
  require(stats_of(common).live_blocks == 0, "nothing is left");
  require(freeway_audit(nullptr, 0) == 0, "a heap that adds up");
}
TEST(GuardedHeaps, EndBesideOthersBlocks) {
  for (const char* guard : {"FREEWAY_GUARD=1", "FREEWAY_GUARD=3"})
    for (const char* harden : {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1"}) {
      const Outcome outcome = run_scenario("HeapsComeAndGo", 0, {guard, harden});
      EXPECT_TRUE(outcome.succeeded()) << guard << " " << harden << "\n" << outcome.err;
      EXPECT_EQ(outcome.err, "");
    }
}

// Blocks of a heap of its own and of malloc, until the heap is destroyed.
void use_a_heap(int fill, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    const freeway_heap_t heap = new_heap();
    auto* kept = static_cast<unsigned char*>(malloc(100));
    require(kept != nullptr, "malloc");
    memset(kept, fill, 100);
    for (int i = 0; i < 8; ++i) {
      auto* block = static_cast<unsigned char*>(freeway_heap_malloc(heap, 100));
      require(block != nullptr, "a block");
      memset(block, fill + 1, 100);
      if (i % 2 != 0) continue;
      for (int k = 0; k < 100; ++k) require(block[k] == fill + 1, "contents");
      free(block);
    }
    require(stats_of(heap).live_blocks == 4, "its figures");
    require(freeway_heap_destroy(heap) == 0, "destroy");
    for (int k = 0; k < 100; ++k) require(kept[k] == fill, "contents of malloc's");
    free(kept);
  }
}

FREEWAY_SCENARIO(HeapsInHandlers) {
  static std::atomic<bool> over{false};
  struct sigaction action = {};
  action.sa_handler = [](int) { use_a_heap(99, 1); };
  action.sa_flags = SA_RESTART;
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t stormed = pthread_self();
  std::thread sender([stormed] {
    while (!over) pthread_kill(stormed, SIGUSR1), usleep(100);
  });
  use_a_heap(1, 1000);
  over = true;
  sender.join();
}
FREEWAY_SCENARIO(HeapsInAChild) {
  const freeway_heap_t heap = new_heap();
  char* block = block_of(heap, 200);
  memset(block, 5, 200);
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    require(block[199] == 5 && freeway_heap_destroy(heap) == 0, "the child has its parent's heap, and ends it");
    use_a_heap(1, 20);
    _exit(0);
  }
  int status = 0;
  require(waitpid(child, &status, 0) == child && status == 0, "the child");
  for (int i = 0; i < 200; ++i) require(block[i] == 5, "contents in the parent");
  free(block);
  require(freeway_heap_destroy(heap) == 0, "destroy");
}
TEST(GuardedHeaps, ComeAndGoInHandlersAndChildren) {
  for (const char* name : {"HeapsInHandlers", "HeapsInAChild"}) {
    const Outcome outcome = run_guarded(name);
    EXPECT_TRUE(outcome.succeeded()) << name << outcome.err;
    EXPECT_EQ(outcome.err, "");
  }
}

FREEWAY_SCENARIO(GuardsNothingInAHeap) {
  const freeway_heap_t heap = new_heap();
  for (int i = 0; i < 2000; ++i) require(!is_guarded(hide(freeway_heap_malloc(heap, 64))), "nothing is guarded");
  require(!is_guarded(freeway_heap_calloc(heap, 1, 64)) && !is_guarded(freeway_heap_malloc(heap, 4000)), "nothing is");
}
TEST(GuardedHeaps, NothingIsGuardedUnlessAskedFor) { EXPECT_TRUE(run_scenario("GuardsNothingInAHeap").succeeded()); }

}  // namespace
}  // namespace freeway::test
