// SPDX-License-Identifier: MIT
//
// Tests of Superblocks with other threads: what one does between another's steps, what is lost when one ends for ever
// at any of its steps, and random traffic in which every block has one owner. (All interleavings: superblock_model.cc.)
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "tests/superblock/superblocks_fixture.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

class SuperblocksThreadsTest : public SuperblocksFixture {};

TEST_F(SuperblocksThreadsTest, WhatIsFreedWhileItIsLetGoIsListedByOneOfTheTwo) {
  const u32 d = superblocks().hold(2);
  const Blocks blocks = take(d, 64);
  TestEnv::at_step("superblock.let_go", [&] { free(2, {blocks[3]}); });
  superblocks().let_go(d);
  EXPECT_EQ(listed(2), 1u);
  EXPECT_EQ(superblocks().adopt(2), d);
}

TEST_F(SuperblocksThreadsTest, WhatIsFreedWhollyWhileItIsLetGoEndsOnce) {
  const u32 d = superblocks().hold(2);
  const Blocks blocks = take(d, 64);
  TestEnv::at_step("superblock.let_go", [&] { free(2, blocks); });
  superblocks().let_go(d);
  EXPECT_EQ(backing().given, 1u);
  EXPECT_EQ(listed(2), 0u);
  EXPECT_EQ(pooled(2), 1u);
}

TEST_F(SuperblocksThreadsTest, AFreerBetweenHisStepsKeepsTheSuperblockFromEnding) {
  const u32 d = superblocks().hold(1);  // a word and a bit
  const Blocks blocks = take_all(d);
  superblocks().let_go(d);
  // The first has set the bits of word 0 when the second frees all the rest.
  TestEnv::at_step("superblock.freed", [&] {
    free(1, {blocks[64]});
    EXPECT_EQ(backing().given, 0u);
  });
  free(1, {blocks.begin(), blocks.begin() + 64});
  EXPECT_EQ(backing().given, 1u);
}

TEST_F(SuperblocksThreadsTest, OneOfTwoFreersListsTheSuperblock) {
  const u32 d = superblocks().hold(1);
  const Blocks blocks = take_all(d);
  superblocks().let_go(d);
  TestEnv::at_step("superblock.claiming", [&] { free(1, {blocks[64]}); });
  free(1, {blocks[0]});
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(1), d);
}

TEST_F(SuperblocksThreadsTest, AFreerWhoIsAboutToListFindsTheNextLifeOfTheSuperblock) {
  const u32 d = superblocks().hold(2);
  const Blocks blocks = take_all(d);
  superblocks().let_go(d);
  // While he sleeps the superblock ends and is born again, full: nothing of it must be listed by him.
  TestEnv::at_step("superblock.claiming", [&] {
    free(2, {blocks.begin() + 1, blocks.end()});
    ASSERT_EQ(backing().given, 1u);
    ASSERT_EQ(superblocks().hold(2), d);
    take_all(d);
    superblocks().let_go(d);
  });
  free(2, {blocks[0]});
  EXPECT_EQ(listed(2), 0u);
  EXPECT_EQ(superblocks().adopt(2), 0u);
}

TEST_F(SuperblocksThreadsTest, APopperFindsThatItsSuperblockEnded) {
  const u32 d = superblocks().hold(2);
  const Blocks blocks = take(d, 5);
  superblocks().let_go(d);
  TestEnv::at_step("superblock.popped", [&] { free(2, blocks); });
  EXPECT_EQ(superblocks().adopt(2), 0u);
  EXPECT_EQ(backing().given, 1u);
  EXPECT_EQ(pooled(2), 1u) << "the popper recycles it";
}

