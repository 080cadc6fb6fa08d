// SPDX-License-Identifier: MIT
// atomic_operations_test.cc: how many atomic read-modify-writes an allocation and a free make, counted, one thread.
//
// The paper's claim is that an allocation makes about one CAS a level (1-level form), or one every four levels, and a
// free about twice that. What counts: every CAS, fetch_or and exchange that is executed. Not: the release store of the
// 1-level free.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "papers/nbbs/buddy.h"
#include "tests/support/test_env.h"

namespace freeway::nbbs {
namespace {

using CountingBuddy = Buddy<test::TestEnv>;

struct Counts {
  double alloc = 0, free = 0;  // per operation
  u64 most_alloc = 0, most_free = 0;
};

// The paper's mix: an allocation or a free with the same probability, 2^i smallest blocks, i from 0 to 11. Which block
// a free picks (a random one of ours) and what a failed allocation is (an operation that is not counted here) the paper
// leaves open. `scattered`: each search begins at a random node, as if each were another thread's; else all at the
// same.
Counts count_mix(const Settings& settings, bool scattered) {
  std::vector<u64> memory(CountingBuddy::bytes(settings) / 8 + 8);
  auto* buddy = reinterpret_cast<CountingBuddy*>(align_up(reinterpret_cast<uptr>(memory.data()), 64));
  buddy->init(settings);
  std::mt19937_64 random(20171025);
  std::vector<Node> live;
  u64 allocs = 0, frees = 0;
  Counts counts;
  const auto counted = [&](u64& times, double& sum, u64& most, auto&& operation) {
    const u64 before = rmw_count;
    operation();
    const u64 made = rmw_count - before;
    ++times;
    sum += static_cast<double>(made);
    most = made > most ? made : most;
  };
  for (int i = 0; i < 100000; ++i) {
    if (random() % 2 == 0 || live.empty()) {
      const unsigned level = settings.levels - 1 - static_cast<unsigned>(random() % 12);
      const u64 before = rmw_count;
      const Node n = buddy->take(level, starting_node(level, scattered ? random() : 1));
      if (n == 0) continue;
      live.push_back(n);
      ++allocs;
      counts.alloc += static_cast<double>(rmw_count - before);
      counts.most_alloc = std::max(counts.most_alloc, rmw_count - before);
    } else {
      std::swap(live[random() % live.size()], live.back());
      counted(frees, counts.free, counts.most_free, [&] { buddy->give(live.back()); });
      live.pop_back();
    }
  }
  counts.alloc /= static_cast<double>(allocs);
  counts.free /= static_cast<double>(frees);
  return counts;
}

// Words on the path of the lowest blocks.
unsigned depth(const Settings& s) { return (s.levels + s.levels_per_word - 1) / s.levels_per_word; }

TEST(AtomicOperations, AreAtMostTheDepthInTheCorrectedForm) {
  constexpr const char* kNames[] = {"corrected", "corrected, UP", "published", "spin"};
  std::printf("  RMWs per operation (most); searches begin at random nodes, or all at one\n");
  for (unsigned levels : {16U, 20U, 28U})
    for (unsigned k : {1U, 3U, 4U}) {
      if (levels == 28 && k != 4) continue;  // gigabytes of words
      double published_free[2] = {};
      for (Kind kind : {Kind::kPublished, Kind::kCorrected, Kind::kCorrectedUp, Kind::kSpin}) {
        std::printf("  %2u levels, %u a word, %-13s", levels, k, kNames[static_cast<unsigned>(kind)]);
        for (bool scattered : {true, false}) {
          const Settings s{levels, 3, 14, k, kind};
          const Counts counts = count_mix(s, scattered);
          std::printf("   alloc %5.1f (%3llu) free %5.1f (%2llu)", counts.alloc,
                      static_cast<unsigned long long>(counts.most_alloc), counts.free,
                      static_cast<unsigned long long>(counts.most_free));
          switch (kind) {
            case Kind::kPublished:
              published_free[scattered] = counts.free;
              EXPECT_GE(counts.most_free, 2 * depth(s) - 2) << "about twice the depth, as the paper says";
              break;
            case Kind::kCorrected:
              EXPECT_LE(counts.alloc, depth(s)) << "an allocation is at most the depth";
              EXPECT_LE(counts.most_free, depth(s)) << "and so is a free";
              EXPECT_LT(counts.free, published_free[scattered]);
              break;
            case Kind::kCorrectedUp: EXPECT_LE(counts.most_free, depth(s)); break;
            case Kind::kSpin: EXPECT_EQ(counts.free, 1.0) << "the lock"; break;
          }
        }
        std::printf("\n");
      }
    }
}

// One block and nothing else: the exact counts. Nobody is in the way, so no CAS fails.
TEST(AtomicOperations, OfOneBlockAreExact) {
  for (unsigned levels : {5U, 8U, 16U, 17U, 20U})
    for (unsigned k : {1U, 3U, 4U})
      for (Kind kind : {Kind::kCorrected, Kind::kCorrectedUp, Kind::kPublished}) {
        const Settings s{levels, 4, 4 + levels - 1, k, kind};
        std::vector<u64> memory(CountingBuddy::bytes(s) / 8 + 8);
        auto* buddy = reinterpret_cast<CountingBuddy*>(align_up(reinterpret_cast<uptr>(memory.data()), 64));
        buddy->init(s);
        const u64 d = depth(s);
        for (int round = 0; round < 2; ++round) {
          rmw_count = 0;
          ASSERT_TRUE(buddy->take_node(last_of(levels - 1)));
          const u64 ups = kind == Kind::kCorrectedUp ? d - 1 : 0;
          EXPECT_EQ(rmw_count, d + ups) << levels << " levels, " << k << " a word";
          rmw_count = 0;
          ASSERT_TRUE(buddy->give(last_of(levels - 1)));
          u64 expected = k == 1 ? d - 1 : d;                                   // a store, or a CAS, and d - 1 clears
          if (kind == Kind::kPublished && k == 1) expected = 2 * (d - 1);      // mark, store, unmark
          if (kind == Kind::kPublished && k == 4) expected = 2 * (d - 1) + 1;  // mark, CAS, unmark
          if (kind == Kind::kPublished && k == 3) expected = rmw_count;        // not spelled out by the paper
          EXPECT_EQ(rmw_count, expected) << levels << " levels, " << k << " a word";
        }
      }
}

// With UP an allocation in a word that is in use is one RMW, however high the tree.
TEST(AtomicOperations, InAWordInUseIsOneWithUp) {
  for (unsigned k : {3U, 4U}) {
    const Settings s{20, 4, 23, k, Kind::kCorrectedUp};
    std::vector<u64> memory(CountingBuddy::bytes(s) / 8 + 8);
    auto* buddy = reinterpret_cast<CountingBuddy*>(align_up(reinterpret_cast<uptr>(memory.data()), 64));
    buddy->init(s);
    ASSERT_TRUE(buddy->take_node(first_of(19)));
    rmw_count = 0;
    ASSERT_TRUE(buddy->take_node(first_of(19) + 1));
    EXPECT_EQ(rmw_count, 1U);
    ASSERT_TRUE(buddy->give(first_of(19) + 1));
    EXPECT_EQ(rmw_count, 2U) << "and so is its free";
  }
}

// A failed allocation is one RMW more than what it climbed, and the same down.
TEST(AtomicOperations, ASearchSkipsABiggerBlockWithoutAny) {
  const Settings s{20, 4, 23, 4, Kind::kCorrected};
  std::vector<u64> memory(CountingBuddy::bytes(s) / 8 + 8);
  auto* buddy = reinterpret_cast<CountingBuddy*>(align_up(reinterpret_cast<uptr>(memory.data()), 64));
  buddy->init(s);
  ASSERT_TRUE(buddy->take_node(2));  // half of it
  rmw_count = 0;
  EXPECT_EQ(buddy->take(19, first_of(19)), first_of(19) + first_of(18)) << "the first behind it";
  EXPECT_EQ(rmw_count, 5U);
}

}  // namespace
}  // namespace freeway::nbbs
