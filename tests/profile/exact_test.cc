// SPDX-License-Identifier: MIT
//
// exact_test.cc: with an interval of 1 each block is sampled, so a profile is an exact account: of every function that
// gives and takes blocks, whatever the size, and of who asked.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/abi/abi_test.h"
#include "tests/profile/dump_reader.h"

namespace freeway::test {
namespace {

constexpr uint64_t kTag = 77;

class Exact : public testing::Test {
 protected:
  Exact() { EXPECT_EQ(freeway_profile_start(1), 0); }
  ~Exact() override { freeway_profile_stop(); }

  // Live blocks and bytes beyond those of the first look.
  Sample live() const { return take_dump().of_tag(kTag) - before_; }

 private:
  Sample before_ = take_dump().of_tag(kTag);
};

TEST_F(Exact, BlocksOfEverySizeComeAndGo) {
  std::vector<void*> blocks;
  uint64_t bytes = 0;
  {
    Tagged tagged(kTag);
    for (const size_t size : kInterestingSizes) {
      const uint64_t untagged = freeway_tag(0);
      blocks.reserve(std::size(kInterestingSizes));
      freeway_tag(untagged);
      blocks.push_back(hide(malloc(size)));
      bytes += size;
    }
  }
  EXPECT_EQ(live().live, blocks.size());
  EXPECT_EQ(live().live_bytes, bytes);
  for (void* block : blocks) free(block);
  EXPECT_EQ(live().live, 0u);
  EXPECT_EQ(live().live_bytes, 0u);
  EXPECT_EQ(live().allocated, blocks.size()) << "what was allocated stays known";
  EXPECT_EQ(live().allocated_bytes, bytes);
}

TEST_F(Exact, HugeBlocksToo) {
  void* block;
  {
    Tagged tagged(kTag);
    block = hide(malloc(300 * kMiB));
  }
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(live().live_bytes, 300 * kMiB);
  free(block);
  EXPECT_EQ(live().live, 0u);
}

TEST_F(Exact, EveryFunctionThatGivesBlocks) {
  void* blocks[12] = {};
  {
    Tagged tagged(kTag);
    blocks[0] = hide(malloc(100));
    blocks[1] = hide(calloc(10, 10));
    blocks[2] = hide(realloc(nullptr, 100));
    blocks[3] = hide(reallocarray(nullptr, 10, 10));
    blocks[4] = hide(aligned_alloc(64, 128));
    blocks[5] = hide(memalign(256, 100));
    if (posix_memalign(&blocks[6], 4096, 100) != 0) blocks[6] = nullptr;
    blocks[7] = hide(valloc(100));
    blocks[8] = hide(pvalloc(100));
    blocks[9] = ::operator new(100);
    blocks[10] = ::operator new[](100);
    blocks[11] = ::operator new(100, std::align_val_t{64});
  }
  for (void* block : blocks) EXPECT_NE(block, nullptr);
  EXPECT_EQ(live().live, 12u);
  free_sized(blocks[0], 100);
  free_aligned_sized(blocks[4], 64, 128);
  ::operator delete(blocks[9], 100);
  ::operator delete[](blocks[10]);
  ::operator delete(blocks[11], std::align_val_t{64});
  for (const int i : {1, 2, 3, 5, 6, 7, 8}) free(blocks[i]);
  EXPECT_EQ(live().live, 0u);
}

// What was asked for counts, not what its class has: aligned blocks are as long as a class that is aligned so.
TEST_F(Exact, EveryFunctionCountsWhatItWasAskedFor) {
  struct Asked {
    const char* function;
    size_t alignment, size;
    void* block;
  };
  constexpr uint64_t kFirstTag = 10000;  // a tag for each
  std::vector<Asked> all;
  all.reserve(4096);
  const auto ask = [&](const char* function, size_t alignment, size_t size, auto&& get) {
    Tagged tagged(kFirstTag + all.size());
    all.push_back({function, alignment, size, hide(get())});
  };
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{1025}, size_t{5000}, 32 * kKiB, 33 * kKiB}) {
    ask("calloc", 0, size, [=] { return calloc(1, size); });
    if (size != 0) ask("realloc", 0, size, [=] { return realloc(nullptr, size); });
    if (size >= 100) ask("realloc", 0, size, [=] { return realloc(malloc(3 * size), size); });
    ask("new", 0, size, [=] { return ::operator new(size); });
    for (const size_t alignment : {8, 16, 32, 64, 256, 4096, 65536}) {
      const auto aligned = std::align_val_t{alignment};
      ask("aligned_alloc", alignment, size, [=] { return aligned_alloc(alignment, size); });
      ask("memalign", alignment, size, [=] { return memalign(alignment, size); });
      ask("posix_memalign", alignment, size, [=] {
        void* block = nullptr;
        return posix_memalign(&block, alignment, size) == 0 ? block : nullptr;
      });
      ask("new, aligned", alignment, size, [=] { return ::operator new(size, aligned); });
      ask("new[], aligned", alignment, size, [=] { return ::operator new[](size, aligned); });
      ask("new, aligned, nothrow", alignment, size, [=] { return ::operator new(size, aligned, std::nothrow); });
    }
    ask("valloc", 4096, size, [=] { return valloc(size); });
    const size_t page = static_cast<size_t>(getpagesize());
    const size_t pages = size == 0 ? page : (size + page - 1) / page * page;  // which is what pvalloc is asked for
    ask("pvalloc", page, pages, [=] { return pvalloc(size); });
  }
  const Dump dump = take_dump();
  for (size_t i = 0; i < all.size(); ++i) {
    const Sample found = dump.of_tag(kFirstTag + i);
    EXPECT_EQ(found.live, 1u) << all[i].function << ", " << all[i].size << " bytes aligned to " << all[i].alignment;
    EXPECT_EQ(found.live_bytes, all[i].size) << all[i].function << ", aligned to " << all[i].alignment;
    free(all[i].block);
  }
}

