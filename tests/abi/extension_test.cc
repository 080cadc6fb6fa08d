// SPDX-License-Identifier: MIT
//
// extension_test.cc: freeway.h. With the library as the malloc the twins are the standard functions; batches,
// statistics, trimming and the audit are checked against what the test itself did.
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "wanderer.h"

namespace freeway::test {
namespace {

TEST(Version, IsThatOfTheHeader) {
  const std::string header = std::to_string(FREEWAY_VERSION_MAJOR) + "." + std::to_string(FREEWAY_VERSION_MINOR) + "." +
                             std::to_string(FREEWAY_VERSION_PATCH);
  EXPECT_EQ(freeway_version(), header);
}

TEST(Twins, ShareOneHeapWithTheStandardNames) {
  for (const size_t size : kInterestingSizes) {
    void* blocks[] = {freeway_malloc(size),
                      freeway_calloc(1, size),
                      freeway_realloc(nullptr, size),
                      freeway_reallocarray(nullptr, 2, size),
                      freeway_aligned_alloc(64, size),
                      freeway_memalign(256, size),
                      freeway_valloc(size),
                      freeway_pvalloc(size),
                      freeway_alloc_at_least(size).ptr,
                      freeway_aligned_alloc_at_least(32, size).ptr};
    for (void* block : blocks) {
      ASSERT_NE(hide(block), nullptr);
      EXPECT_GE(malloc_usable_size(block), size);
      EXPECT_EQ(freeway_malloc_usable_size(block), malloc_usable_size(block));
      free(block);
    }
    void* block = nullptr;
    ASSERT_EQ(freeway_posix_memalign(&block, 128, size), 0);
    EXPECT_TRUE(is_aligned(block, 128));
    free(block);
    EXPECT_GE(freeway_nallocx(size, 0), size);
    freeway_free(hide(malloc(size)));
    freeway_free_sized(hide(malloc(size)), size);
    freeway_free_aligned_sized(hide(aligned_alloc(64, size)), 64, size);
  }
}

TEST(Twins, RefuseAsTheirNamesakesDo) {
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    EXPECT_EQ(freeway_malloc(size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(freeway_calloc(2, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    errno = 0;
    EXPECT_EQ(freeway_reallocarray(nullptr, 3, size), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    void* untouched = &errno;
    errno = 0;
    EXPECT_EQ(freeway_posix_memalign(&untouched, 64, size), ENOMEM);
    EXPECT_EQ(untouched, &errno);
    EXPECT_EQ(errno, ENOMEM);
  }
  errno = 0;
  EXPECT_EQ(freeway_aligned_alloc(24, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_malloc_usable_size(nullptr), 0u);
  errno = 4242;
  freeway_free(nullptr);
  EXPECT_EQ(errno, 4242);
}

TEST(Batch, GivesSeparateUsableBlocksOfEverySize) {
  for (const size_t size : kInterestingSizes) {
    const size_t count = size < 2000 ? 1000 : size < 100000 ? 100 : 5;
    std::vector<void*> blocks(count + 1, this);
    ASSERT_EQ(freeway_malloc_batch(size, count, blocks.data()), count) << size;
    EXPECT_EQ(blocks[count], this) << "written past the end";
    std::set<void*> seen;
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NE(blocks[i], nullptr);
      EXPECT_TRUE(is_aligned(blocks[i], 16));
      EXPECT_TRUE(seen.insert(blocks[i]).second);
      ASSERT_GE(malloc_usable_size(blocks[i]), size);
      fill(blocks[i], size, unsigned(i));
    }
    for (size_t i = 0; i < count; ++i) ASSERT_TRUE(holds(blocks[i], size, unsigned(i))) << size;
    errno = 4242;
    freeway_free_batch(count, blocks.data());
    EXPECT_EQ(errno, 4242);
  }
}

TEST(Batch, OfNothingIsNothing) {
  void* untouched = this;
  EXPECT_EQ(freeway_malloc_batch(100, 0, &untouched), 0u);
  EXPECT_EQ(untouched, this);
  freeway_free_batch(0, &untouched);
  freeway_free_batch(0, nullptr);
}

TEST(Batch, FreesMixedSizesAndSkipsNulls) {
  const freeway_stats_t before = [] {
    freeway_stats_t stats;
    freeway_stats(&stats, sizeof stats);
    return stats;
  }();
  static void* blocks[3000];
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 3000; ++i) {
      const size_t size = i % 500 == 0 ? 200000 : size_t(i * 13 % 5000);
      blocks[i] = i % 7 == 0 ? nullptr : i % 3 == 0 ? hide(memalign(64, size)) : hide(malloc(size));
    }
    blocks[1] = hide(realloc(blocks[1], 2 * kLargestLarge));
    freeway_free_batch(3000, blocks);
  }
  freeway_stats_t after;
  freeway_stats(&after, sizeof after);
  EXPECT_EQ(after.live_blocks, before.live_blocks);
  EXPECT_EQ(after.live, before.live);
}

TEST(Batch, RefusesImpossibleSizes) {
  void* blocks[4] = {};
  for (const size_t size : kImpossibleSizes) {
    errno = 0;
    EXPECT_EQ(freeway_malloc_batch(size, 4, blocks), 0u);
    EXPECT_EQ(errno, ENOMEM);
  }
}

freeway_stats_t stats_now() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats;
}

TEST(Stats, CountLiveBlocksAndBytesExactly) {
  static void* blocks[2000];
  for (const size_t size :
       {size_t{1}, size_t{16}, size_t{100}, size_t{1000}, size_t{5000}, size_t{32768}, size_t{40000}}) {
    const freeway_stats_t before = stats_now();
    size_t usable = 0;
    for (void*& block : blocks) usable += malloc_usable_size(block = hide(malloc(size)));
    const freeway_stats_t during = stats_now();
    EXPECT_EQ(during.live_blocks - before.live_blocks, 2000u) << size;
    // Blocks of the papers' engines may have a prefix that nobody may use.
    const size_t prefixes = on_flagship() ? 0 : 2000 * 16;
    EXPECT_GE(during.live - before.live, usable) << size;
    EXPECT_LE(during.live - before.live, usable + prefixes) << size;
    for (int i = 0; i < 1000; ++i) free(blocks[i]);
    const freeway_stats_t half = stats_now();
    EXPECT_EQ(half.live_blocks - before.live_blocks, 1000u) << size;
    for (int i = 1000; i < 2000; ++i) free(blocks[i]);
    const freeway_stats_t after = stats_now();
    EXPECT_EQ(after.live_blocks, before.live_blocks) << size;
    EXPECT_EQ(after.live, before.live) << size;
  }
}

TEST(Stats, SeeWhatOtherThreadsHold) {
  static void* blocks[4][1000];
  const freeway_stats_t before = stats_now();
  size_t threads_own = 0;
  {
    std::vector<std::thread> threads;
    for (auto& share : blocks)
      threads.emplace_back([&share] {
        for (void*& block : share) block = hide(malloc(200));
      });
    for (std::thread& thread : threads) thread.join();
    threads_own = stats_now().live_blocks - before.live_blocks;
  }
  EXPECT_GE(threads_own, 4000u);
  EXPECT_LE(threads_own, 4100u);  // and what std::thread itself keeps
  for (auto& share : blocks)
    for (void* block : share) free(block);
}

TEST(Stats, HugeBlocksAndFieldsThatOnlyGrow) {
  const freeway_stats_t before = stats_now();
  void* block = hide(malloc(2 * kLargestLarge));
  const freeway_stats_t during = stats_now();
  EXPECT_GE(during.huge - before.huge, 2 * kLargestLarge);
  EXPECT_GE(during.mapped - before.mapped, 2 * kLargestLarge);
  free(block);
  const freeway_stats_t after = stats_now();
  EXPECT_EQ(after.huge, before.huge);
  EXPECT_GE(after.slow_mallocs, before.slow_mallocs);
  EXPECT_GT(after.metadata, 0u);
  EXPECT_GE(after.mapped, after.live);
}

TEST(Stats, WriteNoFurtherThanTheCallersStructure) {
  // A caller compiled with an older, shorter structure.
  for (size_t size = 0; size <= sizeof(freeway_stats_t); size += 8) {
    union {
      freeway_stats_t stats;
      unsigned char bytes[sizeof(freeway_stats_t) + 64];
    } space;
    memset(&space, 0xcd, sizeof space);
    freeway_stats(&space.stats, size);
    for (size_t i = size; i < sizeof space; ++i) ASSERT_EQ(space.bytes[i], 0xcd) << "size " << size << " byte " << i;
    if (size >= 8) { EXPECT_NE(space.stats.live, 0xcdcdcdcdcdcdcdcd); }
  }
  // A caller compiled with a newer, longer one: what is unknown here is zero or left alone, what is known is right.
  struct {
    freeway_stats_t stats;
    size_t more[4];
  } longer{};
  freeway_stats(&longer.stats, sizeof longer);
  EXPECT_EQ(longer.stats.live, stats_now().live);
}

TEST(Trim, SaysHowMuchWasGivenBack) {
  static void* blocks[50000];
  Wanderer self;
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (void*& block : blocks) memset(block = hide(malloc(1000)), 1, 1000);
  for (void* block : blocks) free(block);
  const size_t freed = anonymous_rss();
  const size_t purged_before = stats_now().purged;
  size_t given = 0;
  self.trim_elsewhere([&given] { given += freeway_trim(0); });
  const size_t after = anonymous_rss();
  EXPECT_LE(after, before + 4 * kMiB);
  if (freed > after + 4 * kMiB) { EXPECT_GE(given + kMiB, freed - after); }
  EXPECT_EQ(stats_now().purged, purged_before + given);
  EXPECT_EQ(freeway_trim(0), 0u) << "nothing is left to give back";
  self.go_home();
  EXPECT_EQ(freeway_trim(0), 0u) << "nor where it came from";
}

// What another thread, which goes on running, has freed; where a trim does not reach it, that thread's own does.
TEST(Trim, ReachesWhatOtherThreadsFreedOrLeavesItToThem) {
  static void* blocks[20000];
  static std::atomic<int> turn;
  size_t there = 0, there_again = 0;
  turn = 0;
  Wanderer self;
  std::thread other([&] {
    for (size_t i = 0; i < std::size(blocks); ++i) memset(blocks[i] = hide(malloc(16 + i % 100 * 16)), 1, 16);
    for (void* block : blocks) free(block);
    turn = 1;
    while (turn != 2) std::this_thread::yield();
    there = freeway_trim(0);
    there_again = freeway_trim(0);
  });
  while (turn != 1) std::this_thread::yield();
  size_t here = 0;
  self.trim_elsewhere([&here] { here += freeway_trim(0); });
  const size_t here_again = freeway_trim(0);
  turn = 2;
  other.join();
  EXPECT_GT(here + there, 0u);
  EXPECT_EQ(here_again, 0u);
  EXPECT_EQ(there_again, 0u);
  if (on_flagship() || on_engine("michael") || on_engine("nbbs")) {
    EXPECT_EQ(there, 0u) << "nothing is left to give back";
  }
}

// Superblocks with a few live blocks are met wherever they are listed: here below many that were emptied since.
TEST(Trim, GivesBackTheFreePagesBetweenLiveBlocks) {
  if (!on_flagship()) GTEST_SKIP() << "the flagship purges superblocks in use";
  static void* blocks[50000];
  constexpr size_t kFewKept = 6400;  // of the first ones, every 64th stays
  const auto is_kept = [](size_t i) { return i < kFewKept && i % 64 == 1; };
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (void*& block : blocks) memset(block = hide(malloc(1000)), 1, 1000);
  for (size_t i = 0; i < std::size(blocks); i += 2) free(blocks[i]);
  for (size_t i = 1; i < std::size(blocks); i += 2)
    if (!is_kept(i)) free(blocks[i]);
  freeway_trim(0);
  const size_t pages_kept = kFewKept / 64 + 1;
  EXPECT_LE(anonymous_rss(), before + 2 * pages_kept * static_cast<size_t>(sysconf(_SC_PAGESIZE)) + kMiB);
  for (size_t i = 1; i < kFewKept; i += 2)
    if (is_kept(i)) free(blocks[i]);
}

// Taking caches apart leaves them to be used: in every mode of the heap, as often as one likes.
TEST(Trim, CachesAreUsedAfterIt) {
  if (!on_flagship()) GTEST_SKIP() << "no caches";
  for (int round = 0; round < 100; ++round) {  // more than there are slabs
    freeway_trim(0);
    free(hide(malloc(64)));
    ASSERT_GT(stats_now().cached, 0u) << "round " << round;
  }
}

// Frees 80 MB and trims all but `keep`. Returns how much stayed resident, in percent of 80 MB or of what was resident.
struct Kept {
  size_t of_all, of_freed;
};
Kept percent_kept(size_t keep) {
  static void* blocks[40000];
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (void*& block : blocks) memset(block = hide(malloc(2000)), 1, 2000);
  for (void* block : blocks) free(block);
  const size_t freed = anonymous_rss() - before;
  freeway_trim(keep);
  const size_t left = anonymous_rss();
  if (left <= before) return {0, 0};
  return {(left - before) * 100 / (2000 * std::size(blocks)), (left - before) * 100 / freed};
}

TEST(Trim, KeepsWhatItIsAskedToKeep) {
  // Memory that stays free also goes back little by little as time passes, so on a loaded machine one try may see less.
  size_t most = 0;
  for (int tries = 0; tries < 10 && most < 95; ++tries) most = std::max(most, percent_kept(SIZE_MAX).of_freed);
  EXPECT_GE(most, on_flagship() ? 95u : 80u) << "asked to keep everything";
  EXPECT_LE(percent_kept(24 * kMiB).of_all, 45u);
  EXPECT_LE(percent_kept(0).of_all, 5u);
}

TEST(Audit, AccountsForWhatIsLive) {
  static void* blocks[3000];
  freeway_audit_t before{}, during{}, after{};
  EXPECT_EQ(freeway_audit(&before, sizeof before), 0u);
  EXPECT_EQ(before.errors, 0u);
  EXPECT_EQ(before.frames_stranded, 0u);
  for (void*& block : blocks) block = hide(malloc(500));
  void* large = hide(malloc(10 * kMiB));
  EXPECT_EQ(freeway_audit(&during, sizeof during), 0u);
  EXPECT_GE(during.blocks_live, before.blocks_live + 3000);
  if (on_flagship()) {  // elsewhere it is a mapping
    EXPECT_EQ(during.frames_large, before.frames_large + 10 * kMiB / (64 * kKiB));
  }
  EXPECT_GT(during.frames_small, 0u);
  for (void* block : blocks) free(block);
  free(large);
  EXPECT_EQ(freeway_audit(&after, sizeof after), 0u);
  EXPECT_EQ(after.blocks_live, before.blocks_live);
  EXPECT_EQ(after.frames_large, before.frames_large);
  EXPECT_EQ(after.frames_stranded, 0u);
  EXPECT_EQ(after.superblocks_held, after.superblocks_held_by_slabs) << "no thread is inside a call";
}

TEST(Audit, EveryFrameIsLiveCachedFreeOrStranded) {
  static void* blocks[2000];
  for (void*& block : blocks) block = hide(malloc(700));
  for (size_t i = 0; i < std::size(blocks); i += 2) free(blocks[i]);
  void* large = hide(malloc(5 * kMiB));
  void* huge = hide(malloc(300 * kMiB));
  freeway_audit_t a{};
  EXPECT_EQ(freeway_audit(&a, sizeof a), 0u);
  EXPECT_EQ(a.frames, a.frames_small + a.frames_large + a.frames_free + a.frames_stranded + a.frames_unused);
  EXPECT_EQ(a.frames_small, a.frames_live + a.frames_cached + a.frames_held);
  EXPECT_EQ(a.frames_stranded, 0u);
  EXPECT_EQ(a.frames_held, 0u);
  EXPECT_GT(a.frames_live, 0u);
  if (on_flagship()) {
    EXPECT_EQ(a.frames_huge, 300 * kMiB / (64 * kKiB));
    EXPECT_EQ(a.superblocks_adrift, 0u);
    EXPECT_EQ(a.descriptors, a.superblocks + a.descriptors_free);
    EXPECT_GT(a.slabs, 0u);
    EXPECT_EQ(a.slabs_held, 0u);
    EXPECT_EQ(a.bytes_held, 0u);
  }
  free(huge);
  free(large);
  for (size_t i = 1; i < std::size(blocks); i += 2) free(blocks[i]);
}

TEST(Audit, WritesNoFurtherThanTheCallersStructure) {
  union {
    freeway_audit_t audit;
    unsigned char bytes[sizeof(freeway_audit_t) + 64];
  } space;
  memset(&space, 0xcd, sizeof space);
  EXPECT_EQ(freeway_audit(&space.audit, 3 * sizeof(size_t)), 0u);
  for (size_t i = 3 * sizeof(size_t); i < sizeof space; ++i) ASSERT_EQ(space.bytes[i], 0xcd) << i;
}

TEST(Audit, HoldsAfterRandomUseByManyThreads) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t)
    threads.emplace_back([t] {
      std::vector<void*> held(500, nullptr);
      uint32_t state = t * 2654435761u + 1;
      for (int i = 0; i < 50000; ++i) {
        state = state * 1664525 + 1013904223;
        void*& slot = held[(state >> 8) % held.size()];
        free(slot);
        slot = hide(malloc((state >> 20) % (i % 100 == 0 ? 200000 : 3000)));
      }
      for (void* block : held) free(block);
    });
  for (std::thread& thread : threads) thread.join();
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
  EXPECT_EQ(audit.superblocks_held, audit.superblocks_held_by_slabs);
}

}  // namespace
}  // namespace freeway::test
