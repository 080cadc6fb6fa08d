// SPDX-License-Identifier: MIT
//
// move_test.cc: freeway_block_info and freeway_should_move: what they say of each kind of block and of anything else;
// that a program that follows the hint gets its memory back, in counts, with its contents; and that the hint may be
// asked beside threads, in handlers and in children of forks.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "freeway/freeway.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

freeway_block_info_t info_of(const void* block) {
  freeway_block_info_t info;
  EXPECT_EQ(freeway_block_info(block, &info, sizeof info), info.size);
  return info;
}

freeway_stats_t stats_now() {
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof stats);
  return stats;
}

// Whether blocks lie where they were first: with FREEWAY_HARDEN they are placed at random, and the hint is always 0.
bool has_hints() { return on_flagship() && (getenv("FREEWAY_HARDEN") == nullptr || *getenv("FREEWAY_HARDEN") == '0'); }

TEST(BlockInfo, TellsOfALiveBlockOfEverySize) {
  for (const size_t size : kInterestingSizes) {
    char* block = static_cast<char*>(hide(malloc(size)));
    ASSERT_NE(block, nullptr);
    const bool small = freeway_explain(block, nullptr, 0) == FREEWAY_SMALL_BLOCK;
    if (small && !on_flagship()) {
      EXPECT_EQ(info_of(block).size, 0u) << "the papers' engines do not know whether it is live";
      free(block);
      continue;
    }
    const freeway_block_info_t info = info_of(block);
    EXPECT_EQ(info.size, malloc_usable_size(block)) << size;
    EXPECT_EQ(info.kind, small ? FREEWAY_SMALL_BLOCK : FREEWAY_LARGE_BLOCK) << size;
    EXPECT_GE(info.superblock_size, info.superblock_blocks * info.size);
    EXPECT_GE(info.superblock_live, 1u);
    EXPECT_LE(info.superblock_live, info.superblock_blocks);
    EXPECT_LE(info.class_permille, 1000u);
    EXPECT_TRUE(small || info.superblock_blocks + info.superblock_live + info.class_permille == 1002u);
    EXPECT_EQ(info_of(block + 1).size, 0u) << size;
    EXPECT_EQ(info_of(block + size / 2 + 1).size, 0u) << size;
    free(block);
    EXPECT_EQ(info_of(block).size, 0u) << "it is free: " << size;
  }
}

TEST(BlockInfo, CountsTheBlocksOfTheSuperblock) {
  if (!has_hints()) GTEST_SKIP() << "blocks lie anywhere";
  std::vector<char*> blocks(640);
  for (char*& block : blocks) block = static_cast<char*>(hide(malloc(1000)));
  const freeway_block_info_t full = info_of(blocks[300]);
  EXPECT_EQ(full.superblock_blocks, 64u);
  EXPECT_EQ(full.superblock_live, 64u);
  std::vector<char*> same;
  for (char*& block : blocks)
    if (block != blocks[300] && reinterpret_cast<uintptr_t>(block) / full.superblock_size ==
                                    reinterpret_cast<uintptr_t>(blocks[300]) / full.superblock_size)
      same.push_back(std::exchange(block, nullptr));
  ASSERT_EQ(same.size(), 63u);
  for (size_t i = 0; i < 40; ++i) free(same[i]);
  malloc_trim(0);  // out of the magazines
  EXPECT_EQ(info_of(blocks[300]).superblock_live, 24u);
  for (size_t i = 40; i < 63; ++i) free(same[i]);
  for (char* block : blocks) free(block);
}

TEST(BlockInfo, WhatIsNoBlockIsNone) {
  static int variable;
  void* mapping = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::vector<uintptr_t> addresses = {0, 16, UINTPTR_MAX, reinterpret_cast<uintptr_t>(&variable),
                                      reinterpret_cast<uintptr_t>(mapping)};
  for (unsigned bit = 0; bit < 64; ++bit) addresses.push_back((uintptr_t{1} << bit) + 8);
  for (const uintptr_t address : addresses) {
    freeway_block_info_t info;
    memset(&info, 0x77, sizeof info);
    const auto* pointer = reinterpret_cast<const void*>(address);
    EXPECT_EQ(freeway_block_info(pointer, &info, sizeof info), 0u);
    EXPECT_EQ(info.size + info.superblock_size + info.superblock_blocks, 0u);
    EXPECT_EQ(info.superblock_live + info.class_permille, 0u);
    EXPECT_EQ(info.kind, FREEWAY_NOT_OURS);
    EXPECT_EQ(freeway_should_move(pointer), 0);
  }
  munmap(mapping, 4096);
}