TEST_F(Exact, AfterReallocItIsTheNewBlock) {
  for (const size_t first : {size_t{10}, 1000 * kKiB, 9 * kMiB, 260 * kMiB})
    for (const size_t second : {size_t{2000}, 40 * kKiB, 12 * kMiB, 300 * kMiB}) {
      void* block;
      {
        Tagged tagged(kTag);
        block = hide(realloc(hide(malloc(first)), second));
      }
      ASSERT_NE(block, nullptr);
      EXPECT_EQ(live().live, 1u) << first << " to " << second;
      // A small block that is long enough stays as it is.
      EXPECT_EQ(live().live_bytes, second) << first << " to " << second;
      free(block);
      EXPECT_EQ(live().live, 0u) << first << " to " << second;
    }
}

TEST_F(Exact, AReallocThatFailsLeavesIt) {
  for (const size_t size : {100 * kMiB, 10 * kMiB, size_t{100'000}, size_t{100}}) {
    void* block;
    {
      Tagged tagged(kTag);
      block = hide(malloc(size));
      EXPECT_EQ(realloc(block, size_t{1} << 46), nullptr);
    }
    EXPECT_EQ(live().live, 1u) << size;
    EXPECT_EQ(live().live_bytes, size);
    free(block);
    EXPECT_EQ(live().live, 0u) << size;
  }
}

TEST_F(Exact, BatchesToo) {
  void* blocks[50];
  {
    Tagged tagged(kTag);
    ASSERT_EQ(freeway_malloc_batch(64, 50, blocks), 50u);
  }
  EXPECT_EQ(live().live, 50u);
  freeway_free_batch(50, blocks);
  EXPECT_EQ(live().live, 0u);
}

TEST_F(Exact, FreedByAnotherThread) {
  std::vector<void*> blocks(1000);
  {
    Tagged tagged(kTag);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = hide(malloc(i * 40));
  }
  std::thread([&] {
    for (void* block : blocks) free(block);
  }).join();
  EXPECT_EQ(live().live, 0u);
}

TEST_F(Exact, WhatIsFreedAfterTheProfileEndedCounts) {
  void *small, *large;
  {
    Tagged tagged(kTag);
    small = hide(malloc(100)), large = hide(malloc(100 * kKiB));
  }
  freeway_profile_stop();
  Tagged tagged(kTag);
  free(hide(malloc(100)));
  EXPECT_EQ(live().live, 2u);
  EXPECT_EQ(live().allocated, 2u) << "nothing is sampled any more";
  free(small), free(large);
  EXPECT_EQ(live().live, 0u);
}

// Another block at the same address is another block.
TEST_F(Exact, AddressesThatAreUsedAgain) {
  for (int i = 0; i < 1000; ++i) {
    void* block;
    {
      Tagged tagged(kTag + static_cast<uint64_t>(i % 2));
      block = hide(malloc(i % 3 == 0 ? 50 * kKiB : 100));
    }
    free(block);
  }
  EXPECT_EQ(live().live, 0u);
  EXPECT_EQ(take_dump().of_tag(kTag + 1).live, 0u);
}

TEST_F(Exact, AForkedChildHasItsOwn) {
  void* block;
  {
    Tagged tagged(kTag);
    block = hide(malloc(100));
  }
  const pid_t child = fork();
  if (child == 0) {
    free(block);
    _exit(live().live == 0 && take_dump().facts["pid"] == static_cast<uint64_t>(getpid()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(live().live, 1u);
  free(block);
}

// --- Stacks ----------------------------------------------------------------------------------------------------------

void* backtrace_frames[64];
int backtrace_depth;

__attribute__((noinline)) void* innermost(size_t size) {
  void* block = hide(malloc(size));
  backtrace_depth = backtrace(backtrace_frames, 64);
  return hide(block);
}
__attribute__((noinline)) void* middle(size_t size) { return hide(innermost(size)); }
__attribute__((noinline)) void* outermost(size_t size) { return hide(middle(size)); }

// What frame pointers say is what the unwinder says, up to the first function without one (in the C library, or
// GoogleTest).
TEST_F(Exact, AStackIsThatOfTheUnwinder) {
  backtrace(backtrace_frames, 64);  // loads what it needs
  for (const size_t size : {size_t{100}, 100 * kKiB}) {
    void* block;
    {
      Tagged tagged(1000 + size);
      block = outermost(size);
    }
    const Dump dump = take_dump();
    const Sample* found = nullptr;
    for (const Sample& each : dump.samples)
      if (each.tag == 1000 + size && each.live == 1 && each.live_bytes == size) found = &each;
    ASSERT_NE(found, nullptr);
    ASSERT_GE(found->frames.size(), 4u);
    ASSERT_GE(backtrace_depth, 4);
    const auto function_of = [](uint64_t address) {
      Dl_info info = {};
      dladdr(reinterpret_cast<void*>(address), &info);
      return info.dli_saddr;
    };
    // The first is another call in the same function; the next three are the same calls.
    (void)function_of;
    for (int i = 1; i < 4; ++i)
      EXPECT_EQ(found->frames[static_cast<size_t>(i)], reinterpret_cast<uint64_t>(backtrace_frames[i])) << i;
    free(block);
  }
}

// Our own functions are nobody's business: the innermost frame is the caller's, also of functions that call malloc for
// him.
TEST_F(Exact, TheInnermostFrameIsTheCallers) {
  Dl_info mine = {};
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&innermost), &mine), 0);
  void* blocks[4];
  {
    Tagged tagged(2000);
    blocks[0] = hide(malloc(100)), blocks[1] = hide(calloc(1, 100)), blocks[2] = hide(memalign(64, 100));
    blocks[3] = ::operator new(100);
  }
  int seen = 0;
  for (const Sample& each : take_dump().samples) {
    if (each.tag != 2000) continue;
    ASSERT_FALSE(each.frames.empty());
    Dl_info info = {};
    ASSERT_NE(dladdr(reinterpret_cast<void*>(each.frames[0]), &info), 0);
    EXPECT_EQ(info.dli_fbase, mine.dli_fbase) << info.dli_fname << " " << (info.dli_sname ? info.dli_sname : "?");
    ++seen;
  }
  EXPECT_EQ(seen, 4);
  for (void* block : blocks) free(block);
}

}  // namespace
}  // namespace freeway::test
