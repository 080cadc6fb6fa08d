// SPDX-License-Identifier: MIT
// tree_test.cc: every form of the tree against an oracle, one thread: all sequences of moves on small trees, random
// ones on bigger trees with level counts of all kinds.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <set>
#include <vector>

#include "papers/nbbs/published_optimized.h"
#include "papers/nbbs/spin_tree.h"
#include "tests/support/test_env.h"

namespace freeway::nbbs {
namespace {

using test::TestEnv;
using Word = TestEnv::Atomic<u64>;

// What the words say apart from stamps: nothing but blocks in use.
template <class Tree> struct Form {
  static u64 mask() {
    if constexpr (requires { Tree::W::kStamp; }) return Tree::W::kStamp - 1;
    return ~u64{0};
  }
};

template <class Tree> struct World {
  explicit World(unsigned tree_levels) : levels(tree_levels), words(Tree::In::words(tree_levels)), tree(make()) {}

  Tree make() {
    if constexpr (requires { Tree(words.data(), levels, &lock); }) return Tree(words.data(), levels, &lock);
    else return Tree(words.data(), levels);
  }
  std::vector<u64> snapshot() const {
    std::vector<u64> all;
    for (const Word& word : words) all.push_back(word.load_relaxed() & Form<Tree>::mask());
    return all;
  }
  // The block that keeps n from being had; 0: none.
  Node oracle(Node n) const {
    for (Node b : blocks)
      if (covers(b, n) || covers(n, b)) return b;
    return 0;
  }
  void alloc(Node n) {
    const std::vector<u64> before = snapshot();
    const Node failed = tree.alloc(n);
    const Node by = oracle(n);
    ASSERT_EQ(failed != 0, by != 0) << "node " << n << " of " << levels << " levels";
    if (failed == 0) {
      blocks.insert(n);
    } else {
      ASSERT_EQ(snapshot(), before) << "a failed allocation leaves the tree as if it had never been called";
      ASSERT_TRUE(covers(failed, n));
      if (covers(by, n)) { ASSERT_TRUE(covers(by, failed)) << "the search may skip no free node"; }
    }
  }
  void free(Node n) { ASSERT_EQ(tree.free_node(n), blocks.erase(n) == 1) << n; }
  // Everything that can be asked without changing anything.
  void check_questions() {
    for (Node n = 1; n <= last_of(levels - 1); ++n) {
      Node next = tree.seek(n);
      ASSERT_LE(next, last_of(level_of(n)) + 1);
      for (Node skipped = n; skipped < next; ++skipped) ASSERT_NE(oracle(skipped), 0U) << "seek skips a free node";
      if constexpr (requires { tree.in_use(1); }) {
        ASSERT_EQ(next == n, oracle(n) == 0) << "seek " << n;
        Node over = 0;
        for (Node b : blocks)
          if (covers(b, n)) over = b;
        ASSERT_EQ(tree.occupied_over(n), over);
      }
    }
    if constexpr (requires { tree.each_block([](Node) {}); }) {
      std::set<Node> seen;
      tree.each_block([&](Node n) { seen.insert(n); });
      ASSERT_EQ(seen, blocks);
    }
  }

  unsigned levels;
  std::vector<Word> words;
  TestEnv::Atomic<u32> lock;
  Tree tree;
  std::set<Node> blocks;
};

template <class Tree> class Trees : public testing::Test {};
using AllTrees =
    testing::Types<StampedTree<TestEnv, 1, false>, StampedTree<TestEnv, 1, true>, StampedTree<TestEnv, 3, false>,
                   StampedTree<TestEnv, 3, true>, StampedTree<TestEnv, 4, false>, StampedTree<TestEnv, 4, true>,
                   SpinTree<TestEnv, 1>, SpinTree<TestEnv, 3>, SpinTree<TestEnv, 4>,
                   PublishedSimplifiedTree<TestEnv, 1>, PublishedSimplifiedTree<TestEnv, 3>,
                   PublishedOptimizedTree<TestEnv, false>, PublishedOptimizedTree<TestEnv, true>>;
TYPED_TEST_SUITE(Trees, AllTrees);

// All sequences of `more` moves from here: each node is freed if it is a block, else allocated.
template <class Tree> void every_sequence(World<Tree>& world, unsigned more) {
  if (more == 0) return;
  for (Node n = 1; n <= last_of(world.levels - 1); ++n) {
    if (world.blocks.count(n) != 0) {
      world.free(n);
      every_sequence(world, more - 1);
      world.alloc(n);
    } else {
      world.alloc(n);
      if (testing::Test::HasFatalFailure()) return;
      const bool got = world.blocks.count(n) != 0;
      if (got) every_sequence(world, more - 1);
      if (got) world.free(n);
    }
    if (testing::Test::HasFatalFailure()) return;
  }
}

TYPED_TEST(Trees, EverySequenceOfMovesOnSmallTreesDoesWhatTheOracleSays) {
  for (unsigned levels = 1; levels <= 5; ++levels) {
    World<TypeParam> world(levels);
    every_sequence(world, levels <= 3 ? 5 : 3);
    ASSERT_FALSE(this->HasFatalFailure());
    for (u64 word : world.snapshot()) ASSERT_EQ(word, 0U);
  }
}

// One to thirteen levels: with three and four levels in a word, last bunches of every height.
TYPED_TEST(Trees, RandomMovesOnTreesOfAnyHeightDoWhatTheOracleSays) {
  const char* given = std::getenv("FREEWAY_TEST_SEED");
  const u64 seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("FREEWAY_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (unsigned levels = 1; levels <= 13; ++levels) {
    World<TypeParam> world(levels);
    const bool small = levels <= 7;
    for (int move = 0; move < (small ? 120 : 300); ++move) {
      const unsigned level = static_cast<unsigned>(random() % levels);
      const Node n = first_of(level) + random() % first_of(level);
      if (random() % 2 == 0 && !world.blocks.empty()) {
        auto block = world.blocks.lower_bound(n);
        world.free(block == world.blocks.end() ? *world.blocks.begin() : *block);
      } else {
        world.alloc(n);
      }
      ASSERT_FALSE(this->HasFatalFailure()) << "seed " << seed;
      if (small || move % 100 == 0) world.check_questions();
      ASSERT_FALSE(this->HasFatalFailure()) << "seed " << seed;
    }
    while (!world.blocks.empty()) world.free(*world.blocks.begin());
    if constexpr (requires { world.tree.in_use(1); }) {
      for (u64 word : world.snapshot()) ASSERT_EQ(word, 0U) << "what was freed leaves no trace but stamps";
    }
  }
}

TYPED_TEST(Trees, FreeOfWhatIsNoBlockDoesNothing) {
  World<TypeParam> world(6);
  EXPECT_FALSE(world.tree.free_node(5));
  world.alloc(40);
  const auto before = world.snapshot();
  EXPECT_FALSE(world.tree.free_node(41));
  EXPECT_EQ(world.snapshot(), before);
  world.free(40);
  EXPECT_FALSE(world.tree.free_node(40));
}

// Whatever is below an occupied node fails, in any word, and the search learns why. (The published 4-level words cannot
// tell a block from two smaller ones side by side; a part of it is named then.)
TYPED_TEST(Trees, ABiggerBlockIsNamedAsTheReason) {
  World<TypeParam> world(9);
  world.alloc(2);
  const Node failed = world.tree.alloc(first_of(8));
  EXPECT_TRUE(covers(2, failed));
  if constexpr (requires { world.tree.occupied_over(1); }) { EXPECT_EQ(failed, 2U); }
  EXPECT_EQ(world.tree.alloc(last_of(8)), 0U);
}

}  // namespace
}  // namespace freeway::nbbs
