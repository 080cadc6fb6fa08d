// SPDX-License-Identifier: MIT
//
// The one-mutex allocator, linked as this program's malloc: contents, alignment, threads, fork, and that neighbours are
// joined.
#include <dlfcn.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

struct Block {
  unsigned char* at = nullptr;
  std::size_t size = 0;
  unsigned char fill = 0;
};

void expect_contents(const Block& block) {
  for (std::size_t i = 0; i < block.size; ++i)
    if (block.at[i] != block.fill) FAIL() << "byte " << i << " of " << block.size << " was overwritten";
}

std::size_t some_size(std::mt19937& random) {
  const unsigned kind = random() % 100;
  if (kind < 70) return random() % 300;
  if (kind < 97) return random() % 20'000;
  return random() % 2'000'000;
}

// A random trace with every form of allocation; each block is full of its own byte from its making to its end.
void trace(unsigned seed, int steps) {
  std::mt19937 random(seed);
  std::vector<Block> blocks(300);
  for (int step = 0; step < steps; ++step) {
    Block& block = blocks[random() % blocks.size()];
    expect_contents(block);
    if (block.at != nullptr && random() % 3 == 0) {
      const std::size_t size = some_size(random) + 1;
      block.at = static_cast<unsigned char*>(realloc(block.at, size));
      block.size = std::min(block.size, size);
      expect_contents(block);
      block.size = size;
    } else {
      free(block.at);
      block.size = some_size(random);
      void* at = nullptr;
      const std::size_t alignment = std::size_t{16} << random() % 10;
      switch (random() % 5) {
        case 0:
          at = calloc(1, block.size);
          block.fill = 0;
          block.at = static_cast<unsigned char*>(at);
          expect_contents(block);
          break;
        case 1: ASSERT_EQ(posix_memalign(&at, alignment, block.size), 0); break;
        case 2: at = aligned_alloc(alignment, block.size); break;
        default: at = malloc(block.size);
      }
      ASSERT_NE(at, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % 16, 0u);
      block.at = static_cast<unsigned char*>(at);
    }
    ASSERT_GE(malloc_usable_size(block.at), block.size);
    block.size = malloc_usable_size(block.at);  // all of it is the caller's
    block.fill = static_cast<unsigned char>(random());
    memset(block.at, block.fill, block.size);
  }
  for (const Block& block : blocks) {
    expect_contents(block);
    free(block.at);
  }
}

TEST(Locked, IsTheMallocOfThisProgram) {
  Dl_info info;
  ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info), 0);
  EXPECT_NE(std::string(info.dli_fname).find("liblocked"), std::string::npos) << info.dli_fname;
}

TEST(Locked, BlocksKeepTheirContents) {
  for (unsigned seed = 1; seed <= 3; ++seed) trace(seed, 4000);
}

TEST(Locked, BlocksKeepTheirContentsBetweenThreads) {
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) threads.emplace_back(trace, 10 + i, 2000);
  for (auto& thread : threads) thread.join();
}

TEST(Locked, AlignmentIsKept) {
  for (std::size_t alignment = 1; alignment <= 1 << 21; alignment *= 2)
    for (std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
      void* block = aligned_alloc(alignment, size);
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0u) << alignment;
      free(block);
    }
  errno = 0;
  std::size_t odd = 48;
  asm volatile("" : "+r"(odd));
  EXPECT_EQ(aligned_alloc(odd, 100), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST(Locked, TooMuchIsRefused) {
  std::size_t huge = PTRDIFF_MAX;
  asm volatile("" : "+r"(huge));
  errno = 0;
  EXPECT_EQ(malloc(huge), nullptr);
  EXPECT_EQ(errno, ENOMEM);
  EXPECT_EQ(calloc(huge, 4), nullptr);
  EXPECT_EQ(realloc(nullptr, huge), nullptr);
  EXPECT_EQ(reallocarray(nullptr, huge, 8), nullptr);
}

// If neighbours were not joined, the big block could not lie where the small ones were.
TEST(Locked, FreedNeighboursAreJoined) {
  constexpr std::size_t kCount = 1000;
  std::vector<char*> blocks(kCount);
  for (auto& block : blocks) block = static_cast<char*>(malloc(1000));
  const auto [low, high] = std::minmax_element(blocks.begin(), blocks.end());
  const char* first = *low;
  const char* last = *high;
  for (std::size_t i = 0; i < kCount; i += 2) free(blocks[i]);
  for (std::size_t i = 1; i < kCount; i += 2) free(blocks[i]);
  auto* big = static_cast<char*>(malloc(kCount * 900));
  EXPECT_TRUE(first <= big && big <= last) << "made elsewhere";
  free(big);
}

TEST(Locked, GrowsInPlaceWhereTheNeighbourIsFree) {
  // The tests before have left holes in which single blocks lie: of many, some lie side by side.
  std::vector<char*> blocks(200);
  for (auto& block : blocks) block = static_cast<char*>(malloc(5000));
  std::sort(blocks.begin(), blocks.end());
  const auto pair = std::adjacent_find(blocks.begin(), blocks.end(),
                                       [](const char* one, const char* next) { return next - one < 5100; });
  ASSERT_NE(pair, blocks.end());
  free(pair[1]);
  EXPECT_EQ(realloc(pair[0], 9000), pair[0]);
  pair[1] = nullptr;
  for (char* block : blocks) free(block);
}

TEST(Locked, FreeTwiceIsNoticed) {
  EXPECT_DEATH(
      {
        void* block = malloc(100);
        free(block);
        asm volatile("" : "+r"(block));
        free(block);
      },
      "");
}

// A child is forked while other threads are in malloc all the time; it must be able to allocate.
TEST(Locked, ChildOfThreadedProcessAllocates) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] {
      while (!over) free(malloc(100));
    });
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(20);
      void* block = malloc(1000);
      free(block);
      _exit(block != nullptr ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  over = true;
  for (auto& thread : threads) thread.join();
}

}  // namespace
