// SPDX-License-Identifier: MIT
//
// Tests of birth/births.h: a block's byte is its own and its tag no other address's, what is used is accessible and nothing
// else, what is refused or in the way is said so and found elsewhere, and purging changes no byte of a block that lives.
#include "birth/births.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <vector>

#include "differential/random.h"
#include "pages/arena.h"
#include "unit/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::TestEnv;

using BirthsOf = Births<TestEnv>;
using Kind = BirthsOf::Kind;

constexpr std::size_t kArenaBytes = kGiB, kPage = 4 * kKiB, kShortest = kFrameSize << birth::kMostShift;
constexpr uptr kArena = uptr{1} << 44;  // nothing is there, and nothing is looked for
constexpr u32 kSizes[] = {16, 48, 112, 160, 1024};  // one of each granule size

uptr address_of(const BirthsOf::Byte& byte) { return reinterpret_cast<uptr>(&byte); }

class BirthsTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override { start(kArenaBytes); }
  void TearDown() override { kernel().reset(); }

  void start(std::size_t bytes) {
    kernel().reset();
    kernel().pack(2 * kGiB);  // or leaves would be mapped into the place, where nothing is yet
    if (!is_reserved()) kernel().choose_spaces();
    piece_ = is_reserved() ? Call::kCommit : Call::kExtend;
    births_ = std::make_unique<BirthsOf>();
    place_ = kernel().space(birth::place_bytes(bytes), kFrameSize);
    ASSERT_TRUE(place_);
    births().init(place_, kArena, bytes);
  }

  static bool is_reserved() { return GetParam(); }
  BirthsOf& births() { return *births_; }
  BirthsOf::Byte& near(uptr block, u32 size) { return births().near(block, size); }
  Kind provide(const SizeClass& k, uptr span) { return births().provide(span, k.span_bytes(), k.size); }
  // Lets all blocks of a span be born.
  void bear(const SizeClass& k, uptr span) {
    for (u32 i = 0; i < k.blocks; ++i) birth::begin(near(span + i * k.size, k.size), span + i * k.size);
  }
  void expect_born(const SizeClass& k, uptr span) {
    for (u32 i = 0; i < k.blocks; ++i)
      ASSERT_EQ(near(span + i * k.size, k.size).load_relaxed(), birth::tag_of(span + i * k.size)) << k.size << " " << i;
  }

  Call piece_ = Call::kCommit;
  Space place_;

 private:
  std::unique_ptr<BirthsOf> births_;
};
INSTANTIATE_TEST_SUITE_P(Spaces, BirthsTest, testing::Bool(),
                         [](const auto& one) { return one.param ? "Reserved" : "Chosen"; });

// Spans of all classes, one behind the other from the arena's start and up to its end, as a heap may have them.
TEST_P(BirthsTest, NoTwoBlocksShareAByte) {
  std::set<uptr> bytes;
  std::size_t blocks = 0;
  for (const bool from_end : {false, true}) {
    uptr at = from_end ? kArena + kArenaBytes - 64 * kMiB : kArena;
    for (int round = 0; round < 2; ++round)
      for (unsigned c = 1; c < kClassCount; ++c) {
        const SizeClass& k = kSizeClasses[c];
        const uptr span = align_up(at, k.span_bytes());
        at = span + k.span_bytes();
        for (u32 i = 0; i < k.blocks; ++i, ++blocks) bytes.insert(address_of(near(span + i * k.size, k.size)));
      }
    ASSERT_LE(at, kArena + kArenaBytes);
  }
  EXPECT_EQ(bytes.size(), blocks);
  EXPECT_GE(*bytes.begin(), place_.base);
  EXPECT_LT(*bytes.rbegin(), place_.base + birth::place_bytes(kArenaBytes));
}

TEST_P(BirthsTest, NoOtherAddressThatLeadsToABlocksByteHasItsTag) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const SizeClass& k = kSizeClasses[c];
    std::map<uptr, uptr> blocks;  // of bytes
    for (u32 i = 0; i < k.blocks; ++i) blocks[address_of(near(kArena + i * k.size, k.size))] = kArena + i * k.size;
    for (uptr other = kArena; other < kArena + k.span_bytes(); other += kMinBlock) {
      ASSERT_NE(birth::tag_of(other), 0);
      const auto found = blocks.find(address_of(near(other, k.size)));
      if (found == blocks.end() || found->second == other) continue;
      ASSERT_NE(birth::tag_of(other), birth::tag_of(found->second)) << "class " << c << " offset " << other - kArena;
    }
  }
}

