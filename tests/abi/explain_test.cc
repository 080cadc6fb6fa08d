// SPDX-License-Identifier: MIT
//
// explain_test.cc: what freeway_explain says of addresses, and that it reads nothing there.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "abi_test.h"
#include "freeway/freeway.h"

namespace freeway::test {
namespace {

freeway_explanation_t explain(const void* address) {
  freeway_explanation_t found;
  EXPECT_EQ(freeway_explain(address, &found, sizeof(found)), found.kind);
  EXPECT_NE(found.what, nullptr);
  return found;
}

std::string line_about(const void* address) {
  int pipe_ends[2];
  EXPECT_EQ(pipe(pipe_ends), 0);
  freeway_explain_to(pipe_ends[1], address);
  close(pipe_ends[1]);
  char text[2000];
  const ssize_t got = read(pipe_ends[0], text, sizeof(text));
  close(pipe_ends[0]);
  return std::string(text, got < 0 ? 0 : static_cast<size_t>(got));
}

TEST(Explain, EachByteOfALiveBlockIsTheBlocks) {
  if (!on_flagship()) GTEST_SKIP() << "the flagship knows its small blocks";
  for (const size_t size : kInterestingSizes) {
    if (size == 0) continue;
    char* block = static_cast<char*>(hide(malloc(size)));
    ASSERT_NE(block, nullptr);
    const size_t usable = malloc_usable_size(block);
    for (const size_t offset : {size_t{0}, size / 2, size - 1, usable - 1}) {
      const freeway_explanation_t found = explain(block + offset);
      ASSERT_EQ(found.kind, size <= kLargestSmall ? FREEWAY_SMALL_BLOCK : FREEWAY_LARGE_BLOCK)
          << size << " + " << offset;
      EXPECT_EQ(found.state, FREEWAY_LIVE) << size;
      EXPECT_EQ(found.begin, block);
      EXPECT_EQ(found.size, usable);
      EXPECT_EQ(found.offset, static_cast<ptrdiff_t>(offset));
    }
    free(block);
  }
}

TEST(Explain, AFreedSmallBlockIsFreeInACacheOrInItsSuperblock) {
  if (!on_flagship()) GTEST_SKIP() << "the flagship knows its small blocks";
  for (const size_t size : {size_t{16}, size_t{100}, size_t{1000}, size_t{20000}}) {
    std::vector<void*> blocks(3000);
    for (void*& block : blocks) block = hide(malloc(size));
    for (size_t i = 0; i < blocks.size(); i += 2) free(blocks[i]);
    for (size_t i = 0; i < blocks.size(); ++i)
      EXPECT_EQ(explain(blocks[i]).state, i % 2 == 0 ? FREEWAY_FREE : FREEWAY_LIVE) << size << " " << i;
    for (size_t i = 1; i < blocks.size(); i += 2) free(blocks[i]);
  }
}

TEST(Explain, AHugeBlockAndWhatItWas) {
  char* block = static_cast<char*>(hide(malloc(2 * kLargestLarge)));
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(explain(block + kLargestLarge + 5).kind, FREEWAY_LARGE_BLOCK);
  EXPECT_EQ(explain(block + kLargestLarge + 5).begin, block);
  free(block);
  EXPECT_NE(explain(block).state, FREEWAY_LIVE);
}

TEST(Explain, AFreedLargeBlockIsFreeMemory) {
  if (!on_flagship()) GTEST_SKIP() << "the engines give large blocks back at once";
  char* block = static_cast<char*>(hide(malloc(1000000)));
  free(block);
  EXPECT_EQ(explain(block + 100).kind, FREEWAY_FREE_MEMORY);
  EXPECT_EQ(explain(block + 100).begin, nullptr);
}

TEST(Explain, WhatIsNotOursIsNotOurs) {
  static int variable;
  int local = 0;
  void* mapping = mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (const void* address : {static_cast<const void*>(nullptr), static_cast<const void*>(&variable),
                              static_cast<const void*>(&local), static_cast<const void*>(mapping),
                              reinterpret_cast<const void*>(16), reinterpret_cast<const void*>(UINTPTR_MAX)}) {
    EXPECT_EQ(explain(address).kind, FREEWAY_NOT_OURS) << address;
    EXPECT_EQ(explain(address).begin, nullptr);
  }
  munmap(mapping, 4096);
}

TEST(Explain, NothingIsReadAtTheAddress) {
  // Most of these are not mapped.
  for (unsigned bit = 0; bit < 64; ++bit)
    for (const uintptr_t beside : {UINTPTR_MAX, uintptr_t{0}, uintptr_t{1}}) {
      const auto* address = reinterpret_cast<const void*>((uintptr_t{1} << bit) + beside);
      EXPECT_NE(explain(address).kind, FREEWAY_GUARDED_BLOCK) << address;
    }
}

TEST(Explain, OnlyAsMuchIsWrittenAsTheCallerHasRoomFor) {
  freeway_explanation_t found;
  memset(&found, 0x77, sizeof(found));
  freeway_explain(&found, &found, sizeof(found.kind));
  EXPECT_EQ(found.kind, FREEWAY_NOT_OURS);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(found.begin), UINTPTR_MAX / 255 * 0x77);
}

TEST(Explain, ALineSaysTheSame) {
  if (!on_flagship()) GTEST_SKIP() << "the flagship knows its small blocks";
  char* block = static_cast<char*>(hide(malloc(100)));
  const std::string line = line_about(block + 1);
  EXPECT_NE(line.find(" is 1 byte inside a live small block of 112 bytes at 0x"), std::string::npos) << line;
  EXPECT_EQ(line.back(), '\n');
  free(block);
  EXPECT_NE(line_about(block).find("the beginning of a free small block of 112 bytes"), std::string::npos)
      << line_about(block);
  int local;
  EXPECT_NE(line_about(&local).find(" is not Freeway's"), std::string::npos);
}

TEST(Explain, WhileOthersAllocateEachAnswerIsOneOfTheTrueOnes) {
  std::atomic<bool> over{false};
  std::atomic<void*> shown{nullptr};
  std::thread other([&] {
    for (unsigned i = 0; !over; ++i) {
      void* block = malloc(i % 100000);
      shown = block;
      free(block);
    }
  });
  for (int i = 0; i < 20000; ++i) {
    freeway_explanation_t found;
    const auto* address = static_cast<const char*>(shown.load()) + i % 100;
    freeway_explain(address, &found, sizeof(found));
    if (found.begin != nullptr) {
      EXPECT_EQ(static_cast<char*>(found.begin) + found.offset, address);
      EXPECT_LT(static_cast<size_t>(found.offset), found.size);
    }
  }
  over = true;
  other.join();
}

}  // namespace
}  // namespace freeway::test
