// SPDX-License-Identifier: MIT
//
// Which memory HugePages gives huge pages, told by what it asks a kernel for whose pages are as fast as the test says.
#include "pages/huge_pages.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/test_env.h"

namespace freeway::test {
namespace {

struct Asked {
  char what;  // H huge and S small pages, populated; h, s and p: advice
  std::size_t offset, bytes;
  bool operator==(const Asked&) const = default;
};

constexpr uptr kBase = 64 * kGiB;
std::vector<Asked> asked;
u64 huge_ns;
bool on_request;

struct HugeEnv : TestEnv {
  static void note(char what, uptr address, std::size_t bytes) { asked.push_back({what, address - kBase, bytes}); }
  static void prefer_huge(uptr address, std::size_t bytes) { note('h', address, bytes); }
  static void forbid_huge(uptr address, std::size_t bytes) { note('s', address, bytes); }
  static void prefer_small(uptr address, std::size_t bytes) { note('p', address, bytes); }
  static bool huge_on_request() { return on_request; }
  static u64 populate_huge(uptr address, std::size_t bytes) { return note('H', address, bytes), huge_ns; }
  static u64 populate_small(uptr address, std::size_t bytes) { return note('S', address, bytes), 800'000; }
};
using Huge = HugePages<HugeEnv>;
constexpr std::size_t kPiece = Huge::kPiece, kFrom = Huge::kFrom, kFrame = 64 * kKiB, kAll = 16 * kGiB;
constexpr std::size_t kStart = kFrom + kPiece;  // the first piece of what is accessible is left to the program
constexpr u64 kFast = 150'000, kSlow = 6'000'000;

class HugePagesTest : public testing::Test {
 protected:
  void SetUp() override {
    asked.clear();
    huge_ns = kFast;
    on_request = true;
    huge_.set(HugeWish::kDefault);
  }
  void take(std::size_t offset, std::size_t bytes = kFrame, bool is_new = true, std::size_t accessible = kAll) {
    huge_.on_take(memory_, kBase, accessible, offset, bytes, [is_new] { return is_new; });
  }
  // As a heap grows: frame after frame. Pieces that got huge pages.
  std::size_t grow(std::size_t from, std::size_t to) {
    asked.clear();
    for (std::size_t at = from; at < to; at += kFrame) take(at);
    std::size_t huge = 0;
    for (const Asked& a : asked) huge += a.what == 'H';
    return huge;
  }
  Huge& huge() { return huge_; }

 private:
  Huge huge_{};
  NewMemory<HugeEnv> memory_{};
};

class HugePagesBeyondTest : public HugePagesTest {
 protected:
  void SetUp() override {
    HugePagesTest::SetUp();
    take(kFrom);
  }
};

TEST_F(HugePagesTest, ASmallHeapAsksForNothing) {
  grow(0, kFrom);
  EXPECT_TRUE(asked.empty());
}

TEST_F(HugePagesBeyondTest, EachNewPieceBeyondIsPopulatedOnceWhenItsFirstFrameIsTaken) {
  grow(kStart, kStart + 3 * kPiece);
  EXPECT_EQ(asked, (std::vector<Asked>{
                       {'S', kStart, kPiece}, {'H', kStart + kPiece, kPiece}, {'H', kStart + 2 * kPiece, kPiece}}));
  EXPECT_EQ(grow(kStart, kStart + 3 * kPiece), 0u) << "it is new once only";
}

TEST_F(HugePagesBeyondTest, TheFirstPieceOfANewPartOfTheArenaIsLeftToTheProgram) {
  take(kStart + kPiece, kFrame, true, 2 * kAll);
  EXPECT_TRUE(asked.empty());
  take(kStart + 2 * kPiece, kFrame, true, 2 * kAll);
  EXPECT_EQ(asked.size(), 1u);
}

TEST_F(HugePagesBeyondTest, APieceThatSomebodyMayHaveUsedIsLeftAlone) {
  take(kStart + kPiece / 2);  // another thread took the first frames, or will
  take(kStart);
  take(kStart + kPiece, kFrame, /*is_new=*/false);
  take(kStart + 2 * kPiece, 5 * kPiece);  // a long run is the program's to touch
  take(kStart + 3 * kPiece);
  take(kStart + 8 * kPiece, kFrame, true, kStart + 8 * kPiece + kFrame);  // the rest is not accessible yet
  take(kStart + 9 * kPiece - kFrame, 2 * kFrame);                         // begins in the piece before
  take(kStart + 9 * kPiece);
  EXPECT_TRUE(asked.empty());
  take(kStart + 10 * kPiece);
  EXPECT_EQ(asked.size(), 1u) << "a whole new one is not";
}

TEST_F(HugePagesTest, WhatIsSlowIsTriedAgainLaterAndLater) {
  huge_ns = kSlow;
  const std::size_t gib = kGiB;
  EXPECT_EQ(grow(kFrom, kFrom + gib / 4), 1u);
  EXPECT_EQ(grow(kFrom + gib / 4, kFrom + gib), 1u) << "after 256 MiB";
  EXPECT_EQ(grow(kFrom + gib, kFrom + 2 * gib), 1u) << "after a GiB";
  EXPECT_EQ(grow(kFrom + 2 * gib, kFrom + 4 * gib), 0u);
  huge_ns = kFast;
  EXPECT_GT(grow(kFrom + 4 * gib, kFrom + 7 * gib), gib / kPiece / 2) << "and goes on where it is fast again";
}

TEST_F(HugePagesBeyondTest, AHugePageThatTakesHalfOfWhatSmallOnesTakeIsFast) {
  huge_ns = 400'000;
  EXPECT_EQ(grow(kStart, kStart + 20 * kPiece), 19u);
}

TEST_F(HugePagesBeyondTest, WhereTheSystemDecidesNothingIsTried) {
  on_request = false;
  grow(kStart, kStart + 4 * kPiece);
  EXPECT_TRUE(asked.empty());
}

TEST_F(HugePagesBeyondTest, WhereMemoryIsLimitedSmallPagesArePreferred) {
  huge().set_limited(true);
  grow(kStart, kStart + 8 * kPiece);
  EXPECT_EQ(asked, (std::vector<Asked>{{'p', kStart, kAll - kStart}}));
}

TEST_F(HugePagesTest, AWishHoldsForAllThatIsAccessibleAndForBlocksOfTheirOwn) {
  take(0, kFrame, true, 4 * kMiB);  // before the environment could be read
  huge().set(HugeWish::kAlways);
  take(kFrame, kFrame, true, 4 * kMiB);
  take(2 * kFrame, kFrame, true, 4 * kMiB);
  take(5 * kMiB, kFrame, false, 8 * kMiB);
  EXPECT_EQ(asked, (std::vector<Asked>{{'h', 0, 4 * kMiB}, {'h', 4 * kMiB, 4 * kMiB}}));
  asked.clear();
  huge().set(HugeWish::kNever);
  take(6 * kMiB, kFrame, true, 12 * kMiB);
  huge().advise(kBase + kGiB, kGiB);
  EXPECT_EQ(asked, (std::vector<Asked>{{'s', 8 * kMiB, 4 * kMiB}, {'s', kGiB, kGiB}}));
}

}  // namespace
}  // namespace freeway::test