TEST_P(BirthsTest, ThePlacesOfGranuleSizesLieApart) {
  uptr reached = place_.base;
  for (unsigned i = std::size(kSizes); i-- > 0;) {  // the longest granules' are the first
    const uptr first = address_of(near(kArena, kSizes[i]));
    const uptr last = address_of(near(kArena + kArenaBytes - 1, kSizes[i]));
    EXPECT_GE(first, reached);
    EXPECT_EQ(last - first + 1, kArenaBytes >> birth::shift_of(kSizes[i]));
    reached = last + 1;
  }
  EXPECT_LE(reached, place_.base + birth::place_bytes(kArenaBytes));
}

TEST_P(BirthsTest, AByteIsWhereTheFastPathLooksForIt) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    const u32 size = kSizeClasses[c].size;
    const unsigned shift = birth::shift_of(size);
    EXPECT_LE(u32{1} << shift, size) << "no two blocks begin in one granule";
    for (const uptr block : {kArena, kArena + 5 * size, kArena + kArenaBytes - size})
      EXPECT_EQ((block * birth::scale_of(shift) >> birth::kMostShift) + births().base(shift), address_of(near(block, size)));
  }
}

TEST_P(BirthsTest, WhatIsUsedIsAccessibleAndZeroAndLittleElse) {
  for (unsigned c = 1; c < kClassCount; ++c) {
    start(kArenaBytes);
    const SizeClass& k = kSizeClasses[c];
    for (const uptr span : {kArena, kArena + 7 * kMiB, kArena + 300 * kMiB}) {
      ASSERT_EQ(provide(k, span), Kind::kNear);
      for (u32 i = 0; i < k.blocks; ++i) ASSERT_EQ(near(span + i * k.size, k.size).load_relaxed(), 0);
      bear(k, span);
      expect_born(k, span);
      const std::size_t needed = ((span + k.span_bytes() - kArena) >> birth::shift_of(k.size)) + BirthsOf::kSkew;
      EXPECT_GE(births().committed(), needed);
      EXPECT_LE(births().committed(), needed + needed / 4 + 256 * kKiB) << "class " << c;
      EXPECT_EQ(kernel().accessible_bytes(), births().committed());
    }
  }
}

TEST_P(BirthsTest, ProvidingAgainAsksTheKernelForNothing) {
  const SizeClass& k = kSizeClasses[1];
  ASSERT_EQ(provide(k, kArena), Kind::kNear);
  bear(k, kArena);
  const auto calls = kernel().calls(piece_);
  ASSERT_EQ(provide(k, kArena), Kind::kNear);
  EXPECT_EQ(kernel().calls(piece_), calls);
  expect_born(k, kArena);
}

// The skew leads beyond the end of the arrays: there the last spans are far.
TEST_P(BirthsTest, AnArenaMayBeFullToItsEnd) {
  for (const std::size_t bytes : {kShortest, kArenaBytes}) {
    for (unsigned c = 1; c < kClassCount; ++c) {
      start(bytes);
      const SizeClass& k = kSizeClasses[c];
      const uptr last = kArena + bytes - k.span_bytes();
      ASSERT_EQ(provide(k, last), Kind::kFar) << "class " << c;
      const std::size_t skewed = align_up(BirthsOf::kSkew << birth::shift_of(k.size), k.span_bytes());
      ASSERT_EQ(provide(k, last - skewed), Kind::kNear) << "class " << c;
      bear(k, last - skewed);
    }
  }
}

TEST_P(BirthsTest, AnArenaThatIsTooShortForArraysHasFarBlocksOnly) {
  for (const std::size_t bytes : {kChunkSize, kShortest / 2}) {
    start(bytes);
    for (unsigned c = 1; c < kClassCount; ++c) EXPECT_EQ(provide(kSizeClasses[c], kArena), Kind::kFar);
    births().purge(kArena, bytes, kPage);
    EXPECT_EQ(kernel().calls(piece_), 0u);
  }
}

