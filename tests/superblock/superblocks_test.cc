// SPDX-License-Identifier: MIT
//
// Tests of superblock/superblocks.h, one thread at a time: what each operation hands out and gives back, in every state
// that a superblock can be in. What threads do to each other is in superblocks_threads_test.cc and in
// superblock_model.cc.
#include "superblock/superblocks.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "os/random.h"
#include "tests/superblock/superblocks_fixture.h"
#include "tests/support/random.h"

namespace freeway::test {
namespace {

class SuperblocksTest : public SuperblocksFixture {
 protected:
  // Lists a superblock of class 1, and as many tombstones on top of it. Returns the superblock.
  u32 bury_under(unsigned tombstones) {
    std::vector<u32> held;
    Blocks first;
    for (unsigned i = 0; i <= tombstones; ++i) {
      held.push_back(superblocks().hold(1));
      first.push_back(take(held.back(), 1)[0]);
    }
    for (u32 d : held) superblocks().let_go(d);
    for (unsigned i = tombstones; i > 0; --i) free(1, {first[i]});
    EXPECT_EQ(backing().spans(), 1u);
    EXPECT_EQ(listed(1), tombstones + 1);
    return held[0];
  }
};

TEST(DescriptorLayout, ADescriptorIsALineAndItsWords) {
  using D = Descriptor<TestEnv>;
  for (unsigned words = 1; words <= kMaxWords; ++words)
    EXPECT_EQ(D::bytes(words), 64 + align_up(words * 8, 64)) << words;
  EXPECT_EQ(offsetof(D, words), 64u);
}

TEST_F(SuperblocksTest, EveryBlockIsHandedOutOnceInAddressOrder) {
  for (unsigned c = 1; c < Backing::kClasses; ++c)
    for (unsigned want : {1u, 3u, 64u}) {
      const SizeClass& k = Backing::size_class(c);
      const u32 d = superblocks().hold(c);
      ASSERT_NE(d, 0u);
      const uptr span = backing().descriptor(d).span.load_relaxed();
      std::vector<void*> all;
      void* out[64];
      while (const unsigned got = superblocks().take(d, want, out)) {
        ASSERT_LE(got, want);
        all.insert(all.end(), out, out + got);
      }
      ASSERT_EQ(all.size(), k.blocks);
      for (u32 i = 0; i < k.blocks; ++i) ASSERT_EQ(reinterpret_cast<uptr>(all[i]), span + u64{i} * k.size);
      superblocks().let_go(d);
      free(c, all);
      ASSERT_EQ(backing().spans(), 0u);
    }
}

TEST_F(SuperblocksTest, ACutIsARunOnlyIfAllItsBlocksLieSideBySideInOneWord) {
  const u64 size = Backing::size_class(4).size;
  const u32 d = superblocks().hold(4);  // 3 words and a bit
  const uptr span = backing().descriptor(d).span.load_relaxed();
  void* out[64] = {};
  Cut got = superblocks().cut(d, 64, out);
  EXPECT_EQ(got.run, span);
  EXPECT_EQ(got.count, 64u);
  EXPECT_EQ(out[0], nullptr) << "no address is written";
  got = superblocks().cut(d, 30, out);
  EXPECT_EQ(got.run, span + 64 * size);
  got = superblocks().cut(d, 34, out);
  EXPECT_EQ(got.run, span + 94 * size) << "the rest of a word";
  EXPECT_EQ(got.count, 34u);
  const auto at = [&](u64 i) { return reinterpret_cast<void*>(span + i * size); };
  free(4, {at(3), at(5), at(6)});
  got = superblocks().cut(d, 64, out);
  EXPECT_EQ(got.run, span + 128 * size);
  got = superblocks().cut(d, 3, out);  // one is left above, two come from below
  EXPECT_EQ(got.run, 0u) << "not in one word";
  EXPECT_EQ(std::vector<void*>(out, out + got.count), (std::vector<void*>{at(192), at(3), at(5)}));
  got = superblocks().cut(d, 2, out);
  EXPECT_EQ(got.run, 0u) << "fewer than wanted";
  EXPECT_EQ(std::vector<void*>(out, out + got.count), (std::vector<void*>{at(6)}));
  EXPECT_EQ(superblocks().cut(d, 1, out).count, 0u);
  superblocks().let_go(d);
  std::vector<void*> all;
  for (u64 i = 0; i < Backing::size_class(4).blocks; ++i) all.push_back(at(i));
  free(4, all);
}

TEST_F(SuperblocksTest, AFewBlocksAtTheEndOfAWordAreNoRunOfMore) {
  const u32 d = superblocks().hold(4);
  const auto blocks = take_all(d);
  free(4, {blocks[62], blocks[63]});
  void* out[64] = {};
  const Cut got = superblocks().cut(d, 64, out);
  EXPECT_EQ(got.count, 2u);
  EXPECT_EQ(got.run, 0u);
  EXPECT_EQ(std::vector<void*>(out, out + 2), (std::vector<void*>{blocks[62], blocks[63]}));
  superblocks().let_go(d);
  free(4, blocks);
}

TEST_F(SuperblocksTest, TakingGoesOnWhereItStoppedAndComesAroundOnce) {
  const u32 d = superblocks().hold(4);  // 3 words and a bit
  std::vector<void*> first = take(d, 64), second = take(d, 30);
  free(4, {first[7], first[3]});  // below the place where taking stopped
  std::vector<void*> rest;
  while (true) {
    const auto some = take(d, 50);
    if (some.empty()) break;
    rest.insert(rest.end(), some.begin(), some.end());
  }
  EXPECT_EQ(rest.size(), 193 - 94 + 2u);
  EXPECT_TRUE(std::is_sorted(rest.begin(), rest.end() - 2)) << "upwards";
  EXPECT_EQ(rest.end()[-2], first[3]);
  EXPECT_EQ(rest.end()[-1], first[7]);
}

TEST_F(SuperblocksTest, ASuperblockOfWhichNothingWasTakenEndsWhenItIsLetGo) {
  const u32 d = superblocks().hold(1);
  EXPECT_EQ(backing().spans(), 1u);
  superblocks().let_go(d);
  EXPECT_EQ(backing().spans(), 0u);
  EXPECT_EQ(backing().given, 1u);
  EXPECT_EQ(superblocks().hold(1), d) << "its descriptor serves again";
  EXPECT_EQ(backing().descriptors(), 1u);
}

TEST_F(SuperblocksTest, ASuperblockWithFreeBlocksIsListedAndAdopted) {
  const u32 d = superblocks().hold(1);
  const auto blocks = take(d, 10);
  EXPECT_EQ(superblocks().adopt(1), 0u) << "it is held";
  superblocks().let_go(d);
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(2), 0u) << "it is of another class";
  EXPECT_EQ(superblocks().adopt(1), d);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  const auto more = take(d, 64);
  EXPECT_EQ(more.size(), 55u) << "those that were taken before are not handed out again";
  for (void* block : blocks) EXPECT_EQ(std::count(more.begin(), more.end(), block), 0);
}

TEST_F(SuperblocksTest, AFullSuperblockIsInNoListUntilABlockOfItIsFreed) {
  const u32 d = superblocks().hold(2);
  const auto blocks = take(d, 64);
  superblocks().let_go(d);
  EXPECT_EQ(listed(2), 0u);
  EXPECT_EQ(superblocks().adopt(2), 0u);
  free(2, {blocks[20]});
  EXPECT_EQ(listed(2), 1u);
  free(2, {blocks[21]});
  EXPECT_EQ(listed(2), 1u) << "once";
  EXPECT_EQ(superblocks().adopt(2), d);
  EXPECT_EQ(take(d, 64), (std::vector<void*>{blocks[20], blocks[21]}));
}

TEST_F(SuperblocksTest, WhatIsFreedWhileASuperblockIsHeldNeitherEndsNorListsIt) {
  const u32 d = superblocks().hold(1);
  const auto blocks = take(d, 64);
  free(1, blocks);
  EXPECT_EQ(backing().spans(), 1u);
  EXPECT_EQ(listed(1), 0u);
  EXPECT_FALSE(take(d, 1).empty()) << "the holder finds it";
  superblocks().let_go(d);
  EXPECT_EQ(listed(1), 1u);
}

TEST_F(SuperblocksTest, TheLastFreeOfAnUnlistedSuperblockEndsIt) {
  const u32 d = superblocks().hold(kOneBlock);
  const auto block = take(d, 1);
  superblocks().let_go(d);
  free(kOneBlock, block);
  EXPECT_EQ(backing().spans(), 0u);
  EXPECT_EQ(listed(kOneBlock), 0u);
  EXPECT_EQ(superblocks().hold(kOneBlock), d);
}

TEST_F(SuperblocksTest, TheLastFreeOfAListedSuperblockLeavesATombstoneThatIsRecycled) {
  const u32 d = superblocks().hold(1);
  const auto blocks = take(d, 10);
  superblocks().let_go(d);
  free(1, blocks);
  EXPECT_EQ(backing().spans(), 0u) << "the span goes at once";
  EXPECT_EQ(listed(1), 1u) << "the descriptor is still there";
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(listed(1), 0u);
  EXPECT_EQ(superblocks().hold(1), d);
}

TEST_F(SuperblocksTest, AnAdopterWalksOverEightTombstonesInOneCall) {
  const u32 d = bury_under(19);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(listed(1), 12u);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(listed(1), 4u);
  EXPECT_EQ(superblocks().adopt(1), d);
}

TEST_F(SuperblocksTest, TrimmingFindsASuperblockUnderAnyNumberOfTombstones) {
  const u32 d = bury_under(1000);
  superblocks().flip_lists();
  std::vector<u32> met;
  superblocks().each_listed(1, 1, [&](u32 found) { met.push_back(found); });
  EXPECT_EQ(met, std::vector<u32>{d});
  EXPECT_EQ(listed(1), 1u) << "the tombstones are gone";
}

// --- Held without its list -----------------------------------------------------------------------------------------

class BesideItsEntry : public SuperblocksTest {
 protected:
  // A superblock of class 1 with some blocks taken, in a list.
  void SetUp() override {
    SuperblocksTest::SetUp();
    d_ = superblocks().hold(1);
    blocks_ = take(d_, 10);
    span_ = superblocks().span_of(d_);
    superblocks().let_go(d_);
  }
  static constexpr uptr kSpan = kFrameSize;
  u32 find() { return superblocks().take_behind(1, span_ - kSpan); }

