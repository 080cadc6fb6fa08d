// SPDX-License-Identifier: MIT
//
// Tests of Superblocks::purge: exactly the pages on which nothing lives are given back, and nothing else changes.
#include <gtest/gtest.h>

#include <vector>

#include "tests/superblock/superblocks_fixture.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

constexpr std::size_t kPage = 4096;

class SuperblocksPurgeTest : public SuperblocksFixture {
 protected:
  // A held superblock of class c of which only the blocks in `live` are taken; all its memory is written to.
  u32 make_with(unsigned c, const std::vector<bool>& live) {
    const u32 d = superblocks().hold(c);
    const Blocks all = take_all(d);
    memset(all[0], 0xab, Backing::size_class(c).span_bytes());
    Blocks rest;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (!live[i]) rest.push_back(all[i]);
    free(c, rest);
    return d;
  }
  uptr span(u32 d) { return backing().descriptor(d).span.load_relaxed(); }

  // Whether no live block has a byte in page `p`; what is behind the last block counts as its.
  static bool is_idle(const SizeClass& k, const std::vector<bool>& live, std::size_t p) {
    const std::size_t last = live.size() - 1;
    for (std::size_t i = 0; i < live.size(); ++i) {
      const std::size_t from = i * k.size, to = i == last ? k.span_bytes() : from + k.size;
      if (live[i] && from < (p + 1) * kPage && to > p * kPage) return false;
    }
    return true;
  }

  // Purges d and checks everything that is promised.
  void purge_and_check(unsigned c, u32 d, const std::vector<bool>& live) {
    const SizeClass& k = Backing::size_class(c);
    std::size_t expected = 0;
    for (std::size_t p = 0; p < k.span_bytes() / kPage; ++p) expected += is_idle(k, live, p) * kPage;
    std::vector<u64> words;
    for (unsigned w = 0; w < k.words; ++w) words.push_back(backing().descriptor(d).words[w].load_relaxed());
    ASSERT_EQ(superblocks().purge(d, kPage), expected);
    for (std::size_t p = 0; p < k.span_bytes() / kPage; ++p) {
      const uptr page = span(d) + p * kPage;
      if (is_idle(k, live, p)) {
        ASSERT_TRUE(is_zero(page, kPage)) << "page " << p;
      } else {
        ASSERT_EQ(*reinterpret_cast<unsigned char*>(page), 0xab) << "page " << p;
      }
    }
    for (std::size_t i = 0; i < live.size(); ++i) {
      const auto* block = reinterpret_cast<const unsigned char*>(span(d) + i * k.size);
      for (std::size_t byte = 0; live[i] && byte < k.size; byte += 16) ASSERT_EQ(block[byte], 0xab) << "block " << i;
    }
    for (unsigned w = 0; w < k.words; ++w) ASSERT_EQ(backing().descriptor(d).words[w].load_relaxed(), words[w]);
  }

  // Ends the superblock: the counts were right if it ends once, and not before the last block.
  void end(unsigned c, u32 d, const std::vector<bool>& live) {
    const unsigned given = backing().given;
    Blocks blocks;
    for (std::size_t i = 0; i < live.size(); ++i)
      if (live[i]) blocks.push_back(reinterpret_cast<void*>(span(d) + i * Backing::size_class(c).size));
    superblocks().let_go(d);
    for (void* block : blocks) {
      ASSERT_EQ(backing().given, given);
      free(c, {block});
    }
    ASSERT_EQ(backing().given, given + 1);
  }
};

TEST_F(SuperblocksPurgeTest, OfASuperblockInWhichNothingLivesAllPagesGo) {
  for (unsigned c = 1; c < Backing::kClasses; ++c) {
    const SizeClass& k = Backing::size_class(c);
    const std::vector<bool> live(k.blocks, false);
    const u32 d = make_with(c, live);
    purge_and_check(c, d, live);
    EXPECT_EQ(kernel().calls(Call::kPurge), c) << "in one call";
    end(c, d, live);
  }
}

