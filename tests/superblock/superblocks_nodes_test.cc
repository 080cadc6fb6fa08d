// SPDX-License-Identifier: MIT
//
// Tests of src/superblock/partial_lists.h and of superblocks.h on machines with several NUMA nodes: a superblock stays
// its node's, whoever lists it; others take it last, but before memory grows without bound or is refused.
#include <gtest/gtest.h>

#include <set>

#include "tests/superblock/superblocks_fixture.h"

namespace freeway::test {
namespace {

constexpr unsigned kNodes = 4;
using Partial = PartialLists<TestEnv>;

class SuperblocksNodesTest : public SuperblocksFixture {
 protected:
  void SetUp() override { make(kNodes); }
  void go_to(unsigned node) { backing().on_node = node; }

  // So many superblocks of class 1 are listed with the node, each with free blocks and others.
  std::set<u32> list_some(unsigned node, unsigned count) {
    go_to(node);
    std::set<u32> some;
    for (unsigned i = 0; i < count; ++i) {
      const u32 d = superblocks().hold(1);
      keep(take(d, 5));
      some.insert(d);
    }
    EXPECT_EQ(some.size(), count);
    for (const u32 d : some) superblocks().let_go(d);
    return some;
  }
};

TEST_F(SuperblocksNodesTest, WhatIsFreedElsewhereIsTheNodesOfItsMaker) {
  for (unsigned maker = 0; maker < kNodes; ++maker) {
    make(kNodes);
    go_to(maker);
    const u32 d = superblocks().hold(1);
    const Blocks all = take_all(d);
    superblocks().let_go(d);
    EXPECT_EQ(listed(1), 0u);
    go_to((maker + 1) % kNodes);
    free(1, {all[0], all[1]});  // this thread lists it
    EXPECT_EQ(listed(1), 1u);
    const u32 other = superblocks().hold(1);
    EXPECT_NE(other, d) << "a node keeps one";
    EXPECT_TRUE(superblocks().is_away(d));
    EXPECT_FALSE(superblocks().is_away(other));
    go_to(maker);
    EXPECT_EQ(superblocks().hold(1), d);
    EXPECT_EQ(superblocks().node_of(d), maker);
  }
}

TEST_F(SuperblocksNodesTest, TheOwnNodesComeFirst) {
  const std::set<u32> first = list_some(0, 10), second = list_some(2, 3);
  go_to(2);
  std::set<u32> found;
  for (unsigned i = 0; i < 3; ++i) found.insert(superblocks().hold(1));
  EXPECT_EQ(found, second);
  EXPECT_TRUE(first.count(superblocks().hold(1))) << "10 are more than node 0 keeps";
}

TEST_F(SuperblocksNodesTest, ANodeKeepsAnEighthAndOneMore) {
  constexpr unsigned kMany = 40;
  const std::set<u32> many = list_some(1, kMany);
  go_to(3);
  unsigned stolen = 0;
  while (many.count(superblocks().hold(1)) != 0) ++stolen;
  EXPECT_EQ(stolen, kMany - kMany / Partial::kKeptShare - 1);
  EXPECT_EQ(backing().spans(), kMany + 1);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(many.count(superblocks().hold(1)), 0u) << "new ones";
  EXPECT_EQ(listed(1), kMany - stolen);
}

TEST_F(SuperblocksNodesTest, WhenMemoryIsRefusedAllAreTaken) {
  std::set<u32> all;
  for (unsigned node = 1; node < kNodes; ++node) all.merge(list_some(node, 1));
  EXPECT_EQ(all.size(), kNodes - 1) << "each node keeps its one";
  go_to(0);
  backing().spans_left = 0;
  std::set<u32> found;
  while (const u32 d = superblocks().hold(1)) found.insert(d);
  EXPECT_EQ(found, all);
}

TEST_F(SuperblocksNodesTest, WhatWasTakenFromAnotherNodeGoesBackToIt) {
  const std::set<u32> some = list_some(1, 12);
  go_to(2);
  const u32 d = superblocks().hold(1);
  EXPECT_TRUE(some.count(d) != 0 && superblocks().is_away(d));
  superblocks().let_go(d);
  go_to(1);
  std::set<u32> found;
  for (unsigned i = 0; i < 12; ++i) found.insert(superblocks().hold(1));
  EXPECT_EQ(found, some);
}

TEST_F(SuperblocksNodesTest, NeighboursOfOtherNodesAreLeftAlone) {
  const u32 d = *list_some(1, 1).begin();
  const uptr before = superblocks().span_of(d) - Backing::size_class(1).span_bytes();
  go_to(0);
  EXPECT_EQ(superblocks().take_behind(1, before), 0u);
  go_to(1);
  EXPECT_EQ(superblocks().take_behind(1, before), d);
}

TEST_F(SuperblocksNodesTest, ADescriptorsNextLifeMayBeOnAnotherNode) {
  go_to(1);
  const u32 d = superblocks().hold(1);
  superblocks().let_go(d);  // EMPTY
  EXPECT_EQ(backing().spans(), 0u);
  go_to(3);
  EXPECT_EQ(superblocks().hold(1), d);
  EXPECT_EQ(superblocks().node_of(d), 3u);
}

TEST_F(SuperblocksNodesTest, TrimmingMeetsThoseOfAllNodes) {
  std::set<u32> all;
  for (unsigned node = 0; node < kNodes; ++node) all.merge(list_some(node, 2));
  std::set<u32> met;
  go_to(1);
  superblocks().flip_lists();
  superblocks().each_listed(1, 1000, [&](u32 d) { EXPECT_TRUE(met.insert(d).second) << "twice"; });
  EXPECT_EQ(met, all);
  EXPECT_EQ(listed(1), all.size());
}

TEST_F(SuperblocksNodesTest, NodesBeyondTheLastShareLists) {
  make(100);
  list_some(3, 4);
  go_to(3 + Partial::kMostNodes);
  for (unsigned i = 0; i < 4; ++i) EXPECT_FALSE(superblocks().is_away(superblocks().hold(1)));
  EXPECT_EQ(backing().spans(), 4u);
}

}  // namespace
}  // namespace freeway::test