  u32 d_ = 0;
  uptr span_ = 0;
  Blocks blocks_;
};

TEST_F(BesideItsEntry, ItIsFoundAmongTheNextFewSpansOfItsClass) {
  EXPECT_EQ(superblocks().take_behind(2, span_ - kSpan), 0u) << "another class";
  EXPECT_EQ(superblocks().take_behind(1, span_), 0u) << "it lies before";
  EXPECT_EQ(superblocks().take_behind(1, span_ - 5 * kSpan), 0u) << "too far";
  for (unsigned i = 1; i <= 4; ++i) {
    ASSERT_EQ(superblocks().take_behind(1, span_ - i * kSpan), d_);
    EXPECT_EQ(find(), 0u) << "it is held";
    superblocks().let_go(d_);
    EXPECT_EQ(listed(1), 1u);
  }
  EXPECT_EQ(superblocks().hold_behind(1, span_ - kSpan), d_);
}

TEST_F(BesideItsEntry, WhoPopsTheEntryDropsItAndTheHolderListsIt) {
  ASSERT_EQ(find(), d_);
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(listed(1), 0u);
  superblocks().let_go(d_);
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(1), d_);
}

TEST_F(BesideItsEntry, UsedUpItStaysInItsListUntilSomebodyPopsIt) {
  ASSERT_EQ(find(), d_);
  keep(take_all(d_));
  superblocks().let_go(d_);
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(find(), 0u) << "nothing is free there";
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(listed(1), 0u);
  free(1, {blocks_[0]});  // now it is like any that was used up
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(1), d_);
}

