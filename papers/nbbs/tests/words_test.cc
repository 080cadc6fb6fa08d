// SPDX-License-Identifier: MIT
// words_test.cc: where nodes are, and what the bits of words mean: papers/nbbs/shape.h and stamped_word.h,
// exhaustively.
#include <gtest/gtest.h>

#include <set>

#include "os/machine.h"
#include "papers/nbbs/buddy.h"
#include "papers/nbbs/stamped_word.h"

namespace freeway::nbbs {
namespace {

template <class T> class Words : public testing::Test {};
template <unsigned k> struct Levels {
  static constexpr unsigned kLevels = k;
};
using AllLevels = testing::Types<Levels<1>, Levels<2>, Levels<3>, Levels<4>>;
TYPED_TEST_SUITE(Words, AllLevels);

TYPED_TEST(Words, EachNodeHasABitOfItsOwnInTheFirstWords) {
  using In = Bunches<TypeParam::kLevels>;
  for (unsigned levels = 1; levels <= 13; ++levels) {
    std::set<std::pair<u64, unsigned>> places;
    for (Node n = 1; n <= last_of(levels - 1); ++n) {
      const Node root = In::root(n);
      EXPECT_TRUE(covers(root, n));
      EXPECT_EQ(level_of(root) % TypeParam::kLevels, 0U);
      EXPECT_LT(level_of(n) - level_of(root), TypeParam::kLevels);
      EXPECT_LT(In::index(root), In::words(levels));
      EXPECT_GE(In::position(n), 1U);
      EXPECT_LT(In::position(n), In::kPositions);
      EXPECT_EQ(In::node(root, In::position(n)), n);
      EXPECT_TRUE(places.insert({In::index(root), In::position(n)}).second) << n;
    }
    const u64 last_word = In::index(In::root(last_of(levels - 1)));
    EXPECT_EQ(In::words(levels), last_word + 1) << "no word is there for nothing";
  }
}

TYPED_TEST(Words, ABunchHangsFromALeafOfTheOneAbove) {
  using In = Bunches<TypeParam::kLevels>;
  for (Node c = first_of(TypeParam::kLevels); c <= last_of(2 * TypeParam::kLevels); ++c) {
    if (In::root(c) != c) continue;
    EXPECT_EQ(In::upper(c), In::root(c / 2));
    EXPECT_EQ(In::parent_position(c), In::position(c / 2));
    EXPECT_EQ(In::node(In::upper(c), In::own_position(c)), c);
  }
}

// A word as a tree of k + 1 levels, the last of which are the bunches below.
TYPED_TEST(Words, ConflictsAreTheNodesAboveAndBelow) {
  using In = Bunches<TypeParam::kLevels>;
  using W = StampedWord<TypeParam::kLevels>;
  for (unsigned p = 1; p < In::kPositions; ++p)
    for (unsigned q = 1; q < 2 * In::kPositions; ++q) {
      EXPECT_EQ((W::conflicts(p) & W::bit(q)) != 0, covers(p, q) || covers(q, p)) << p << " " << q;
      EXPECT_EQ((W::occupied_over(p) & W::bit(q)) != 0, covers(q, p)) << p << " " << q;
    }
}

TYPED_TEST(Words, TheFieldsAreDisjointAndTheRestIsTheStamp) {
  using W = StampedWord<TypeParam::kLevels>;
  constexpr unsigned k = TypeParam::kLevels;
  EXPECT_EQ(popcount(W::kOccupied), (1U << k) - 1);
  EXPECT_EQ(popcount(W::kHints), 1U << k);
  EXPECT_EQ(W::kUp & W::kOccupied & W::kHints, 0U);
  EXPECT_EQ(W::kUp | W::kOccupied | W::kHints, W::kStamp - 1);
  for (u64 bits : {u64{0}, W::kUp, W::kInUse | W::kUp, W::kStamp - 1}) {
    EXPECT_EQ(W::with_stamp(bits) & (W::kStamp - 1), bits);
    EXPECT_EQ(W::with_stamp(bits) >> (2U << k), 1U);
    const u64 last = bits | ~(W::kStamp - 1);
    EXPECT_EQ(W::with_stamp(last), bits) << "the stamp wraps and carries nowhere";
    EXPECT_EQ(W::settled(bits), (bits & W::kInUse) == 0 ? bits & ~W::kUp : bits);
  }
}

TEST(Shape, StampsHaveTheWidthsThatTheComparisonOfFormsStates) {
  EXPECT_EQ(64 - log2_floor(StampedWord<1>::kStamp), 60U);
  EXPECT_EQ(64 - log2_floor(StampedWord<3>::kStamp), 48U);
  EXPECT_EQ(64 - log2_floor(StampedWord<4>::kStamp), 32U);
}

// The paper's formula, (PID % NOP) % (LS - FN), would begin above the level, never yield its last node and divide by
// zero.
TEST(Shape, StartingNodesAreAllOfTheLevelsNodes) {
  for (unsigned level = 0; level <= 6; ++level) {
    std::set<Node> starts;
    for (u64 hash = 0; hash < 1000; ++hash) starts.insert(starting_node(level, hash));
    EXPECT_EQ(starts.size(), first_of(level));
    EXPECT_EQ(*starts.begin(), first_of(level));
    EXPECT_EQ(*starts.rbegin(), last_of(level));
  }
}

TEST(Shape, AfterIsTheFirstNodeOutsideTheSubtree) {
  for (Node failed = 1; failed <= last_of(5); ++failed)
    for (unsigned level = level_of(failed); level <= 7; ++level) {
      const Node next = after(failed, level);
      EXPECT_TRUE(covers(failed, next - 1));
      EXPECT_TRUE(next == last_of(level) + 1 || !covers(failed, next));
    }
}

constexpr Settings settings(unsigned levels, unsigned levels_per_word, unsigned min_shift, unsigned max_shift) {
  return {levels, min_shift, max_shift, levels_per_word, Kind::kCorrected};
}

// Metadata. The paper's structs are of start, size, position, state or container: 32 bytes a node in the 1-level form,
// 40 and a container of 16 bytes for 15 nodes in the 4-level form.
TEST(Space, MetadataIsAWordABunch) {
  struct Case {
    unsigned levels, min_shift, max_shift;
    u64 words1, words3, words4;
  };
  // The last bunches of 16, 20 and 28 levels are whole with four levels in a word, and of one, two, one levels with
  // three.
  constexpr Case kCases[] = {{28, 3, 14, 268435455, 153391689, 17895697},
                             {20, 11, 22, 1048575, 299593, 69905},
                             {16, 7, 18, 65535, 37449, 4369}};
  for (const Case& c : kCases) {
    const u64 nodes = last_of(c.levels - 1);
    const u64 managed = u64{1} << (c.min_shift + c.levels - 1);
    const u64 paper1 = 32 * nodes, paper4 = 40 * nodes + 16 * settings(c.levels, 4, c.min_shift, c.max_shift).words();
    for (auto [k, words, paper] : {std::tuple{1U, c.words1, paper1}, {3U, c.words3, u64{0}}, {4U, c.words4, paper4}}) {
      const Settings s = settings(c.levels, k, c.min_shift, c.max_shift);
      ASSERT_TRUE(s.valid());
      EXPECT_EQ(s.words(), words);
      EXPECT_EQ(s.managed(), managed);
      const u64 ours = Buddy<Machine>::bytes(s);
      EXPECT_LE(ours, 8 * words + 128);
      std::printf("  %u levels, %u a word: %11llu bytes, %7.4f a managed byte", c.levels, k,
                  static_cast<unsigned long long>(ours), static_cast<double>(ours) / static_cast<double>(managed));
      if (paper != 0)
        std::printf("; the paper's structs %12llu, %8.4f", static_cast<unsigned long long>(paper),
                    static_cast<double>(paper) / static_cast<double>(managed));
      std::printf("\n");
      if (paper != 0) { EXPECT_LT(ours * 3, paper); }
    }
  }
}

}  // namespace
}  // namespace freeway::nbbs
