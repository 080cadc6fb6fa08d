// SPDX-License-Identifier: MIT
//
// heap_test.cc: freeway/heap.h: heaps of the program: their blocks, limits, figures and end; what handlers, threads and
// children of forks do with them; that they leave nothing behind; and what is said of blocks and handles of heaps that
// are gone.
#include <freeway/heap.h>
#include <freeway/pmr.h>
#include <gtest/gtest.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "program_heap.h"
#include "scenario.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/heap_account.h"

namespace freeway::test {
namespace {

constexpr size_t kFrame = 64 << 10;

// Whether heaps have slabs here (if the kernel has rseq).
bool has_slabs() {
  const char* harden = getenv("FREEWAY_HARDEN");
  return freeway_test::rseq_mode() && (harden == nullptr || strcmp(harden, "1") != 0);
}
freeway_audit_t audit_now() {
  freeway_audit_t audit;
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  return audit;
}

// Blocks that know what is in them.
class Blocks {
 public:
  void add(void* block, size_t size) {
    ASSERT_NE(block, nullptr) << size;
    memset(block, static_cast<int>(all_.size() % 251), size);
    all_.push_back({static_cast<unsigned char*>(block), size, static_cast<unsigned char>(all_.size() % 251)});
    live_ += malloc_usable_size(block);
  }
  void expect_intact() const {
    for (const Block& each : all_)
      for (size_t i = 0; i < each.size; ++i) ASSERT_EQ(each.at[i], each.fill) << "byte " << i << " of " << each.size;
  }
  // Frees one, after a look at it; another comes in its place.
  void replace(size_t number, void* block, size_t size) {
    ASSERT_NE(block, nullptr) << size;
    Block& one = all_[number];
    for (size_t i = 0; i < one.size; ++i) ASSERT_EQ(one.at[i], one.fill) << "byte " << i << " of " << one.size;
    live_ -= malloc_usable_size(one.at);
    free(hide(static_cast<void*>(one.at)));
    memset(block, one.fill, size);
    one = {static_cast<unsigned char*>(block), size, one.fill};
    live_ += malloc_usable_size(block);
  }
  // Bytes that they have, with what was not asked for.
  size_t live() const { return live_; }
  template <class F> void each(F&& f) {
    for (const Block& one : all_) f(static_cast<void*>(one.at));
    all_.clear();
    live_ = 0;
  }