// One thread's life, with all that it may be doing when it ends.
TEST_F(SuperblocksThreadsTest, AThreadThatEndsAtAnyStepStopsNobodyAndCostsWhatItHeld) {
  const char* steps[] = {
      "superblock.descriptor", "superblock.let_go", "superblock.emptied", "superblock.listing", "superblock.freed",
      "superblock.claiming",   "superblock.popped", "superblock.purging", "stack.push",         "stack.pop"};
  for (const char* step : steps)
    for (unsigned skips = 0;; ++skips) {
      make();
      Random random(7);
      const unsigned c = 1;
      // Something of everything: a full superblock, a listed one, a tombstone, a pooled descriptor.
      const u32 full = superblocks().hold(c), part = superblocks().hold(c), gone = superblocks().hold(c);
      Blocks mine = take_all(full), more = take(part, 20), few = take(gone, 2);
      for (u32 d : {full, part, gone}) superblocks().let_go(d);
      free(c, few);
      mine.insert(mine.end(), more.begin(), more.end());

      Blocks his;  // blocks that he had when he ended
      const bool ended = ended_at(
          step,
          [&] {
            for (int i = 0; i < 3; ++i) {
              const u32 two[] = {superblocks().hold(c), superblocks().hold(c)};
              for (u32 d : two) {
                // Behind the last block there is memory to give back.
                *reinterpret_cast<char*>(backing().descriptor(d).span.load_relaxed() + 3 * 4096) = 1;
                superblocks().purge(d, 4096);
                const Blocks got = take(d, 40);
                his.insert(his.end(), got.begin(), got.end());
              }
              for (u32 d : two) superblocks().let_go(d);
              while (his.size() > 30) {
                const Blocks some(his.end() - 10, his.end());
                his.resize(his.size() - 10);
                free(c, some);
              }
            }
            const Blocks first(mine.begin(), mine.begin() + 65);  // the full superblock becomes listed, then ends
            mine.erase(mine.begin(), mine.begin() + 65);
            free(c, {first[0]});
            free(c, {first.begin() + 1, first.end()});
          },
          skips);
      if (!ended) {
        EXPECT_GT(skips, 0u) << step << " was never reached";
        break;
      }

      // Everybody else goes on, and nobody gets what he had.
      std::set<void*> owned(his.begin(), his.end());
      owned.insert(mine.begin(), mine.end());
      for (int i = 0; i < 300; ++i) {
        if (random.chance(60)) {
          const u32 d = superblocks().hold(c);
          ASSERT_NE(d, 0u);
          for (void* block : take(d, static_cast<unsigned>(1 + random.below(30)))) {
            ASSERT_TRUE(owned.insert(block).second) << "a block in two hands, after " << step;
            mine.push_back(block);
          }
          superblocks().let_go(d);
        } else if (!mine.empty()) {
          const std::size_t which = random.below(mine.size());
          free(c, {mine[which]});
          owned.erase(mine[which]);
          mine.erase(mine.begin() + static_cast<long>(which));
        }
      }
      free(c, mine);
      std::set<u32> of_his;
      for (void* block : his) of_his.insert(backing().find(block).first);
      EXPECT_LE(backing().spans(), of_his.size() + 2) << step << ", passed " << skips << " times";
    }
}

TEST_F(SuperblocksThreadsTest, BetweenThreadsEveryBlockHasOneOwnerAndAllEnds) {
  constexpr unsigned kThreads = 3, kRounds = 4000;
  std::mutex mutex;
  std::vector<std::pair<unsigned, void*>> parcel;  // blocks on their way to another thread
  std::vector<std::thread> threads;
  for (unsigned t = 1; t <= kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(test_seed() + t);
      std::vector<std::pair<unsigned, void*>> mine;
      auto free_one = [&](unsigned c, void* block) {
        auto* owner = static_cast<u64*>(block);
        ASSERT_EQ(*owner, t) << "somebody else wrote to it";
        *owner = 0;
        free(c, {block});
      };
      for (unsigned i = 0; i < kRounds; ++i) {
        const auto c = static_cast<unsigned>(1 + random.below(4));
        if (random.chance(40)) {
          const u32 d = superblocks().hold(c);
          ASSERT_NE(d, 0u);
          for (void* block : take(d, static_cast<unsigned>(1 + random.below(20)))) {
            *static_cast<u64*>(block) = t;
            mine.emplace_back(c, block);
          }
          if (random.chance(10)) superblocks().purge(d, 4096);
          superblocks().let_go(d);
        }
        if (random.chance(5)) {
          superblocks().flip_lists();
          superblocks().each_listed(c, 5, [&](u32 d) { superblocks().purge(d, 4096); });
        }
        for (int n = 0; n < 6 && !mine.empty(); ++n) {
          std::swap(mine[random.below(mine.size())], mine.back());
          free_one(mine.back().first, mine.back().second);
          mine.pop_back();
        }
        if (!mine.empty() && random.chance(30)) {
          const std::lock_guard lock(mutex);
          std::swap(parcel, mine);
          for (auto& [c_of, block] : mine) *static_cast<u64*>(block) = t;
        }
      }
      for (auto [c, block] : mine) free_one(c, block);
    });
  for (auto& thread : threads) thread.join();
  for (auto [c, block] : parcel) free(c, {block});
  EXPECT_EQ(backing().spans(), 0u) << "all is free, nobody holds anything";
}

}  // namespace
}  // namespace freeway::test
