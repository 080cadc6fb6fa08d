// SPDX-License-Identifier: MIT
//
// Tests of harden/births.h: far blocks' leaves are made once, and purging changes no byte of a block that lives, nor of
// anybody else's memory.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <set>

#include "harden/births.h"
#include "tests/harden/births_on_place.h"
#include "tests/support/random.h"

namespace freeway {
namespace {

using Kind = BirthsOf::Kind;

// --- Far. ------------------------------------------------------------------------------------------------------------

TEST_P(BirthsTest, ALeafIsMadeOnceForAllBlocksOfItsGigabyte) {
  constexpr uptr kElsewhere = kArena + 64 * kGiB;
  std::set<uptr> bytes;
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    const uptr span = kElsewhere + c * kMiB;
    ASSERT_EQ(provide(k, span), Kind::kFar);
    EXPECT_EQ(births().committed(), BirthsOf::kLeafBytes);
    EXPECT_EQ(kernel().calls(Call::kMap), 1u);
    for (u32 i = 0; i < k.blocks; ++i) {
      ASSERT_EQ(births().far(span + i * k.size).load_relaxed(), 0);
      births().far(span + i * k.size).store_relaxed(1);
      ASSERT_TRUE(bytes.insert(address_of(births().far(span + i * k.size))).second);
    }
  }
  EXPECT_EQ(provide(kSizeClasses[1], kElsewhere + kGiB), Kind::kFar);
  EXPECT_EQ(births().far(kElsewhere + kGiB).load_relaxed(), 0);
  EXPECT_EQ(births().committed(), 2 * BirthsOf::kLeafBytes);
}

TEST_P(BirthsTest, ALeafThatComesLateIsReleasedAndTheFirstOneStays) {
  constexpr uptr kElsewhere = kArena + 64 * kGiB;
  const SizeClass& k = kSizeClasses[1];
  TestEnv::at_step("births.leaf", [&] {
    ASSERT_EQ(provide(k, kElsewhere), Kind::kFar);
    births().far(kElsewhere).store_relaxed(7);
  });
  ASSERT_EQ(provide(k, kElsewhere + kMiB), Kind::kFar);
  EXPECT_EQ(births().far(kElsewhere).load_relaxed(), 7);
  EXPECT_EQ(kernel().calls(Call::kMap), 2u);
  EXPECT_EQ(kernel().calls(Call::kRelease), 1u);
  EXPECT_EQ(births().committed(), BirthsOf::kLeafBytes);
  EXPECT_EQ(kernel().accessible_bytes(), BirthsOf::kLeafBytes);
}

TEST_P(BirthsTest, AThreadThatEndsBeforeItPublishesALeafLosesThatLeafOnly) {
  constexpr uptr kElsewhere = kArena + 64 * kGiB;
  const SizeClass& k = kSizeClasses[1];
  EXPECT_TRUE(test::ended_at("births.leaf", [&] { provide(k, kElsewhere); }));
  EXPECT_EQ(births().committed(), 0u);
  EXPECT_EQ(provide(k, kElsewhere), Kind::kFar);
  EXPECT_EQ(births().far(kElsewhere).load_relaxed(), 0);
  EXPECT_EQ(kernel().accessible_bytes(), 2 * BirthsOf::kLeafBytes);
}

TEST_P(BirthsTest, ALeafThatIsRefusedIsHadLater) {
  constexpr uptr kElsewhere = kArena + 64 * kGiB;
  kernel().refuse(Call::kMap);
  EXPECT_EQ(provide(kSizeClasses[1], kElsewhere), Kind::kRefused);
  EXPECT_EQ(births().committed(), 0u);
  EXPECT_EQ(provide(kSizeClasses[1], kElsewhere), Kind::kFar);
  EXPECT_EQ(provide(kSizeClasses[1], uptr{1} << 48), Kind::kRefused) << "no user has such addresses";
}

TEST(BirthsWithoutAPlace, AllBlocksAreFar) {
  kernel().reset();
  const auto births = std::make_unique<BirthsOf>();
  births->init(Space{}, kArena, kArenaBytes);
  for (unsigned c = 1; c < kClassCount; ++c)
    EXPECT_EQ(births->provide(kArena + c * kMiB, kSizeClasses[c].span_bytes(), kSizeClasses[c].size), Kind::kFar);
  births->far(kArena + kMiB).store_relaxed(9);
  births->purge(kArena, kArenaBytes, kPage);
  EXPECT_EQ(births->far(kArena + kMiB).load_relaxed(), 9);
  EXPECT_EQ(births->committed(), BirthsOf::kLeafBytes);
  kernel().reset();
}

// --- Purging. --------------------------------------------------------------------------------------------------------

// Frames go between two neighbours whose blocks all live, of every granule size: nothing of theirs may go.
TEST_P(BirthsTest, PurgingChangesNoNeighboursByte) {
  for (const std::size_t page : {kPage, 16 * kKiB, 64 * kKiB}) {
    for (const u32 size : kSizes) {
      const SizeClass& k = kSizeClasses[class_of_size(size)];
      for (const std::size_t frames : {1, 3, 16, 64, 700}) {
        start(kArenaBytes);
        const uptr below = kArena + 33 * k.span_bytes(), gone = below + k.span_bytes();
        const uptr above = align_up(gone + frames * kFrameSize, k.span_bytes());
        for (const uptr span : {below, above}) {
          ASSERT_EQ(provide(k, span), Kind::kNear);
          bear(k, span);
        }
        const std::size_t committed = births().committed();
        births().purge(gone, frames * kFrameSize, page);
        expect_born(k, below);
        expect_born(k, above);
        EXPECT_EQ(births().committed(), committed) << "address space stays";
        EXPECT_EQ(provide(k, gone), Kind::kNear);
        for (uptr block = gone; block < gone + k.span_bytes(); block += k.size)
          ASSERT_EQ(near(block, k.size).load_relaxed(), 0);
      }
    }
  }
}

TEST_P(BirthsTest, PurgingGivesWholePagesBackAndNothingThatWasNeverThere) {
  const SizeClass& k = kSizeClasses[1];
  constexpr std::size_t kBytes = 16 * kMiB;
  for (uptr span = kArena; span < kArena + kBytes; span += k.span_bytes()) {
    ASSERT_EQ(provide(k, span), Kind::kNear);
    bear(k, span);
  }
  const uptr first = align_up(address_of(near(kArena, k.size)), kPage);
  const std::size_t pages = (kBytes >> birth::kLeastShift) - kPage;
  ASSERT_EQ(kernel().resident(first, pages), pages);
  births().purge(kArena, kBytes, kPage);
  EXPECT_EQ(kernel().resident(first, pages), 0u);
  const auto calls = kernel().calls(Call::kPurge);
  births().purge(kArena + 512 * kMiB, 64 * kMiB, kPage);  // beyond what is accessible
  births().purge(kArena + 64 * kGiB, 64 * kMiB, kPage);   // in another arena
  EXPECT_EQ(kernel().calls(Call::kPurge), calls);
}

TEST_P(BirthsTest, RandomSpansAreBornAndPurgedAsIfEachHadItsOwnBytes) {
  test::Random random(test::test_seed());
  std::map<uptr, unsigned> live;  // spans of 1 MiB of which each has one class
  for (int i = 0; i < 600; ++i) {
    const uptr at = kArena + random.below(64) * kMiB;
    const auto found = live.find(at);
    if (found == live.end()) {
      const auto c = static_cast<unsigned>(1 + random.below(kClassCount - 1));
      const SizeClass& k = kSizeClasses[c];
      ASSERT_EQ(provide(k, at), Kind::kNear);
      for (u32 b = 0; b < k.blocks; ++b) ASSERT_EQ(near(at + b * k.size, k.size).load_relaxed(), 0);
      bear(k, at);
      live[at] = c;
    } else {
      const SizeClass& k = kSizeClasses[found->second];
      expect_born(k, at);
      for (u32 b = 0; b < k.blocks; ++b) birth::end(near(at + b * k.size, k.size));
      live.erase(found);
      if (random.chance(50)) births().purge(at, kMiB, kPage);
    }
  }
  for (const auto& [at, c] : live) expect_born(kSizeClasses[c], at);
}

TEST_P(ChosenBirthsTest, PurgingLeavesWhatIsInTheWayAsItIs) {
  const SizeClass& k = kSizeClasses[1];
  const uptr in_the_way = align_down(address_of(near(kArena + 8 * kMiB, k.size)), kFrameSize);
  kernel().occupy(in_the_way, kFrameSize);
  std::memset(reinterpret_cast<void*>(in_the_way), 0x55, kFrameSize);
  ASSERT_EQ(provide(k, kArena), Kind::kNear);
  ASSERT_EQ(provide(k, kArena + 64 * kMiB), Kind::kNear);
  bear(k, kArena + 4 * kMiB);
  bear(k, kArena + 32 * kMiB);
  births().purge(kArena, 64 * kMiB, kPage);
  for (std::size_t i = 0; i < kFrameSize; ++i) ASSERT_EQ(reinterpret_cast<const char*>(in_the_way)[i], 0x55) << i;
  EXPECT_EQ(near(kArena + 4 * kMiB, k.size).load_relaxed(), 0) << "below it";
  EXPECT_EQ(near(kArena + 32 * kMiB, k.size).load_relaxed(), 0) << "behind it";
}

}  // namespace
}  // namespace freeway
