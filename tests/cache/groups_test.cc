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

#include "tests/support/random.h"

namespace freeway::test {
namespace {

using Batch = std::vector<Place>;

// Addresses that stand for a batch's blocks, none beside another: the places are the batch's.
constexpr u64 kApart = 1 << 20;
std::vector<void*> addresses(const Batch& batch) {
  std::vector<void*> blocks;
  for (std::size_t i = 0; i < batch.size(); ++i) blocks.push_back(reinterpret_cast<void*>(i * kApart));
  return blocks;
}

std::vector<Group> group(const Batch& batch) {
  Groups groups;
  unsigned asked = 0;
  const auto place = [&](void* block) {
    EXPECT_EQ(reinterpret_cast<u64>(block), asked++ * kApart) << "each place is asked for once, in order";
    return batch[reinterpret_cast<u64>(block) / kApart];
  };
  make_groups(addresses(batch).data(), static_cast<unsigned>(batch.size()), 16, 4096, place, groups);
  EXPECT_EQ(asked, batch.size());
  std::vector<Group> made;
  for (unsigned i = 0; i < groups.size(); ++i) made.push_back(groups[i]);
  return made;
}

// That the groups are the batch.
void check_all_there(const Batch& batch, const std::vector<Group>& groups) {
  std::map<u32, std::map<u64, int>> expected;  // word -> bit -> how often
  for (const Place& p : batch)
    if (p.descriptor != 0) ++expected[Group::key_of(p.descriptor, p.index / 64)][u64{1} << (p.index % 64)];
  ASSERT_LE(groups.size(), batch.size());
  for (const Group& g : groups) {
    ASSERT_NE(g.mask, 0u);
    ASSERT_LT(g.block, batch.size());
    ASSERT_EQ(batch[g.block].descriptor, g.descriptor()) << "the named block is one of the group's superblock";
    for (u64 rest = g.mask; rest != 0; rest &= rest - 1) --expected[g.key][rest & -rest];
  }
  for (const auto& [word, bits] : expected)
    for (const auto& [bit, left] : bits) ASSERT_EQ(left, 0) << "a block in no group, or in too many";
}

// Besides, that there are no more of them than `most_extra` beyond one a word.
void check(const Batch& batch, unsigned most_extra) {
  const auto groups = group(batch);
  std::map<u32, std::set<u64>> bits;
  std::size_t twice = 0;
  for (const Place& p : batch)
    if (p.descriptor != 0) twice += !bits[Group::key_of(p.descriptor, p.index / 64)].insert(p.index % 64).second;
  ASSERT_LE(groups.size(), bits.size() + twice + most_extra);
  check_all_there(batch, groups);
}

TEST(Groups, AnEmptyBatchHasNone) { EXPECT_TRUE(group({}).empty()); }

TEST(Groups, BlocksOfOneWordAreOneGroup) {
  Batch batch;
  for (u32 i = 0; i < 64; ++i) batch.push_back({7, 128 + (i * 37) % 64});
  const auto groups = group(batch);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].mask, ~u64{0});
  EXPECT_EQ(groups[0].descriptor(), 7u);
  EXPECT_EQ(groups[0].word(), 2u);
}