TEST(BlockInfo, OnlyAsMuchIsWrittenAsTheCallerHasRoomFor) {
  void* block = hide(malloc(2 * kLargestLarge));
  freeway_block_info_t info;
  memset(&info, 0x77, sizeof info);
  EXPECT_EQ(freeway_block_info(block, &info, sizeof info.size), info.size);
  EXPECT_EQ(info.superblock_size, SIZE_MAX / 255 * 0x77);
  EXPECT_GE(freeway_block_info(block, nullptr, 0), 2 * kLargestLarge);
  free(block);
}

TEST(ShouldMove, NothingMovesInADenseHeapNorIfItIsLarge) {
  std::vector<void*> blocks(5000);
  for (void*& block : blocks) block = hide(malloc(300));
  for (void* block : blocks) EXPECT_EQ(freeway_should_move(block), 0);
  void* large = hide(malloc(100000));
  EXPECT_EQ(freeway_should_move(large), 0);
  free(large);
  for (void* block : blocks) free(block);
}

// A store of values whose contents tell which they are.
class Store {
 public:
  Store(size_t count, size_t least, size_t most, uint64_t seed) : random_(seed), blocks_(count), sizes_(count) {
    for (size_t i = 0; i < count; ++i) {
      sizes_[i] = least + random_.below(most - least + 1);
      blocks_[i] = static_cast<char*>(hide(malloc(sizes_[i])));
      fill(blocks_[i], sizes_[i], static_cast<unsigned>(i));
    }
  }
  ~Store() {
    for (char* block : blocks_) free(block);
  }
  Store(const Store&) = delete;

  void remove(unsigned percent) {
    for (char*& block : blocks_)
      if (random_.chance(percent)) free(std::exchange(block, nullptr));
  }

  // One pass over all values; how many were moved.
  size_t defragment() {
    size_t moves = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (blocks_[i] == nullptr || freeway_should_move(blocks_[i]) == 0) continue;
      char* other = static_cast<char*>(hide(malloc(sizes_[i])));
      if (on_move_ != nullptr) on_move_(blocks_[i], other);
      memcpy(other, blocks_[i], sizes_[i]);
      free(std::exchange(blocks_[i], other));
      ++moves;
    }
    return moves;
  }
  // f(old block, new one) at each move.
  void on_move(void (*f)(void*, void*)) { on_move_ = f; }

  bool is_whole() const {
    for (size_t i = 0; i < blocks_.size(); ++i)
      if (blocks_[i] != nullptr && !holds(blocks_[i], sizes_[i], static_cast<unsigned>(i))) return false;
    return true;
  }
  size_t live() const {
    size_t bytes = 0;
    for (char* block : blocks_) bytes += block == nullptr ? 0 : malloc_usable_size(block);
    return bytes;
  }

 private:
  Random random_;
  std::vector<char*> blocks_;
  std::vector<size_t> sizes_;
  void (*on_move_)(void*, void*) = nullptr;
};

// Bytes of superblocks that are not live.
size_t waste() {
  malloc_trim(0);
  const freeway_stats_t stats = stats_now();
  return stats.mapped - stats.dirty - stats.live;
}

TEST(ShouldMove, AProgramThatFollowsItGetsMostOfItsWasteBackAndKeepsItsContents) {
  if (!has_hints()) GTEST_SKIP() << "blocks lie anywhere";
  const uint64_t seed = test_seed();
  for (const unsigned percent : {50u, 80u, 95u}) {
    Store store(100000, 16, 1024, seed + percent);
    store.remove(percent);
    const size_t before = waste();
    size_t moves = 0, passes = 0, now;
    do ++passes, moves += now = store.defragment();
    while (now != 0 && passes < 10);
    EXPECT_TRUE(store.is_whole());
    RecordProperty("moves", static_cast<int>(moves));
    // For each of the classes up to 1 KiB (21) about two superblocks of 64 KiB stay, and what the program had before.
    EXPECT_LT(waste(), before / 8 + 3 * 21 * 64 * kKiB) << percent << " % removed, " << before << " bytes before";
    EXPECT_LT(moves, 130000 * (100 - percent) / 100) << "each value about once";
    EXPECT_LT(passes, 10u) << "it ends";
    EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
  }
}

