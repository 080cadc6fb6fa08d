// SPDX-License-Identifier: MIT
//
// heaps_test.cc: blocks of heaps that the program makes (freeway/heap.h) are samples as malloc's are: of every size and
// function, until they are freed or their heap is destroyed, whoever ends it; and the estimates from them are right.
#include <freeway/heap.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/abi/program_heap.h"
#include "tests/profile/dump_reader.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr uint64_t kTag = 91;
constexpr size_t kFrame = 64 * kKiB;

class ProfiledHeap : public testing::Test {
 protected:
  explicit ProfiledHeap(size_t interval = 1) { EXPECT_EQ(freeway_profile_start(interval), 0); }
  ~ProfiledHeap() override { freeway_profile_stop(); }

  Sample live() const { return take_dump().of_tag(kTag) - before_; }

 private:
  Sample before_ = take_dump().of_tag(kTag);
};

// First of a heap of strips, then of one of superblocks.
TEST_F(ProfiledHeap, BlocksOfEverySizeComeAndGo) {
  const freeway_heap_t heap = make_heap();
  std::vector<void*> blocks, others;
  blocks.reserve(std::size(kInterestingSizes));
  for (int round = 0; round < 2; ++round) {
    uint64_t bytes = 0;
    const Sample before = live();
    for (const size_t size : kInterestingSizes) {
      Tagged tagged(kTag);
      blocks.push_back(hide(freeway_heap_malloc(heap, size)));
      bytes += size;
    }
    EXPECT_EQ(live().live - before.live, blocks.size());
    EXPECT_EQ(live().live_bytes - before.live_bytes, bytes) << "what was asked for counts";
    EXPECT_EQ(stats_of(heap).live_blocks, blocks.size() + others.size());
    size_t number = 0;
    for (void* block : blocks) {
      const size_t size = kInterestingSizes[number++];
      EXPECT_GE(malloc_usable_size(block), size);
      memset(block, static_cast<int>(number), size);
      freeway_explanation_t found;
      freeway_explain(block, &found, sizeof found);
      EXPECT_EQ(found.state, FREEWAY_LIVE);
    }
    number = 0;
    for (void* block : blocks) {
      const size_t size = kInterestingSizes[number++];
      for (size_t i = 0; i < size; i += 61) ASSERT_EQ(static_cast<unsigned char*>(block)[i], number) << size;
      free(block);
    }
    EXPECT_EQ(live().live, 0u);
    EXPECT_EQ(live().live_bytes, 0u);
    EXPECT_EQ(stats_of(heap).live_blocks, others.size());
    blocks.clear();
    if (round == 1) break;
    freeway_profile_stop();  // blocks that are none
    for (size_t i = 0; i < 40'000; ++i) others.push_back(freeway_heap_malloc(heap, 1 + i % 3000));
    EXPECT_EQ(freeway_profile_start(1), 0);
  }
  for (void* block : others) free(block);
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  freeway_heap_trim(heap);
  EXPECT_EQ(stats_of(heap).held, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

TEST_F(ProfiledHeap, EveryFunctionThatGivesBlocks) {
  const freeway_heap_t heap = make_heap();
  for (const size_t size : {size_t{100}, size_t{5000}, size_t{20'000}, size_t{100'000}}) {
    void* blocks[5] = {};
    {
      Tagged tagged(kTag);
      blocks[0] = hide(freeway_heap_malloc(heap, size));
      blocks[1] = hide(freeway_heap_calloc(heap, size / 4, 4));
      blocks[2] = hide(freeway_heap_realloc(heap, nullptr, size));
      blocks[3] = hide(freeway_heap_aligned_alloc(heap, 64, size));
      blocks[4] = hide(freeway_heap_aligned_alloc(heap, 16384, size));
    }
    EXPECT_EQ(live().live, 5u) << size;
    EXPECT_EQ(live().live_bytes, 5 * size);
    EXPECT_TRUE(is_aligned(blocks[3], 64) && is_aligned(blocks[4], 16384));
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(static_cast<char*>(blocks[1])[i], 0);
    {
      Tagged tagged(kTag);
      blocks[2] = hide(freeway_heap_realloc(heap, blocks[2], 3 * size));
      blocks[0] = hide(realloc(blocks[0], 3 * size));
    }
    EXPECT_EQ(live().live, 5u) << size;
    EXPECT_EQ(live().live_bytes, 9 * size);
    EXPECT_EQ(stats_of(heap).live_blocks, 5u);
    for (void* block : blocks) free(block);
    EXPECT_EQ(live().live, 0u);
  }
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

TEST_F(ProfiledHeap, TheEndOfAHeapIsThatOfItsSamples) {
  for (int round = 0; round < 3; ++round) {
    const freeway_heap_t heap = make_heap(), other = make_heap();
    {
      Tagged tagged(kTag);
      for (size_t i = 0; i < 3000; ++i)
        if (hide(freeway_heap_malloc(heap, i % 20 == 0 ? 10 * i : 1 + i % 700)) == nullptr) FAIL();
      EXPECT_NE(hide(freeway_heap_malloc(other, 300)), nullptr);
    }
    EXPECT_EQ(live().live, 3001u);
    EXPECT_EQ(freeway_heap_destroy(heap), 0);
    EXPECT_EQ(live().live, 1u);
    EXPECT_EQ(freeway_heap_destroy(other), 0);
    EXPECT_EQ(live().live, 0u);
    EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
  }
}

// Where a limit leaves no room for what follows a sample, there is none; the block is there.
TEST_F(ProfiledHeap, NoCallFailsForWantOfRoomForSamples) {
  for (const size_t frames : {1, 2, 20}) {
    const freeway_heap_t heap = make_heap(frames * kFrame);
    for (const size_t size : {size_t{48}, size_t{1000}, size_t{7000}, size_t{30'000}}) {
      std::vector<void*> blocks;
      blocks.reserve(100'000);
      while (void* block = hide(freeway_heap_malloc(heap, size))) blocks.push_back(block);
      EXPECT_GT(blocks.size() * size, frames * kFrame / 3) << frames << " frames, blocks of " << size;
      for (void* block : blocks) free(block);
      freeway_heap_trim(heap);
      EXPECT_EQ(stats_of(heap).held, 0u);
    }
    EXPECT_EQ(freeway_heap_destroy(heap), 0);
  }
}

TEST_F(ProfiledHeap, ThreadsFreeEachOthersSamples) {
  const freeway_heap_t heap = make_heap();
  std::atomic<void*> shelves[32] = {};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      Tagged tagged(kTag);
      Random random(test_seed() + t);
      for (int i = 0; i < 4000; ++i) {
        const size_t size = random.chance(3) ? 40'000 : 1 + random.below(2000);
        free(shelves[random.below(32)].exchange(freeway_heap_malloc(heap, size)));
        if (random.chance(1)) freeway_trim(0);
      }
    });
  for (std::thread& each : threads) each.join();
  uint64_t left = 0;
  for (auto& shelf : shelves) left += shelf.load() != nullptr;
  EXPECT_EQ(live().live, left);
  EXPECT_EQ(stats_of(heap).live_blocks, left);
  for (auto& shelf : shelves) free(shelf.load());
  EXPECT_EQ(live().live, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
}

TEST_F(ProfiledHeap, AChildOfAForkFreesSamples) {
  const freeway_heap_t heap = make_heap();
  void* block;
  {
    Tagged tagged(kTag);
    block = hide(freeway_heap_malloc(heap, 100));
    EXPECT_NE(hide(freeway_heap_malloc(heap, 200)), nullptr);
  }
  const pid_t child = fork();
  if (child == 0) {
    free(block);
    if (live().live != 1) _exit(1);
    if (freeway_heap_destroy(heap) != 0 || live().live != 0) _exit(2);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(live().live, 2u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

// A sample in 4 KiB: the number of samples is within five standard deviations of its expectation.
class SampledHeap : public ProfiledHeap {
 protected:
  static constexpr size_t kInterval = 4096;
  SampledHeap() : ProfiledHeap(kInterval) {}
};

TEST_F(SampledHeap, EstimatesAreRight) {
  constexpr size_t kCount = 60'000;
  for (const size_t size : {size_t{40}, size_t{700}, size_t{6000}}) {
    const size_t count = size > 1000 ? kCount / 10 : kCount;
    const freeway_heap_t heap = make_heap();
    const Sample before = live();
    {
      Tagged tagged(kTag);
      for (size_t i = 0; i < count; ++i)
        if (hide(freeway_heap_malloc(heap, size)) == nullptr) FAIL();
    }
    const double share = 1 - std::exp(-static_cast<double>(size) / kInterval);
    const double expected = share * static_cast<double>(count), deviation = std::sqrt(expected * (1 - share));
    EXPECT_NEAR(static_cast<double>(live().live - before.live), expected, 5 * deviation + 1) << size;
    EXPECT_LT(stats_of(heap).held, 2 * count * (size + 64) + (2 << 20)) << "samples take little";
    EXPECT_EQ(freeway_heap_destroy(heap), 0);
    EXPECT_EQ(live().live, 0u);
  }
}

}  // namespace
}  // namespace freeway::test