TEST(Groups, EveryWordOfTheLargestSuperblockIsKnown) {
  for (u32 word = 0; word < 64; ++word) {
    const auto groups = group({{9, word * 64 + 63}});
    ASSERT_EQ(groups.size(), 1u);
    EXPECT_EQ(groups[0].word(), word);
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
  std::map<u32, std::vector<u32>> entries;
  for (u32 d = 1; d < 20000; ++d) entries[(Group::key_of(d, 0) * u32{0x9e3779b9}) >> 25].push_back(d);
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

// --- Runs ----------------------------------------------------------------------------------------------------------

// Superblocks of 100 blocks of 48 bytes, one right behind the other; numbers count the blocks of all of them.
constexpr u64 kSize = 48;
constexpr u32 kBlocks = 100;
Place place_of(void* block) {
  const u64 n = reinterpret_cast<u64>(block) / kSize;
  return n == 0 ? Place{0, 0} : Place{static_cast<u32>(1 + n / kBlocks), static_cast<u32>(n % kBlocks)};
}

struct Piece {
  u32 descriptor, word;
  u64 bits;
  unsigned number;
  bool operator==(const Piece&) const = default;
};
std::vector<Piece> pieces(const std::vector<u64>& numbers) {
  std::vector<void*> blocks;
  for (const u64 n : numbers) blocks.push_back(reinterpret_cast<void*>(n * kSize));
  std::vector<Piece> found;
  each_piece(blocks.data(), static_cast<unsigned>(blocks.size()), kSize, kBlocks, place_of,
             [&](u32 descriptor, u32 word, u64 bits, unsigned i) { found.push_back({descriptor, word, bits, i}); });
  return found;
}
using Pieces = std::vector<Piece>;

TEST(Pieces, OfBlocksSideBySideAreOneWhicheverWayTheyGo) {
  EXPECT_EQ(pieces({3, 4, 5, 9}), (Pieces{{1, 0, 7 << 3, 0}, {1, 0, 1 << 9, 3}}));
  EXPECT_EQ(pieces({9, 5, 4, 3}), (Pieces{{1, 0, 1 << 9, 0}, {1, 0, 7 << 3, 3}}));
  EXPECT_EQ(pieces({7, 8, 7, 6}), (Pieces{{1, 0, 3 << 7, 0}, {1, 0, 3 << 6, 3}}));
}

TEST(Pieces, EndWhereTheStepChanges) {
  EXPECT_EQ(pieces({3, 5, 7}), (Pieces{{1, 0, 1 << 3, 0}, {1, 0, 1 << 5, 1}, {1, 0, 1 << 7, 2}}));
  EXPECT_EQ(pieces({3, 3}), (Pieces{{1, 0, 1 << 3, 0}, {1, 0, 1 << 3, 1}}));
  EXPECT_EQ(pieces({3, 4, 9, 6}), (Pieces{{1, 0, 3 << 3, 0}, {1, 0, 1 << 9, 2}, {1, 0, 1 << 6, 3}}))
      << "the last is where it would be";
  EXPECT_EQ(pieces({3, 4, 4}), (Pieces{{1, 0, 3 << 3, 0}, {1, 0, 1 << 4, 2}}));
}

TEST(Pieces, EndWithTheirWord) {
  EXPECT_EQ(pieces({62, 63, 64, 65}), (Pieces{{1, 0, u64{3} << 62, 0}, {1, 1, 3, 2}}));
  EXPECT_EQ(pieces({65, 64, 63, 62}), (Pieces{{1, 0, u64{3} << 62, 3}, {1, 1, 3, 1}}));
}

TEST(Pieces, EndWithTheirSuperblock) {
  EXPECT_EQ(pieces({98, 99, 100, 101}), (Pieces{{1, 1, u64{3} << 34, 0}, {2, 0, 3, 2}}));
  EXPECT_EQ(pieces({101, 100, 99, 98}), (Pieces{{2, 0, 3, 1}, {1, 1, u64{3} << 34, 3}}));
}

TEST(Pieces, OfWhatIsNoBlockAreNone) { EXPECT_EQ(pieces({0, 1, 2}), (Pieces{{1, 0, 3 << 1, 1}})); }

// Any batch of blocks of few superblocks, in stretches up and down: the pieces and the groups are the batch.
TEST(Pieces, OfAnyBatchAreTheBatch) {
  Random random(test_seed());
  for (int round = 0; round < 50000; ++round) {
    std::vector<u64> numbers;
    const u64 count = random.below(kBatchMax + 1);
    while (numbers.size() < count) {
      u64 n = 1 + random.below(5 * kBlocks);
      const bool up = random.chance(50);
      for (u64 length = 1 + random.below(20); length > 0 && n > 0 && numbers.size() < count; --length, up ? ++n : --n)
        numbers.push_back(n);
    }
    std::map<u64, int> expected;
    for (const u64 n : numbers) ++expected[n];
    for (const Piece& piece : pieces(numbers)) {
      const Place p = place_of(reinterpret_cast<void*>(numbers[piece.number] * kSize));
      ASSERT_TRUE(p.index / 64 == piece.word && (piece.bits >> (p.index % 64) & 1) != 0) << "the named block is in it";
      for (u64 rest = piece.bits; rest != 0; rest &= rest - 1)
        --expected[(piece.descriptor - 1) * u64{kBlocks} + piece.word * 64 + lowest_bit(rest)];
    }
    for (const auto& [n, left] : expected) ASSERT_EQ(left, 0) << n << " in round " << round;
  }
}

}  // namespace
}  // namespace freeway::test