TEST_F(BesideItsEntry, UsedUpAndFreedAgainItIsStillListedOnce) {
  ASSERT_EQ(find(), d_);
  keep(take_all(d_));
  superblocks().let_go(d_);
  free(1, {blocks_[0]});
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(superblocks().adopt(1), d_);
  EXPECT_EQ(take(d_, 64).size(), 1u);
}

TEST_F(BesideItsEntry, EmptyItLeavesATombstone) {
  ASSERT_EQ(find(), d_);
  free(1, blocks_);
  superblocks().let_go(d_);
  EXPECT_EQ(backing().spans(), 0u);
  EXPECT_EQ(listed(1), 1u);
  EXPECT_EQ(pooled(1), 0u);
  EXPECT_EQ(find(), 0u);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  EXPECT_EQ(pooled(1), 1u);
}

TEST_F(BesideItsEntry, EmptyAfterItsEntryWasDroppedItIsRecycled) {
  ASSERT_EQ(find(), d_);
  free(1, blocks_);
  EXPECT_EQ(superblocks().adopt(1), 0u);
  superblocks().let_go(d_);
  EXPECT_EQ(backing().spans(), 0u);
  EXPECT_EQ(listed(1), 0u);
  EXPECT_EQ(pooled(1), 1u);
}

TEST_F(BesideItsEntry, WithoutAnythingListedANewOneIsMadeAtOnce) {
  ASSERT_EQ(superblocks().adopt(1), d_);
  const u32 other = superblocks().hold_behind(1, span_ - kSpan);
  EXPECT_NE(other, d_);
  EXPECT_NE(other, 0u);
}