 private:
  struct Block {
    unsigned char* at;
    size_t size;
    unsigned char fill;
  };
  std::vector<Block> all_;
  size_t live_ = 0;
};

TEST(Heap, BlocksOfEverySizeAreWholeAndFreedOneByOne) {
  const freeway_heap_t heap = make_heap();
  Blocks blocks;
  size_t live = 0;
  for (int round = 0; round < 3; ++round)
    for (const size_t size : kInterestingSizes) {
      void* block = hide(freeway_heap_malloc(heap, size));
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % 16, 0u);
      EXPECT_GE(malloc_usable_size(block), size);
      EXPECT_EQ(freeway_block_info(block, nullptr, 0), malloc_usable_size(block));
      live += malloc_usable_size(block);
      blocks.add(block, size);
    }
  blocks.expect_intact();
  EXPECT_EQ(stats_of(heap).live, live);
  EXPECT_GE(stats_of(heap).held, live);
  blocks.each([](void* block) { free(hide(block)); });
  EXPECT_EQ(stats_of(heap).live, 0u);
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  audit_now();
}

// A heap of 100 KiB, and one of 1 MiB: blocks come from strips at first, from what is freed there and from superblocks
// later. Without slabs each of 26 sizes soon has a superblock, since no magazine leads freed blocks back.
TEST(Heap, BlocksOfOneSizeComeInThePlaceOfOthers) {
  Random random(test_seed());
  for (const size_t count : {400, 4000}) {
    const freeway_heap_t heap = make_heap();
    Blocks blocks;
    for (size_t i = 0; i < count; ++i) {
      const size_t size = 1 + random.below(500);
      blocks.add(hide(freeway_heap_malloc(heap, size)), size);
    }
    for (size_t i = 0; i < 20 * count; ++i) {
      const size_t size = 1 + random.below(random.chance(2) ? 3000 : 500);
      blocks.replace(random.below(count), hide(freeway_heap_malloc(heap, size)), size);
    }
    blocks.expect_intact();
    EXPECT_EQ(stats_of(heap).live, blocks.live());
    EXPECT_EQ(stats_of(heap).live_blocks, count);
    // Half a MiB of strips for each CPU, magazines and regions in hand, and what is free in between.
    const auto cpus = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
    EXPECT_LT(stats_of(heap).held, 2 * blocks.live() + cpus * (1 << 20) + (has_slabs() ? 0 : 26 * kFrame));
    blocks.each([](void* block) { free(hide(block)); });
    EXPECT_EQ(stats_of(heap).live_blocks, 0u);
    EXPECT_EQ(freeway_heap_destroy(heap), 0);
  }
  audit_now();
}

// A heap of 100 KiB has few frames also without slabs: each of its 16 sizes had a superblock there.
TEST(Heap, ASmallHeapWhoseSizesChangeHoldsLittle) {
  Random random(test_seed());
  const freeway_heap_t heap = make_heap();
  void* blocks[400] = {};
  for (size_t i = 0; i < 21 * std::size(blocks); ++i) {
    void*& one = blocks[i < std::size(blocks) ? i : random.below(std::size(blocks))];
    free(hide(one));
    one = hide(freeway_heap_malloc(heap, 1 + random.below(500)));
    ASSERT_NE(one, nullptr);
  }
  const auto cpus = static_cast<size_t>(sysconf(_SC_NPROCESSORS_CONF));
  EXPECT_LE(stats_of(heap).held, has_slabs() ? cpus * (1 << 20) : 8 * kFrame);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

TEST(Heap, AlignmentsAreKept) {
  const freeway_heap_t heap = make_heap();
  Blocks blocks;
  for (size_t alignment = 1; alignment <= size_t{1} << 21; alignment *= 2)
    for (const size_t size : {size_t{1}, size_t{100}, size_t{5000}, size_t{70000}}) {
      void* block = hide(freeway_heap_aligned_alloc(heap, alignment, size));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(block) % alignment, 0u) << alignment;
      blocks.add(block, size);
    }
  blocks.expect_intact();
  blocks.each([](void* block) { free(hide(block)); });
  errno = 0;
  EXPECT_EQ(freeway_heap_aligned_alloc(heap, 48, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  freeway_heap_destroy(heap);
}

TEST(Heap, CallocIsZeroWhereOthersHaveBeen) {
  const freeway_heap_t heap = make_heap();
  for (const size_t size : {size_t{24}, size_t{3000}, size_t{200000}})
    for (int round = 0; round < 3; ++round) {
      auto* block = static_cast<unsigned char*>(hide(freeway_heap_calloc(heap, size / 8, 8)));
      ASSERT_NE(block, nullptr);
      EXPECT_TRUE(std::all_of(block, block + size, [](unsigned char byte) { return byte == 0; })) << size;
      memset(block, 0xa5, size);
      free(hide(block));
    }
  errno = 0;
  EXPECT_EQ(freeway_heap_calloc(heap, hide(SIZE_MAX / 2), 3), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(freeway_heap_malloc(heap, hide(SIZE_MAX / 2)), nullptr);
  freeway_heap_destroy(heap);
}

TEST(Heap, ReallocKeepsContentsAndHeap) {
  const freeway_heap_t heap = make_heap(), other = make_heap();
  for (const bool by_its_own_name : {true, false}) {
    auto* block = static_cast<char*>(freeway_heap_realloc(heap, nullptr, 10));
    memcpy(block, "contents!", 10);
    for (const size_t size : {size_t{100}, size_t{5000}, size_t{100000}, size_t{300}, size_t{12}}) {
      block = static_cast<char*>(by_its_own_name ? freeway_heap_realloc(heap, hide(block), size)
                                                 : realloc(hide(block), size));
      ASSERT_NE(block, nullptr);
      EXPECT_STREQ(block, "contents!");
      EXPECT_EQ(stats_of(heap).live_blocks, 1u);
      EXPECT_EQ(stats_of(heap).live, malloc_usable_size(block));
    }
    errno = 0;
    EXPECT_EQ(freeway_heap_realloc(other, hide(block), 50), nullptr) << "it is another heap's";
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(freeway_heap_realloc(heap, hide(block), 0), nullptr);
    EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  }
  EXPECT_EQ(stats_of(other).held, 0u);
  freeway_heap_destroy(heap);
  freeway_heap_destroy(other);
}

TEST(Heap, DestroyGivesEverythingBack) {
  freeway_heap_destroy(make_heap());
  const freeway_audit_t before = audit_now();
  const freeway_heap_t heap = make_heap();
  Random random(test_seed());
  for (int i = 0; i < 20000; ++i) {
    void* block = freeway_heap_malloc(heap, random.chance(1) ? random.below(500000) : random.below(2000));
    ASSERT_NE(block, nullptr);
    if (random.chance(30)) free(hide(block));
  }
  EXPECT_GT(audit_now().frames_large, before.frames_large + 200);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  const freeway_audit_t after = audit_now();
  EXPECT_EQ(after.frames_large, before.frames_large);
  EXPECT_EQ(after.frames_stranded, before.frames_stranded);
}

// Two heaps that grow by turns, whose tables lie among each other.
TEST(Heap, TablesOfHeapsThatAreGoneGoBackOnTrim) {
  constexpr size_t kSize = 1000, kCount = (32 << 20) / kSize;
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (int round = 0; round < 2; ++round) {
    const freeway_heap_t heaps[] = {make_heap(), make_heap()};
    for (size_t i = 0; i < 2 * kCount; ++i) {
      auto* block = static_cast<size_t*>(hide(freeway_heap_malloc(heaps[i % 2], kSize)));
      ASSERT_NE(block, nullptr);
      *block = i;
    }
    for (const freeway_heap_t heap : heaps) EXPECT_EQ(stats_of(heap).live_blocks, kCount);
    for (const freeway_heap_t heap : heaps) EXPECT_EQ(freeway_heap_destroy(heap), 0);
    freeway_trim(0);
    EXPECT_LT(anonymous_rss(), before + (1 << 20)) << "5 KiB for each of 1,024 frames would be more";
  }
  audit_now();
}

TEST(Heap, HandlesOfHeapsThatAreGoneAreRefused) {
  const freeway_heap_t heap = make_heap();
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  const freeway_heap_t next = make_heap();  // in all probability in the same place
  EXPECT_NE(next, heap);
  errno = 0;
  EXPECT_EQ(freeway_heap_malloc(heap, 10), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(freeway_heap_stats(heap, nullptr, 0), EINVAL);
  EXPECT_EQ(freeway_heap_destroy(heap), EINVAL);
  EXPECT_EQ(freeway_heap_trim(heap), 0u);
  EXPECT_EQ(freeway_heap_destroy(nullptr), EINVAL);
  free(freeway_heap_malloc(next, 10));
  EXPECT_EQ(freeway_heap_destroy(next), 0);
}

TEST(Heap, ALimitIsKeptAndBindsNobodyElse) {
  constexpr size_t kLimit = 20 * kFrame;
  const freeway_heap_options_t too_low = {nullptr, 1000};
  EXPECT_EQ(freeway_heap_new(&too_low, sizeof too_low), nullptr);
  EXPECT_EQ(errno, EINVAL);
  const freeway_heap_t heap = make_heap(kLimit + 1), other = make_heap();
  for (const size_t size : {size_t{50}, size_t{3000}, size_t{100000}}) {
    std::vector<void*> blocks;
    errno = 0;
    while (void* block = freeway_heap_malloc(heap, size)) {
      blocks.push_back(block);
      ASSERT_LT(blocks.size() * size, 2 * kLimit);
    }
    EXPECT_EQ(errno, ENOMEM);
    EXPECT_GT(blocks.size() * size, kLimit / 2);
    const freeway_heap_stats_t stats = stats_of(heap);
    EXPECT_LE(stats.held, kLimit);
    EXPECT_EQ(stats.limit, kLimit);
    EXPECT_GT(stats.refusals, 0u);
    void* elsewhere = freeway_heap_malloc(other, size);
    EXPECT_NE(elsewhere, nullptr);
    free(elsewhere);
    for (void* block : blocks) free(hide(block));  // the next size has room, too
  }
  freeway_heap_destroy(heap);
  freeway_heap_destroy(other);
}

TEST(Heap, ALimitThatCannotBeCountedIsNone) {
  const freeway_heap_t heap = make_heap(SIZE_MAX);
  EXPECT_EQ(stats_of(heap).limit, 0u);
  void* block = freeway_heap_malloc(heap, 100);
  EXPECT_NE(block, nullptr);
  free(block);
  freeway_heap_destroy(heap);
}

TEST(Heap, AFrameIsEnoughForAFewBlocks) {
  const freeway_heap_t heap = make_heap(kFrame);
  EXPECT_NE(hide(freeway_heap_malloc(heap, 16)), nullptr);
  EXPECT_NE(hide(freeway_heap_aligned_alloc(heap, 64, 64)), nullptr);
  EXPECT_NE(hide(freeway_heap_calloc(heap, 1, 40)), nullptr);
  EXPECT_NE(hide(freeway_heap_malloc(heap, 3000)), nullptr);
  EXPECT_EQ(stats_of(heap).refusals, 0u);
  errno = 0;
  EXPECT_EQ(hide(freeway_heap_malloc(heap, kFrame)), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(stats_of(heap).refusals, 1u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

TEST(Heap, AFrameServesTwoSizesAgainAndAgain) {
  const freeway_heap_t heap = make_heap(kFrame);
  for (int round = 0; round < 30; ++round) {
    void* const small = hide(freeway_heap_malloc(heap, 16));
    void* const other = hide(freeway_heap_malloc(heap, 64));
    ASSERT_NE(small, nullptr) << round;
    ASSERT_NE(other, nullptr) << round;
    free(small);
    free(other);
    freeway_heap_trim(heap);
    EXPECT_EQ(stats_of(heap).held, 0u);
  }
  EXPECT_EQ(stats_of(heap).refusals, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

// Also those of the frame that was filled last.
TEST(Heap, FreedBlocksServeAgainAtTheLimit) {
  for (const size_t frames : {1, 3, 40}) {
    const freeway_heap_t heap = make_heap(frames * kFrame);
    std::vector<void*> blocks;
    while (void* block = freeway_heap_malloc(heap, 64)) blocks.push_back(block);
    EXPECT_GT(blocks.size(), frames * 900);
    for (int round = 0; round < 5; ++round) {
      const size_t freed = blocks.size() / 2;
      for (size_t i = 0; i < freed; ++i) free(hide(blocks[i]));
      blocks.erase(blocks.begin(), blocks.begin() + static_cast<ptrdiff_t>(freed));
      size_t again = 0;
      for (void* block; (block = freeway_heap_malloc(heap, 64)) != nullptr; ++again) blocks.push_back(block);
      // Of a frame a quarter may have to wait.
      EXPECT_GE(again + frames * kFrame / 64 / 4, freed) << frames << " frames, round " << round;
    }
    for (void* block : blocks) free(hide(block));
    freeway_heap_trim(heap);
    EXPECT_EQ(stats_of(heap).held, 0u);
    EXPECT_EQ(freeway_heap_destroy(heap), 0);
  }
}

TEST(Heap, FiguresAndSizesAreAskedForWhileOthersUseIt) {
  const freeway_heap_t heap = make_heap();
  void* const kept = hide(freeway_heap_malloc(heap, 100));
  std::atomic<bool> done{false};
  std::thread asks([&] {
    while (!done.load()) {
      EXPECT_GE(stats_of(heap).held, kFrame);
      EXPECT_GE(malloc_usable_size(kept), 100u);
    }
  });
  Random random(test_seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<void*> blocks;
    for (int i = 0; i < 200; ++i) blocks.push_back(hide(freeway_heap_malloc(heap, 1 + random.below(3000))));
    for (void* block : blocks) free(block);
    freeway_heap_trim(heap);
  }
  done = true;
  asks.join();
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

TEST(Heap, TrimGivesBackWhatIsFree) {
  const freeway_heap_t heap = make_heap();
  std::vector<void*> blocks;
  for (int i = 0; i < 50000; ++i) blocks.push_back(freeway_heap_malloc(heap, 16 + static_cast<size_t>(i) % 500));
  const size_t full = stats_of(heap).held;
  for (void* block : blocks) free(hide(block));
  const size_t held = stats_of(heap).held;
  const size_t trimmed = freeway_heap_trim(heap);
  EXPECT_EQ(trimmed, held - stats_of(heap).held);
  // What other CPUs that this thread was on have in hand stays.
  EXPECT_LT(stats_of(heap).held, full / 2);
  freeway_heap_destroy(heap);
}

TEST(Heap, MemoryOfOneSizeServesAnother) {
  const freeway_heap_t heap = make_heap();
  std::vector<void*> blocks;
  size_t held = 0;
  for (const size_t size : {size_t{40}, size_t{90}, size_t{300}, size_t{40}, size_t{1500}}) {
    for (size_t bytes = 0; bytes < 8 << 20; bytes += size) blocks.push_back(freeway_heap_malloc(heap, size));
    if (held == 0) held = stats_of(heap).held;
    for (void* block : blocks) free(hide(block));
    blocks.clear();
  }
  EXPECT_LT(stats_of(heap).held, held * 2);
  freeway_heap_destroy(heap);
}

TEST(Heap, HeapsLeaveNothingBehind) {
  const char* wanted = getenv("FREEWAY_TEST_HEAPS");
  const long count = wanted == nullptr ? 20000 : atol(wanted);
  const auto live_and_die = [](long i) {
    const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
    ASSERT_NE(heap, nullptr);
    for (size_t size = 16; size < 3000; size *= 3)
      ASSERT_NE(freeway_heap_malloc(heap, size + static_cast<size_t>(i % 7)), nullptr);
    ASSERT_EQ(freeway_heap_destroy(heap), 0);
  };
  for (long i = 0; i < 200; ++i) live_and_die(i);
  const freeway_audit_t before = audit_now();
  for (long i = 0; i < count; ++i) live_and_die(i);
  const freeway_audit_t after = audit_now();
  EXPECT_EQ(after.frames_large, before.frames_large);
  // Caches are a CPU's for ever: this thread may have come to others.
  EXPECT_LE(after.frames_charged, before.frames_charged + 64);
}

TEST(Heap, AThousandSmallOnesAreSmall) {
  std::vector<freeway_heap_t> heaps;
  Blocks blocks;
  for (int i = 0; i < 1000; ++i) {
    heaps.push_back(make_heap());
    for (size_t size = 16; size <= 1024; size *= 2)
      for (int n = 0; n < 3; ++n) blocks.add(freeway_heap_malloc(heaps.back(), size), size);
    EXPECT_LE(stats_of(heaps.back()).held, kFrame) << i;
  }
  blocks.expect_intact();
  for (const freeway_heap_t heap : heaps) freeway_heap_destroy(heap);
}

TEST(Heap, NamesAreCutToSize) {
  const freeway_heap_t heap = make_heap(0, "a name that has more than thirty-one letters");
  EXPECT_STREQ(stats_of(heap).name, "a name that has more than thirt");
  freeway_heap_destroy(heap);
}

TEST(Heap, ThreadsShareOne) {
  constexpr unsigned kThreads = 8;
  const freeway_heap_t heap = make_heap();
  std::atomic<unsigned char*> shelves[64] = {};  // blocks go from thread to thread: length, fill, contents
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  const auto check_and_free = [&](unsigned char* block) {
    if (block == nullptr) return;
    size_t size;
    memcpy(&size, block, sizeof size);
    for (size_t i = sizeof size; i < size; ++i) damaged += block[i] != static_cast<unsigned char>(size);
    free(block);
  };
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(test_seed() + t);
      for (int i = 0; i < 5000; ++i) {
        const size_t size = random.chance(1) ? 40000 + random.below(90000) : sizeof(size_t) + random.below(700);
        auto* block = static_cast<unsigned char*>(freeway_heap_malloc(heap, size));
        if (block == nullptr) return void(++damaged);
        memset(block, static_cast<unsigned char>(size), size);
        memcpy(block, &size, sizeof size);
        check_and_free(shelves[random.below(64)].exchange(block));
        if (random.chance(1)) freeway_heap_trim(heap);
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(damaged.load(), 0);
  size_t live = 0;
  for (auto& shelf : shelves) live += shelf.load() != nullptr;
  EXPECT_EQ(stats_of(heap).live_blocks, live);
  for (auto& shelf : shelves) check_and_free(shelf.load());
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  audit_now();
}

// Threads on several CPUs use all of a heap that its limit allows, free each other's blocks and end.
void use_by_turns(freeway_heap_t heap) {
  constexpr unsigned kThreads = 4;
  constexpr size_t kSizes[] = {24, 100, 700, 2000, 5000, 30000, 70000};
  std::vector<void*> blocks[kThreads];
  std::barrier<> together(kThreads);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round) {
        Random random(test_seed() + 20 * t + static_cast<unsigned>(round));
        together.arrive_and_wait();
        for (unsigned refusals = 0; refusals < 3;) {
          void* block = hide(freeway_heap_malloc(heap, kSizes[random.below(std::size(kSizes))]));
          if (block == nullptr) ++refusals;
          else blocks[t].push_back(block);
        }
        together.arrive_and_wait();
        for (void* block : blocks[(t + 1) % kThreads]) free(block);
        together.arrive_and_wait();
        blocks[t].clear();
      }
    });
  for (std::thread& each : threads) each.join();
}

TEST(Heap, AfterAllFreesTheWholeLimitIsThereAgain) {
  constexpr size_t kLimit = 32 * kFrame;
  const freeway_heap_t heap = make_heap(kLimit);
  for (const size_t size : {kFrame, kLimit}) {
    use_by_turns(heap);
    EXPECT_EQ(stats_of(heap).live, 0u);
    std::vector<void*> blocks;
    for (size_t bytes = 0; bytes < kLimit; bytes += size) blocks.push_back(hide(freeway_heap_malloc(heap, size)));
    EXPECT_EQ(std::count(blocks.begin(), blocks.end(), nullptr), 0) << "of " << blocks.size() << " blocks of " << size;
    EXPECT_EQ(stats_of(heap).held, kLimit);
    for (void* block : blocks) free(block);
  }
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  audit_now();
}

TEST(Heap, AfterAllFreesATrimLeavesNothing) {
  const freeway_heap_t heap = make_heap(32 * kFrame);
  use_by_turns(heap);
  const size_t held = stats_of(heap).held;
  EXPECT_EQ(freeway_heap_trim(heap), held);
  EXPECT_EQ(stats_of(heap).held, 0u);
  EXPECT_EQ(freeway_heap_trim(heap), 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

freeway_heap_t handlers_heap;
std::atomic<int> handler_runs{0}, handler_faults{0};

// --- Trims of everything. --------------------------------------------------------------------------------------------

TEST(Heap, ATrimOfEverythingLooksIntoHeaps) {
  const freeway_heap_t heaps[] = {make_heap(32 * kFrame), make_heap(32 * kFrame)};
  const auto use_all = [&] {
    for (const freeway_heap_t heap : heaps) use_by_turns(heap);
    for (const freeway_heap_t heap : heaps) EXPECT_GT(stats_of(heap).held, 0u);
  };
  use_all();
  freeway_trim(0);
  for (const freeway_heap_t heap : heaps) EXPECT_EQ(stats_of(heap).held, 0u) << "freeway_trim";
  use_all();
  malloc_trim(0);
  for (const freeway_heap_t heap : heaps) EXPECT_EQ(stats_of(heap).held, 0u) << "malloc_trim";
  use_all();
  size_t steps = 0;
  // The first round may be one that another test had begun: it has been where these blocks came later.
  for (int rounds = 0; rounds < 2; ++rounds)
    while (freeway_trim_step(1 << 20) != 0) ASSERT_LT(++steps, 10000u);
  for (const freeway_heap_t heap : heaps) EXPECT_EQ(stats_of(heap).held, 0u) << "freeway_trim_step";
  for (const freeway_heap_t heap : heaps) EXPECT_EQ(freeway_heap_destroy(heap), 0);
  audit_now();
}

// Pages under free blocks, too: one block in 16 stays.
TEST(Heap, ATrimOfEverythingGivesBackFreePagesOfHeaps) {
  constexpr size_t kSize = 1024, kCount = (32 << 20) / kSize;
  const freeway_heap_t heap = make_heap();
  std::vector<void*> blocks;
  freeway_trim(0);
  const size_t before = anonymous_rss();
  for (size_t i = 0; i < kCount; ++i) memset(blocks.emplace_back(freeway_heap_malloc(heap, kSize)), 1, kSize);
  for (size_t i = 0; i < kCount; ++i)
    if (i % 16 != 0) free(hide(blocks[i]));
  freeway_trim(0);
  EXPECT_LT(anonymous_rss(), before + (size_t{16} << 20)) << "32 MiB were in use, of which every fourth page is";
  EXPECT_EQ(stats_of(heap).live_blocks, kCount / 16);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

// A heap that is destroyed while a trim looks into it is ended by that: nothing of it is left once both have returned.
TEST(Heap, HeapsAreMadeAndDestroyedBesideTrims) {
  const freeway_audit_t before = audit_now();
  std::atomic<int> running{3}, wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Random random(test_seed() + t);
      for (int i = 0; i < 1500; ++i) {
        const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
        std::vector<std::pair<unsigned char*, size_t>> blocks;
        for (int n = 0; n < 60; ++n) {
          const size_t size = random.chance(2) ? 70000 : 1 + random.below(3000);
          auto* block = static_cast<unsigned char*>(freeway_heap_malloc(heap, size));
          if (block == nullptr) return void(++wrong);
          memset(block, static_cast<int>(t + 1), size);
          blocks.emplace_back(block, size);
          if (n % 3 == 0) free(hide(block)), blocks.pop_back();
        }
        for (const auto& [block, size] : blocks) wrong += block[0] != t + 1 || block[size - 1] != t + 1;
        wrong += freeway_heap_destroy(heap) != 0;
        wrong += freeway_heap_destroy(heap) != EINVAL;
      }
      --running;
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      while (running > 0)
        if (t == 0) freeway_trim(0);
        else freeway_trim_step(1 << 20);
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong.load(), 0);
  const freeway_audit_t after = audit_now();
  EXPECT_EQ(after.frames_large, before.frames_large);
  EXPECT_EQ(after.frames_stranded, before.frames_stranded);
}

std::atomic<int> heaps_destroyed{0};

// Whatever of a trim the handler interrupts; what it destroys, and makes in its place, is the trim's to end or to leave
// alone.
TEST(Heap, HandlersDestroyHeapsInTheMiddleOfATrim) {
  const freeway_audit_t before = audit_now();
  const auto renew = [] {
    if (handlers_heap != nullptr) handler_faults += freeway_heap_destroy(handlers_heap) != 0;
    handlers_heap = freeway_heap_new(nullptr, 0);
    for (size_t i = 0; i < 40; ++i) {
      void* const block = freeway_heap_malloc(handlers_heap, 100 + i * 200);
      handler_faults += block == nullptr;
      if (i % 2 == 0) free(block);
    }
  };
  handlers_heap = nullptr;
  handler_faults = 0;
  renew();
  struct sigaction action = {}, old;
  static const auto in_handler = renew;
  action.sa_handler = [](int) {
    const int kept = errno;
    in_handler();
    ++heaps_destroyed;
    errno = kept;
  };
  sigaction(SIGALRM, &action, &old);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  while (heaps_destroyed < 1000) freeway_trim(0);
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_EQ(handler_faults.load(), 0);
  EXPECT_EQ(freeway_heap_destroy(handlers_heap), 0);
  EXPECT_EQ(audit_now().frames_large, before.frames_large);
}

// Forked while another thread is anywhere in a trim: the child destroys the heap that this had in hand.
TEST(Heap, AChildDestroysWhatItsParentsThreadsTrim) {
  const freeway_heap_t heap = make_heap();
  std::vector<void*> blocks;
  for (int i = 0; i < 8000; ++i) blocks.push_back(freeway_heap_malloc(heap, 1000));
  for (size_t i = 0; i < blocks.size(); i += 2) free(hide(blocks[i]));
  const size_t frames = stats_of(heap).held / kFrame;
  ASSERT_GT(frames, 100u);
  std::atomic<bool> done{false};
  std::thread trims([&] {
    while (!done) freeway_trim(0);
  });
  for (int i = 0; i < 100; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      freeway_audit_t held, after;
      freeway_audit(&held, sizeof held);
      if (freeway_heap_destroy(heap) != 0) _exit(1);
      freeway_trim(0);
      freeway_audit(&after, sizeof after);
      // What the thread had in hand is lost: a frame or a superblock.
      _exit(held.frames_large - after.frames_large + 8 >= frames ? 0 : 2);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  done = true;
  trims.join();
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
}

// Threads whose calls mostly are sections, while others take apart what these fill; nothing is lost or in two hands.
TEST(Heap, CachesAreTakenApartWhileTheirCpusUseThem) {
  const freeway_heap_t heap = make_heap();
  std::atomic<int> running{3}, damaged{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      constexpr size_t kSizes[] = {16, 48, 200, 3000};
      size_t* blocks[12];
      for (unsigned round = 0; round < 50000; ++round) {
        const size_t size = kSizes[round / 100 % std::size(kSizes)], mark = round * 3 + t;
        for (size_t*& block : blocks) *(block = static_cast<size_t*>(hide(freeway_heap_malloc(heap, size)))) = mark;
        for (size_t* block : blocks) {
          damaged += *block != mark;
          free(hide(block));
        }
      }
      --running;
    });
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (running > 0) freeway_heap_trim(heap);
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(damaged.load(), 0);
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  freeway_heap_trim(heap);
  EXPECT_EQ(stats_of(heap).held, 0u);
  EXPECT_EQ(freeway_heap_destroy(heap), 0);
  audit_now();
}

TEST(Heap, ThreadsMakeAndDestroyTheirOwn) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t)
    threads.emplace_back([&, t] {
      Random random(test_seed() + t);
      for (int i = 0; i < 600; ++i) {
        const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
        std::vector<std::pair<unsigned char*, size_t>> blocks;
        for (int n = 0; n < 100; ++n) {
          const size_t size = 1 + random.below(900);
          auto* block = static_cast<unsigned char*>(freeway_heap_malloc(heap, size));
          if (block == nullptr) return void(++wrong);
          memset(block, static_cast<int>(t + 1), size);
          blocks.emplace_back(block, size);
        }
        for (const auto& [block, size] : blocks) wrong += block[0] != t + 1 || block[size - 1] != t + 1;
        wrong += freeway_heap_destroy(heap) != 0;
      }
    });
  for (std::thread& each : threads) each.join();
  EXPECT_EQ(wrong.load(), 0);
  audit_now();
}

TEST(Heap, HandlersUseTheOneThatTheyInterrupted) {
  handlers_heap = make_heap();
  struct sigaction action = {}, old;
  action.sa_handler = [](int) {
    const int kept = errno;
    unsigned char* blocks[12];
    for (size_t i = 0; i < 12; ++i) {
      blocks[i] = static_cast<unsigned char*>(freeway_heap_malloc(handlers_heap, 24 + i * 16));
      handler_faults += blocks[i] == nullptr;
      if (blocks[i] != nullptr) memset(blocks[i], 0x11, 24 + i * 16);
    }
    for (unsigned char* block : blocks) {
      handler_faults += block != nullptr && block[23] != 0x11;
      free(block);
    }
    ++handler_runs;
    errno = kept;
  };
  sigaction(SIGALRM, &action, &old);
  const itimerval often = {{0, 50}, {0, 50}}, never = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  Blocks blocks;
  Random random(test_seed());
  while (handler_runs < 300) {
    for (int i = 0; i < 200; ++i) {
      const size_t size = 24 + random.below(180);
      blocks.add(freeway_heap_malloc(handlers_heap, size), size);
    }
    blocks.expect_intact();
    blocks.each([](void* block) { free(hide(block)); });
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_EQ(handler_faults.load(), 0);
  EXPECT_EQ(stats_of(handlers_heap).live_blocks, 0u);
  freeway_heap_destroy(handlers_heap);
  audit_now();
}

TEST(Heap, AChildOfAForkHasTheHeapsOfItsParent) {
  const freeway_heap_t heap = make_heap();
  std::vector<char*> blocks;
  for (int i = 0; i < 300; ++i) {
    blocks.push_back(static_cast<char*>(freeway_heap_malloc(heap, 100)));
    memset(blocks.back(), i, 100);
  }
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 300; ++i)
      if (blocks[static_cast<size_t>(i)][99] != static_cast<char>(i)) _exit(1);
    for (int i = 0; i < 150; ++i) free(hide(blocks[static_cast<size_t>(i)]));
    for (int i = 0; i < 1000; ++i)
      if (freeway_heap_malloc(heap, 100) == nullptr) _exit(2);
    freeway_heap_stats_t stats;
    if (freeway_heap_stats(heap, &stats, sizeof stats) != 0 || stats.live_blocks != 1150) _exit(3);
    if (freeway_heap_destroy(heap) != 0 || freeway_audit(nullptr, 0) != 0) _exit(4);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(stats_of(heap).live_blocks, 300u);
  for (int i = 0; i < 300; ++i) EXPECT_EQ(blocks[static_cast<size_t>(i)][0], static_cast<char>(i));
  freeway_heap_destroy(heap);
}

TEST(Heap, ContainersLieInIt) {
  const freeway_heap_t heap = make_heap();
  heap_resource resource(heap), same(heap), other(freeway::test::make_heap());
  {
    std::pmr::vector<std::pmr::string> words(&resource);
    for (int i = 0; i < 1000; ++i)
      words.emplace_back("a word that is too long for the string itself " + std::to_string(i));
    EXPECT_GT(stats_of(heap).live_blocks, 1000u);
    EXPECT_EQ(words[999], "a word that is too long for the string itself 999");
  }
  EXPECT_EQ(stats_of(heap).live_blocks, 0u);
  EXPECT_TRUE(resource.is_equal(same));
  EXPECT_FALSE(resource.is_equal(other));
  EXPECT_FALSE(resource.is_equal(*freeway::resource()));
  void* page = resource.allocate(100, 4096);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(page) % 4096, 0u);
  resource.deallocate(page, 100, 4096);
  freeway_heap_destroy(heap);
  EXPECT_THROW((void)resource.allocate(10), std::bad_alloc);
  freeway_heap_destroy(other.heap());
}

// --- What is said of errors. -----------------------------------------------------------------------------------------

FREEWAY_SCENARIO(FreedAfterTheEnd) {
  const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  void* block = hide(freeway_heap_malloc(heap, static_cast<size_t>(argument)));
  require(block != nullptr && freeway_heap_destroy(heap) == 0, "heap");
  announce(block);
  free(hide(block));
}
FREEWAY_SCENARIO(FreedTwice) {
  const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  void* block = hide(freeway_heap_malloc(heap, static_cast<size_t>(argument)));
  require(block != nullptr, "heap");
  free(block);
  announce(block);
  free(hide(block));
}
// The first block of many, and the last one: of a strip and of a superblock; others come and go between its frees.
FREEWAY_SCENARIO(FreedTwiceLater) {
  const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  void *first = nullptr, *last = nullptr;
  for (int i = 0; i < 20000; ++i) {
    last = hide(freeway_heap_malloc(heap, 100));
    require(last != nullptr, "heap");
    if (i == 0) first = last;
  }
  void* others[100];
  for (void*& each : others) each = hide(freeway_heap_malloc(heap, 200));
  void* block = argument == 0 ? first : last;
  free(block);
  for (void* each : others) free(hide(each));
  for (void*& each : others) each = hide(freeway_heap_malloc(heap, 200));
  announce(block);
  free(hide(block));
}
FREEWAY_SCENARIO(FreedInside) {
  const freeway_heap_t heap = freeway_heap_new(nullptr, 0);
  char* block = static_cast<char*>(hide(freeway_heap_malloc(heap, static_cast<size_t>(argument))));
  require(block != nullptr, "heap");
  free(hide(block + 16));
}

TEST(HeapErrors, ABlockOfAHeapThatIsGoneIsABadFree) {
  for (const long size : {40, 5000, 100000}) {
    const Outcome outcome = run_scenario("FreedAfterTheEnd", size);
    EXPECT_TRUE(outcome.aborted()) << size;
    ASSERT_EQ(outcome.reports().size(), 1u);
    EXPECT_EQ(outcome.reports()[0].find("freeway: double free of 0x"), 0u) << outcome.err;
  }
}
TEST(HeapErrors, ASecondFreeIsNamed) {
  for (const long size : {40, 5000, 100000})
    for (const char* hardened : {"FREEWAY_HARDEN=0", "FREEWAY_HARDEN=1", "FREEWAY_RSEQ=0"}) {
      const Outcome outcome = run_scenario("FreedTwice", size, {hardened});
      EXPECT_TRUE(outcome.aborted()) << size << hardened;
      EXPECT_NE(outcome.err.find("freeway: double free of 0x"), std::string::npos) << outcome.err;
    }
}
// Without slabs kinds and bits are exact: no magazine stands between.
TEST(HeapErrors, ASecondFreeIsNamedAfterOtherCalls) {
  for (const long which : {0, 1})
    for (const char* hardened : {"FREEWAY_HARDEN=1", "FREEWAY_RSEQ=0"}) {
      const Outcome outcome = run_scenario("FreedTwiceLater", which, {hardened});
      EXPECT_TRUE(outcome.aborted()) << which << hardened;
      EXPECT_NE(outcome.err.find("freeway: double free of 0x"), std::string::npos) << outcome.err;
    }
}
TEST(HeapErrors, AnInteriorPointerIsNamed) {
  for (const long size : {40, 5000, 100000}) {
    const Outcome outcome = run_scenario("FreedInside", size);
    EXPECT_TRUE(outcome.aborted()) << size;
    EXPECT_NE(outcome.err.find("an interior pointer 0x"), std::string::npos) << outcome.err;
  }
}

FREEWAY_SCENARIO(KeepsANamedHeap) {
  const freeway_heap_options_t options = {"requests", 1 << 20};
  require(freeway_heap_malloc(freeway_heap_new(&options, sizeof options), 100) != nullptr, "heap");
}
TEST(HeapErrors, StatisticsShowNames) {
  const Outcome outcome = run_scenario("KeepsANamedHeap", 0, {"FREEWAY_STATS=1"});
  EXPECT_TRUE(outcome.succeeded());
  const char* line = "  heap requests: live 112 B in 1 blocks, holds 64.0 KiB of 1.0 MiB, refused 0 times\n";
  EXPECT_NE(outcome.err.find(line), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