TEST_F(SuperblocksPurgeTest, WhatHasNoMemoryIsNotGivenBackAgain) {
  const unsigned c = 5;
  const u32 fresh = superblocks().hold(c);  // never written to
  EXPECT_EQ(superblocks().purge(fresh, kPage), 0u);
  EXPECT_EQ(kernel().calls(Call::kPurge), 0u);
  const std::vector<bool> live(Backing::size_class(c).blocks, false);
  const u32 d = make_with(c, live);
  EXPECT_EQ(superblocks().purge(d, kPage), Backing::size_class(c).span_bytes());
  EXPECT_EQ(superblocks().purge(d, kPage), 0u);
  *reinterpret_cast<char*>(span(d) + 3 * kPage) = 1;
  EXPECT_EQ(superblocks().purge(d, kPage), kPage) << "the bytes that had memory are counted";
}

TEST_F(SuperblocksPurgeTest, OfAFullSuperblockNothingGoes) {
  for (unsigned c = 1; c < Backing::kClasses; ++c) {
    const std::vector<bool> live(Backing::size_class(c).blocks, true);
    const u32 d = make_with(c, live);
    purge_and_check(c, d, live);
    end(c, d, live);
  }
  EXPECT_EQ(kernel().calls(Call::kPurge), 0u);
}

TEST_F(SuperblocksPurgeTest, OneLivingBlockKeepsItsPagesOnlyWhereverItIs) {
  for (unsigned c : {4u, 5u, 6u}) {
    const SizeClass& k = Backing::size_class(c);
    for (u32 i = 0; i < k.blocks; ++i) {
      std::vector<bool> live(k.blocks, false);
      live[i] = true;
      const u32 d = make_with(c, live);
      purge_and_check(c, d, live);
      end(c, d, live);
    }
  }
}

TEST_F(SuperblocksPurgeTest, AnyPatternOfBlocksKeepsTheirPagesOnly) {
  Random random(test_seed());
  for (int round = 0; round < 400; ++round) {
    const unsigned c = static_cast<unsigned>(1 + random.below(Backing::kClasses - 1));
    const auto percent = static_cast<unsigned>(random.below(100));
    std::vector<bool> live;
    for (u32 i = 0; i < Backing::size_class(c).blocks; ++i) live.push_back(random.chance(percent));
    const u32 d = make_with(c, live);
    purge_and_check(c, d, live);
    if (random.chance(30)) {
      EXPECT_EQ(superblocks().purge(d, 16 * kPage) % (16 * kPage), 0u) << "by larger pages, again";
    }
    end(c, d, live);
  }
}

TEST_F(SuperblocksPurgeTest, WhatTheKernelWillNotTakeBackIsStillThere) {
  const std::vector<bool> live(Backing::size_class(5).blocks, false);
  const u32 d = make_with(5, live);
  kernel().refuse_from_now_on(Call::kPurge);
  EXPECT_EQ(superblocks().purge(d, kPage), 0u);
  EXPECT_EQ(take_all(d).size(), live.size());
  superblocks().let_go(d);
}

TEST_F(SuperblocksPurgeTest, ABlockThatIsFreedMeanwhileIsNotLost) {
  const unsigned c = 5;
  std::vector<bool> live(Backing::size_class(c).blocks, false);
  live[7] = live[100] = true;
  const u32 d = make_with(c, live);
  const Blocks two = {reinterpret_cast<void*>(span(d) + 7 * 1360), reinterpret_cast<void*>(span(d) + 100 * 1360)};
  TestEnv::at_step("superblock.purging", [&] { free(c, two); });
  EXPECT_GT(superblocks().purge(d, kPage), 0u);
  EXPECT_EQ(backing().given, 0u);
  superblocks().let_go(d);
  EXPECT_EQ(backing().given, 1u) << "all is free now";
}

TEST_F(SuperblocksPurgeTest, APurgerThatStopsKeepsTheBlocksInItsHandsOnly) {
  const unsigned c = 5;
  std::vector<bool> live(Backing::size_class(c).blocks, false);
  live[7] = true;
  const u32 d = make_with(c, live);
  EXPECT_TRUE(ended_at("superblock.purging", [&] { superblocks().purge(d, kPage); }, 1));
  free(c, {reinterpret_cast<void*>(span(d) + 7 * 1360)});
  EXPECT_EQ(backing().spans(), 1u) << "his superblock is held for ever";
  const u32 other = superblocks().hold(c);
  EXPECT_NE(other, d);
  EXPECT_EQ(take_all(other).size(), live.size());
}

}  // namespace
}  // namespace freeway::test