TEST(ShouldMove, WithoutItNothingComesBack) {
  if (!has_hints()) GTEST_SKIP() << "blocks lie anywhere";
  // What the test above counts is not what trimming alone would do: half of the blocks are in all superblocks.
  Store store(100000, 16, 1024, test_seed());
  store.remove(50);
  EXPECT_GT(waste(), store.live() / 2);
}

std::atomic<size_t> to_sparser{0}, all_moves{0};

TEST(ShouldMove, MovedBlocksDoNotComeBackWhereTheyCameFromNorToSparserSuperblocks) {
  if (!has_hints()) GTEST_SKIP() << "blocks lie anywhere";
  Store store(100000, 16, 1024, test_seed());
  store.remove(80);
  to_sparser = all_moves = 0;
  store.on_move([](void* from, void* to) {
    const freeway_block_info_t old = info_of(from), now = info_of(to);
    ++all_moves;
    // The new one counts in its superblock already.
    if (now.superblock_live <= old.superblock_live && now.superblock_live < now.superblock_blocks) ++to_sparser;
  });
  for (int pass = 0; pass < 10 && store.defragment() != 0; ++pass) continue;
  EXPECT_GT(all_moves, 10000u);
  // A superblock that malloc begins to allocate from may be sparser at first; it is so for a batch or two.
  EXPECT_LT(to_sparser * 5, all_moves);
}

TEST(ShouldMove, SeveralThreadsDefragmentBesideOthersThatAllocate) {
  if (!on_flagship()) GTEST_SKIP() << "the hint is 0";
  const uint64_t seed = test_seed();
  std::atomic<bool> over{false};
  std::vector<std::thread> allocating, moving;
  std::atomic<int> damaged{0};
  for (unsigned t = 0; t < 2; ++t)
    allocating.emplace_back([&, t] {
      for (unsigned round = 0; !over; ++round) {
        Store store(2000, 16, 1024, seed + 100 * t + round);
        store.remove(70);
        damaged += !store.is_whole();
      }
    });
  for (unsigned t = 0; t < 3; ++t)
    moving.emplace_back([&, t] {
      for (unsigned round = 0; round < 5; ++round) {
        Store store(20000, 16, 1024, seed + 7777 * t + round);
        store.remove(80);
        for (int pass = 0; pass < 3; ++pass) store.defragment();
        damaged += !store.is_whole();
      }
    });
  for (std::thread& thread : moving) thread.join();
  over = true;
  for (std::thread& thread : allocating) thread.join();
  EXPECT_EQ(damaged, 0);
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
}

Store* in_handler = nullptr;
std::atomic<unsigned> handled{0};

// A handler that defragments a store of its own while the program allocates.
TEST(ShouldMove, AHandlerMayFollowTheHintWhateverItInterrupted) {
  if (!on_flagship()) GTEST_SKIP() << "the hint is 0";
  Store others(3000, 16, 1024, test_seed());
  others.remove(80);
  in_handler = &others;
  handled = 0;
  struct sigaction action = {}, old = {};
  action.sa_handler = [](int) {
    const int saved = errno;
    in_handler->defragment();
    ++handled;
    errno = saved;
  };
  sigaction(SIGALRM, &action, &old);
  const itimerval often{{0, 300}, {0, 300}}, never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  for (unsigned round = 0; handled < 300; ++round) {
    Store store(1000, 16, 1024, round);
    store.remove(80);
    store.defragment();
    ASSERT_TRUE(store.is_whole());
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &old, nullptr);
  EXPECT_TRUE(others.is_whole());
  EXPECT_EQ(freeway_audit(nullptr, 0), 0u);
}

TEST(ShouldMove, ChildrenOfForksMayFollowTheHint) {
  Store store(20000, 16, 1024, test_seed());
  store.remove(80);
  std::atomic<bool> over{false};
  std::thread beside([&] {
    while (!over) {
      Store other(1000, 16, 1024, 1);
      other.remove(80);
      other.defragment();
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      for (int pass = 0; pass < 10 && store.defragment() != 0; ++pass) continue;
      _exit(store.is_whole() ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  over = true;
  beside.join();
  EXPECT_TRUE(store.is_whole());
}

}  // namespace
}  // namespace freeway::test