// --- Refused, or in the way. -------------------------------------------------------------------------------------------

TEST_P(BirthsTest, WhatIsRefusedChangesNothingAndIsHadLater) {
  const SizeClass& k = kSizeClasses[3];
  for (std::uint64_t nth = 1; nth <= 3; ++nth) {
    start(kArenaBytes);
    const auto before = kernel().ranges();
    kernel().refuse_all(true);
    EXPECT_EQ(provide(k, kArena), Kind::kRefused);
    EXPECT_EQ(births().committed(), 0u);
    EXPECT_EQ(kernel().ranges(), before);
    kernel().refuse_all(false);
    kernel().refuse_any(nth);  // of what one span needs: a shorter piece, or a leaf
    const Kind kind = provide(k, kArena);
    EXPECT_NE(kind, Kind::kRefused);
    if (kind == Kind::kNear) bear(k, kArena);
    kernel().refuse_nothing();
    EXPECT_EQ(provide(k, kArena + 10 * kMiB), Kind::kNear);
    bear(k, kArena + 10 * kMiB);
  }
}

TEST_P(BirthsTest, WhereArraysAreRefusedAndLeavesAreNotBlocksAreFar) {
  kernel().refuse_from_now_on(piece_);
  const SizeClass& k = kSizeClasses[1];
  ASSERT_EQ(provide(k, kArena), Kind::kFar);
  EXPECT_EQ(births().committed(), BirthsOf::kLeafBytes);
  births().far(kArena + 16).store_relaxed(birth::tag_of(kArena + 16));
  EXPECT_EQ(births().far(kArena + 16).load_relaxed(), birth::tag_of(kArena + 16));
  EXPECT_EQ(births().far(kArena).load_relaxed(), 0);
}

class ChosenBirthsTest : public BirthsTest {};
INSTANTIATE_TEST_SUITE_P(Spaces, ChosenBirthsTest, testing::Values(false), [](const auto&) { return "Chosen"; });

TEST_P(ChosenBirthsTest, WhereSomethingIsInTheWayBlocksAreFarAndNearBehindIt) {
  const SizeClass& k = kSizeClasses[1];
  const uptr in_the_way = align_down(address_of(near(kArena + 8 * kMiB, k.size)), kFrameSize);
  kernel().occupy(in_the_way, kFrameSize);
  EXPECT_EQ(provide(k, kArena), Kind::kNear);
  EXPECT_EQ(provide(k, kArena + 8 * kMiB), Kind::kFar);
  EXPECT_EQ(provide(k, kArena + 64 * kMiB), Kind::kNear);
  EXPECT_EQ(provide(kSizeClasses[20], kArena + 8 * kMiB), Kind::kNear) << "other granules' bytes lie elsewhere";
  bear(k, kArena);
  bear(k, kArena + 64 * kMiB);
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

// --- Far. --------------------------------------------------------------------------------------------------------------

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

// --- Purging. ----------------------------------------------------------------------------------------------------------

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

// --- Moves. ------------------------------------------------------------------------------------------------------------

TEST(BirthMoves, ABlockIsLiveFromItsBeginToItsEnd) {
  TestEnv::Atomic<u8> byte;
  unsigned barriers = 0;
  const auto born = [&](uptr block) {
    return birth::is_born(byte, block, [&] { return ++barriers, true; });
  };
  EXPECT_FALSE(born(kArena));
  birth::begin(byte, kArena);
  barriers = 0;
  EXPECT_TRUE(born(kArena));
  EXPECT_EQ(barriers, 0u) << "what is found needs no kernel";
  EXPECT_FALSE(born(kArena + 16));
  birth::end(byte);
  EXPECT_FALSE(born(kArena));
  EXPECT_TRUE(birth::is_born(byte, kArena, [&] { return birth::begin(byte, kArena), true; })) << "the second look counts";
  birth::end(byte);
  EXPECT_FALSE(birth::is_born(byte, kArena, [&] { return birth::begin(byte, kArena), false; })) << "no second look";
}

}  // namespace
}  // namespace freeway
