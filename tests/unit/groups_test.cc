// SPDX-License-Identifier: MIT
//
// Tests of cache/groups.h against grouping by a map: every block is in one group of its own word, blocks that are there
// twice are found, and collisions in the hash cost a group and nothing else.
#include "cache/groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "differential/random.h"

namespace freeway::test {
namespace {

using Batch = std::vector<Place>;

std::vector<Group> group(const Batch& batch) {
  Group groups[kBatchMax];
  unsigned asked = 0;
  const unsigned made = make_groups(static_cast<unsigned>(batch.size()), groups, [&](unsigned i) {
    EXPECT_EQ(i, asked++) << "each place is asked for once, in order";
    return batch[i];
  });
  EXPECT_EQ(asked, batch.size());
  return {groups, groups + made};
}

// That the groups are the batch, and no more of them than `most_extra` beyond one a word.
void check(const Batch& batch, unsigned most_extra) {
  const auto groups = group(batch);
  std::map<std::pair<u32, u32>, std::map<u64, int>> expected;  // word -> bit -> how often
  std::size_t twice = 0;
  for (const Place& p : batch)
    if (p.descriptor != 0) twice += ++expected[{p.descriptor, p.index / 64}][u64{1} << (p.index % 64)] > 1;
  ASSERT_LE(groups.size(), batch.size());
  ASSERT_LE(groups.size(), expected.size() + twice + most_extra);
  for (const Group& g : groups) {
    ASSERT_NE(g.mask, 0u);
    ASSERT_LT(g.block, batch.size());
    const Place& named = batch[g.block];
    ASSERT_EQ(named.descriptor, g.descriptor) << "the named block is one of the group's superblock";
    ASSERT_EQ(named.index / 64, g.word);
    for (u64 rest = g.mask; rest != 0; rest &= rest - 1)
      --expected[{g.descriptor, g.word}][rest & -rest];
  }
  for (const auto& [word, bits] : expected)
    for (const auto& [bit, left] : bits) ASSERT_EQ(left, 0) << "a block in no group, or in too many";
}

TEST(Groups, AnEmptyBatchHasNone) { EXPECT_TRUE(group({}).empty()); }

TEST(Groups, BlocksOfOneWordAreOneGroup) {
  Batch batch;
  for (u32 i = 0; i < 64; ++i) batch.push_back({7, 128 + (i * 37) % 64});
  const auto groups = group(batch);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].mask, ~u64{0});
  EXPECT_EQ(groups[0].descriptor, 7u);
  EXPECT_EQ(groups[0].word, 2u);
}

TEST(Groups, EveryWordOfTheLargestSuperblockIsKnown) {
  for (u32 word = 0; word < 64; ++word) {
    const auto groups = group({{9, word * 64 + 63}});
    ASSERT_EQ(groups.size(), 1u);
    EXPECT_EQ(groups[0].word, word);
    EXPECT_EQ(groups[0].mask, u64{1} << 63);
  }
}

TEST(Groups, BlocksOfAsManyWordsAsThereAreBlocksAreOneGroupEach) {
  Batch batch;
  for (u32 i = 0; i < kBatchMax; ++i) batch.push_back({i + 1, i});
  EXPECT_EQ(group(batch).size(), kBatchMax);
  check(batch, 0);
}

TEST(Groups, WhatIsNoBlockIsSkipped) {
  const auto groups = group({{0, 0}, {3, 5}, {0, 9}, {3, 6}, {0, 1}});
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].mask, u64{3} << 5);
  EXPECT_EQ(groups[0].block, 1u);
  EXPECT_TRUE(group({{0, 0}, {0, 1}}).empty());
}

TEST(Groups, ABlockThatIsThereTwiceIsInTwoGroups) {
  const auto groups = group({{3, 5}, {3, 6}, {3, 5}, {3, 7}, {3, 5}});
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].mask, u64{7} << 5);
  EXPECT_EQ(groups[1].mask, u64{1} << 5);
  EXPECT_EQ(groups[2].mask, u64{1} << 5);
}

TEST(Groups, ABatchOfOneBlockOnlyFitsToo) { check(Batch(kBatchMax, Place{1, 0}), 0); }

TEST(Groups, TurnsBetweenTwoWordsMakeTwoGroupsUnlessTheyCollide) {
  int collisions = 0;
  for (u32 other = 1; other < 64; ++other) {
    Batch batch;
    for (u32 i = 0; i < 32; ++i) {
      batch.push_back({5, i});
      batch.push_back({5, 64 * other + i});
    }
    collisions += group(batch).size() != 2;
    check(batch, kBatchMax);
  }
  EXPECT_LE(collisions, 3);
}

TEST(Groups, CollisionsLoseNothing) {
  // Words whose keys fall into one entry of the hash, whatever it is: of 20000 descriptors many must.
  std::map<u64, std::vector<u32>> entries;
  for (u32 d = 1; d < 20000; ++d) entries[((u64{d} << 6) * 0x9e3779b97f4a7c15u) >> 57].push_back(d);
  Random random(test_seed());
  for (const auto& [entry, descriptors] : entries) {
    Batch batch;
    ASSERT_GE(descriptors.size(), 2u);
    for (u32 i = 0; i < kBatchMax; ++i) {
      const u32 d = descriptors[random.below(std::min<std::size_t>(descriptors.size(), 5))];
      batch.push_back({d, static_cast<u32>(random.below(64))});
    }
    check(batch, kBatchMax);
  }
}

TEST(Groups, AnyBatchIsGroupedAsByAMap) {
  Random random(test_seed());
  for (int round = 0; round < 50000; ++round) {
    Batch batch;
    const u64 count = random.below(kBatchMax + 1), superblocks = 1 + random.below(20), blocks = 1 + random.below(4096);
    const bool in_order = random.chance(30);
    for (u64 i = 0; i < count; ++i) {
      const auto d = static_cast<u32>(random.chance(3) ? 0 : (1 + random.below(superblocks)) * 977);
      batch.push_back({d, static_cast<u32>(in_order ? i : random.below(blocks))});
    }
    if (in_order) std::sort(batch.begin(), batch.end(), [](Place a, Place b) { return a.descriptor < b.descriptor; });
    check(batch, kBatchMax);
    if (testing::Test::HasFatalFailure()) FAIL() << "round " << round;
  }
}

}  // namespace
}  // namespace freeway::test