TEST_F(BesideItsEntry, ManyDroppedEntriesDoNotHideOneBelowThem) {
  ASSERT_EQ(superblocks().adopt(1), d_);
  std::vector<u32> held = {d_};
  while (held.size() < 40) {
    held.push_back(superblocks().hold(1));
    keep(take(held.back(), 1));
  }
  for (const u32 d : held) superblocks().let_go(d);
  for (std::size_t i = 1; i < held.size(); ++i)
    ASSERT_EQ(superblocks().take_behind(1, superblocks().span_of(held[i]) - kSpan), held[i]);
  EXPECT_EQ(superblocks().adopt(1), d_) << "at the bottom";
  EXPECT_EQ(listed(1), 0u);
}

TEST_F(SuperblocksTest, SeveralGroupsOfOneSuperblockEndItOnce) {
  const u32 d = superblocks().hold(4);
  std::vector<void*> blocks = take_all(d);
  superblocks().let_go(d);
  Random random(test_seed());
  while (!blocks.empty()) {
    const std::size_t n = 1 + random.below(blocks.size());
    std::vector<void*> some;
    for (std::size_t i = 0; i < n; ++i) {
      const std::size_t which = random.below(blocks.size());
      some.push_back(blocks[which]);
      blocks.erase(blocks.begin() + static_cast<long>(which));
    }
    EXPECT_EQ(backing().given, 0u);
    free(4, some);
  }
  EXPECT_EQ(backing().given, 1u);
}

TEST_F(SuperblocksTest, ADoubleFreeIsNamedExactlyAndChangesNothing) {
  for (unsigned others : {0u, 1u}) {  // alone, and in one group with blocks that may be freed
    const u32 d = superblocks().hold(2);
    const uptr span = backing().descriptor(d).span.load_relaxed();
    const auto blocks = take(d, 64);
    superblocks().let_go(d);
    free(2, {blocks[5], blocks[9]});
    const u64 good = others == 0 ? 0 : u64{1} << 6 | u64{1} << 63;
    const u64 anchor = backing().descriptor(d).anchor.load_relaxed();
    EXPECT_EQ(superblocks().free_group(2, d, span, 0, u64{1} << 5 | u64{1} << 9 | good), u64{1} << 5 | u64{1} << 9);
    EXPECT_EQ(backing().descriptor(d).anchor.load_relaxed(), anchor);
    EXPECT_EQ(backing().descriptor(d).words[0].load_relaxed(), u64{1} << 5 | u64{1} << 9 | good);
    EXPECT_EQ(listed(2), 1u);
    // All the others, and again some that were freed: it ends, once.
    EXPECT_EQ(superblocks().free_group(2, d, span, 0, ~u64{0}), u64{1} << 5 | u64{1} << 9 | good);
    EXPECT_EQ(backing().spans(), 0u);
    EXPECT_EQ(superblocks().adopt(2), 0u);
  }
}

TEST_F(SuperblocksTest, ADoubleFreeOfAHeldSuperblocksBlockIsNamed) {
  const u32 d = superblocks().hold(1);
  const uptr span = backing().descriptor(d).span.load_relaxed();
  EXPECT_EQ(superblocks().free_group(1, d, span, 1, 1), 1u) << "it was never taken";
  superblocks().let_go(d);
  EXPECT_EQ(backing().spans(), 0u) << "the counts are right";
}

TEST_F(SuperblocksTest, ABlockIsSaidToBeFreeUntilItIsTaken) {
  const u32 d = superblocks().hold(4);
  const Blocks blocks = take(d, 64);
  for (u32 i = 0; i < 193; ++i) ASSERT_EQ(superblocks().is_free(d, i), i >= 64);
  free(4, {blocks[63]});
  EXPECT_TRUE(superblocks().is_free(d, 63));
  EXPECT_FALSE(superblocks().is_free(d, 62));
}

TEST_F(SuperblocksTest, WithoutADescriptorOrASpanThereIsNothingAndNothingIsLost) {
  backing().descriptors_left = 0;
  EXPECT_EQ(superblocks().hold(1), 0u);
  backing().descriptors_left = 1;
  backing().spans_left = 0;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(superblocks().hold(1), 0u) << "with one descriptor, which is not lost";
  EXPECT_EQ(pooled(1), 1u);
  backing().spans_left = 1;
  const u32 d = superblocks().hold(1);
  ASSERT_NE(d, 0u);
  EXPECT_EQ(superblocks().hold(1), 0u);
  const auto blocks = take(d, 3);
  superblocks().let_go(d);
  EXPECT_EQ(superblocks().hold(1), d) << "what is listed needs no memory";
}

TEST_F(SuperblocksTest, ARandomBlockIsAFreeOneAndEachHasItsTurn) {
  for (unsigned c = 1; c < Backing::kClasses; ++c) {
    const SizeClass& k = Backing::size_class(c);
    random::Stream random(test_seed() + c);
    std::set<void*> firsts;
    for (u32 round = 0; round < 40 * k.blocks; ++round) {
      const u32 d = superblocks().hold(c);
      std::set<void*> blocks;
      const u32 most = round < 20 ? k.blocks : 1;
      for (u32 i = 0; i < most; ++i) {
        void* block = nullptr;
        ASSERT_EQ(superblocks().take_scattered(d, 1, &block, random), 1u);
        ASSERT_TRUE(blocks.insert(block).second) << "a block that was taken";
        const u64 offset = reinterpret_cast<uptr>(block) - backing().descriptor(d).span.load_relaxed();
        ASSERT_TRUE(offset % k.size == 0 && offset / k.size < k.blocks);
        if (i == 0) firsts.insert(reinterpret_cast<void*>(offset));
      }
      if (most == k.blocks) {
        void* none = nullptr;
        ASSERT_EQ(superblocks().take_scattered(d, 1, &none, random), 0u);
      }
      superblocks().let_go(d);
      free(c, {blocks.begin(), blocks.end()});
      ASSERT_EQ(backing().spans(), 0u);
    }
    EXPECT_GE(firsts.size(), k.blocks * 9 / 10) << "class " << c;
  }
}

TEST_F(SuperblocksTest, TrimmingMeetsEachListedSuperblockOnceAndListsItAgain) {
  constexpr unsigned kMany = 12;
  std::vector<u32> held;
  for (unsigned i = 0; i < kMany; ++i) {
    held.push_back(superblocks().hold(1));
    keep(take(held.back(), 5));
  }
  for (u32 d : held) superblocks().let_go(d);
  for (int round = 0; round < 3; ++round) {
    superblocks().flip_lists();
    std::set<u32> met;
    superblocks().each_listed(1, 1000, [&](u32 d) { EXPECT_TRUE(met.insert(d).second) << "twice"; });
    EXPECT_EQ(met, std::set<u32>(held.begin(), held.end()));
    EXPECT_EQ(listed(1), kMany);
  }
  superblocks().flip_lists();
  unsigned met = 0;
  superblocks().each_listed(1, 7, [&](u32) { ++met; });
  EXPECT_EQ(met, 7u) << "as many as it was told at most";
  for (unsigned i = 0; i < kMany; ++i) EXPECT_NE(superblocks().adopt(1), 0u) << "both lists are looked at";
  EXPECT_EQ(superblocks().adopt(1), 0u);
}

}  // namespace
}  // namespace freeway::test
