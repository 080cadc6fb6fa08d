// SPDX-License-Identifier: MIT
//
// Tests of pages/page_map.h: entries are read back for the whole range of addresses, foreign addresses lead to nothing,
// a claim has one winner, and a refused leaf leaves no half-written range behind.
#include "pages/page_map.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Call;
using test::kernel;
using test::Random;
using test::TestEnv;

using Map = PageMap<TestEnv>;
constexpr std::size_t kFrames = 256;
constexpr uptr kPrimary = 0x7f12'3440'0000;  // never touched: the map looks at addresses only
constexpr uptr kLeaf = uptr{1} << 32;        // bytes of addresses that a leaf describes

TEST(FrameInfo, KindAndValueAreReadBack) {
  std::vector<u32> values = {0, 1, 2, 63, 64, 65535, FrameInfo::kValueMask - 1, FrameInfo::kValueMask};
  for (u32 v = 1; v < FrameInfo::kValueMask; v += 999'983) values.push_back(v);
  for (u32 v : values) {
    EXPECT_EQ(FrameInfo::small(v).kind(), FrameInfo::kSmall);
    EXPECT_EQ(FrameInfo::large(v).kind(), FrameInfo::kLarge);
    EXPECT_EQ(FrameInfo::huge(v).kind(), FrameInfo::kHuge);
    EXPECT_EQ(FrameInfo::small(v).value(), v);
    EXPECT_EQ(FrameInfo::large(v).value(), v);
    EXPECT_EQ(FrameInfo::huge(v).value(), v);
  }
  EXPECT_EQ(FrameInfo{}.kind(), FrameInfo::kNothing);
  EXPECT_EQ(kMaxFrames * kFrameSize, (std::size_t{32} << 40) - kFrameSize);
}
TEST(FrameInfo, ABlockThatIsGuardedIsOtherwiseTheSame) {
  for (const FrameInfo info : {FrameInfo::large(1), FrameInfo::huge(4097), FrameInfo::large(kMaxFrames)}) {
    const FrameInfo guarded = info.guarded(true);
    EXPECT_TRUE(guarded.is_guarded() && !info.is_guarded());
    EXPECT_EQ(guarded.kind(), info.kind());
    EXPECT_EQ(guarded.frames(), info.frames());
    EXPECT_EQ(guarded.guarded(false).bits, info.bits);
    EXPECT_EQ(guarded.with(7).frames(), 7u);
    EXPECT_EQ(guarded.with(7).bits, info.with(7).guarded(true).bits);
    EXPECT_EQ(guarded.as_huge().bits, FrameInfo::huge(info.frames()).guarded(true).bits);
  }
}

class PageMapTest : public testing::Test {
 protected:
  void SetUp() override { make(); }
  void TearDown() override { kernel().reset(); }
  void make() {
    kernel().reset();
    memory_ = std::make_unique<Map>();
    bytes_ = std::vector<Map::FrameBytes>(kFrames);
    infos_ = std::vector<Map::Entry>(kFrames);
    map().init(kPrimary, kFrames, bytes_.data(), infos_.data());
  }
  Map& map() { return *memory_; }

  std::unique_ptr<Map> memory_;
  std::vector<Map::FrameBytes> bytes_;
  std::vector<Map::Entry> infos_;
};

TEST_F(PageMapTest, AnUnknownAddressIsNothingWhereverItIs) {
  const uptr addresses[] = {0,
                            1,
                            kPrimary,
                            kPrimary + kFrames * kFrameSize - 1,
                            kPrimary - 1,
                            kPrimary + kFrames * kFrameSize,
                            uptr{1} << 47,
                            (uptr{1} << 48) - 1,
                            uptr{1} << 48,
                            ~uptr{0},
                            0xffff'8000'0000'0000,
                            0x00ff'0000'1234'5678};
  for (uptr address : addresses) {
    EXPECT_EQ(map().get(address).kind(), FrameInfo::kNothing) << std::hex << address;
    EXPECT_FALSE(map().claim(address, FrameInfo::large(3)));
    map().clear(address & ~(kFrameSize - 1), 1);
  }
  EXPECT_EQ(kernel().calls(Call::kMap), 0u) << "looking needs no memory";
}

TEST_F(PageMapTest, EveryFrameOfThePrimaryArenaIsReadBackFromItsFirstByteToItsLast) {
  for (u32 f = 0; f < kFrames; ++f)
    ASSERT_TRUE(map().set(kPrimary + f * kFrameSize, 1, FrameInfo::small(f + 7), 1 + f % 40));
  for (u32 f = 0; f < kFrames; ++f)
    for (std::size_t offset : {std::size_t{0}, std::size_t{1}, kFrameSize / 2, kFrameSize - 1}) {
      const uptr address = kPrimary + f * kFrameSize + offset;
      ASSERT_EQ(map().get(address).bits, FrameInfo::small(f + 7).bits);
      for (unsigned c = 1; c <= 40; ++c) ASSERT_EQ(map().value_of_primary(address, c), c == 1 + f % 40 ? f + 7 : 0);
    }
  EXPECT_EQ(kernel().calls(Call::kMap), 0u);
  EXPECT_EQ(map().leaf_bytes(), 0u);
}

TEST_F(PageMapTest, FramesElsewhereAreReadBackAndHaveNoClassByte) {
  const uptr places[] = {kFrameSize, 0x5555'0000'0000, kPrimary - kFrameSize, kPrimary + kFrames * kFrameSize,
                         (uptr{1} << 48) - kFrameSize};
  u32 n = 0;
  for (uptr place : places) ASSERT_TRUE(map().set(place, 1, FrameInfo::huge(++n), 9));
  n = 0;
  for (uptr place : places) {
    ++n;
    ASSERT_EQ(map().get(place).bits, FrameInfo::huge(n).bits);
    ASSERT_EQ(map().get(place + kFrameSize - 1).bits, FrameInfo::huge(n).bits);
    ASSERT_EQ(map().value_of_primary(place, 9), 0u);
  }
  for (auto& bytes : bytes_) ASSERT_EQ(bytes.size_class.load_relaxed(), 0u);
  EXPECT_EQ(map().leaf_bytes(), 4 * Map::kLeafBytes) << "two of the places share one";
}

TEST_F(PageMapTest, AddressesThatNoFrameCanHaveAreRefused) {
  EXPECT_FALSE(map().set(uptr{1} << 48, 1, FrameInfo::huge(1), 0));
  EXPECT_FALSE(map().set((uptr{1} << 48) - kFrameSize, 2, FrameInfo::huge(1), 0));
  EXPECT_EQ(map().get((uptr{1} << 48) - kFrameSize).bits, 0u) << "what was set of it is taken back";
}

TEST_F(PageMapTest, ClearingTakesAllOfARangeAway) {
  ASSERT_TRUE(map().set(kPrimary + 10 * kFrameSize, 16, FrameInfo::small(5), 33));
  ASSERT_TRUE(map().set(kPrimary + 26 * kFrameSize, 1, FrameInfo::small(6), 34));
  map().clear(kPrimary + 10 * kFrameSize, 16);
  for (std::size_t f = 0; f < kFrames; ++f) {
    const bool left = f == 26;
    ASSERT_EQ(map().get(kPrimary + f * kFrameSize).bits, left ? FrameInfo::small(6).bits : 0);
    ASSERT_EQ(bytes_[f].size_class.load_relaxed(), left ? 34 : 0);
  }
}

TEST_F(PageMapTest, AClaimHasOneWinnerAndNeedsTheRightInfo) {
  for (uptr place : {kPrimary, uptr{0x5555'0000'0000}}) {
    ASSERT_TRUE(map().set(place, 1, FrameInfo::large(12), 0));
    EXPECT_FALSE(map().claim(place, FrameInfo::large(13)));
    EXPECT_FALSE(map().claim(place, FrameInfo::huge(12)));
    EXPECT_TRUE(map().claim(place, FrameInfo::large(12)));
    EXPECT_FALSE(map().claim(place, FrameInfo::large(12)));
    EXPECT_EQ(map().get(place).kind(), FrameInfo::kNothing);
  }
}

TEST_F(PageMapTest, ReplacingNeedsTheRightInfo) {
  ASSERT_TRUE(map().set(kPrimary, 1, FrameInfo::large(12), 0));
  EXPECT_FALSE(map().replace(kPrimary, FrameInfo::large(11), FrameInfo::large(20)));
  EXPECT_TRUE(map().replace(kPrimary, FrameInfo::large(12), FrameInfo::large(20)));
  EXPECT_EQ(map().get(kPrimary).value(), 20u);
}

TEST_F(PageMapTest, ARangeOverTwoLeavesIsSetWholeOrNotAtAll) {
  const uptr start = 5 * kLeaf - 3 * kFrameSize;
  kernel().refuse(Call::kMap, 2);
  EXPECT_FALSE(map().set(start, 6, FrameInfo::small(1), 1));
  for (int f = 0; f < 6; ++f) EXPECT_EQ(map().get(start + f * kFrameSize).bits, 0u);
  EXPECT_TRUE(map().set(start, 6, FrameInfo::small(1), 1)) << "memory is back";
  for (int f = 0; f < 6; ++f) EXPECT_EQ(map().get(start + f * kFrameSize).bits, FrameInfo::small(1).bits);
  EXPECT_EQ(map().leaf_bytes(), 2 * Map::kLeafBytes);
  EXPECT_EQ(map().leaf_bytes(), kernel().mapped_bytes());
}

TEST_F(PageMapTest, ARefusedLeafLosesNothing) {
  kernel().refuse_from_now_on(Call::kMap);
  EXPECT_FALSE(map().set(7 * kLeaf, 1, FrameInfo::huge(1), 0));
  EXPECT_EQ(map().leaf_bytes(), 0u);
  EXPECT_TRUE(map().set(kPrimary, 1, FrameInfo::small(1), 1)) << "the primary arena needs no leaf";
  kernel().refuse_nothing();
  EXPECT_TRUE(map().set(7 * kLeaf, 1, FrameInfo::huge(1), 0));
}

TEST_F(PageMapTest, OfTwoThreadsThatMakeALeafOneGivesHisBack) {
  TestEnv::at_step("map.leaf", [&] { EXPECT_TRUE(map().set(7 * kLeaf + kFrameSize, 1, FrameInfo::huge(2), 0)); });
  EXPECT_TRUE(map().set(7 * kLeaf, 1, FrameInfo::huge(1), 0));
  EXPECT_EQ(map().get(7 * kLeaf).value(), 1u);
  EXPECT_EQ(map().get(7 * kLeaf + kFrameSize).value(), 2u);
  EXPECT_EQ(map().leaf_bytes(), Map::kLeafBytes);
  EXPECT_EQ(kernel().mapped_bytes(), Map::kLeafBytes);
}

TEST_F(PageMapTest, AThreadThatStopsWithALeafStopsNobody) {
  EXPECT_TRUE(test::ended_at("map.leaf", [&] { map().set(7 * kLeaf, 1, FrameInfo::huge(1), 0); }));
  EXPECT_EQ(map().get(7 * kLeaf).bits, 0u);
  EXPECT_TRUE(map().set(7 * kLeaf, 1, FrameInfo::huge(3), 0));
  EXPECT_EQ(map().get(7 * kLeaf).value(), 3u);
}

TEST_F(PageMapTest, RandomTrafficIsReadBackAsFromAPlainMap) {
  Random random(test::test_seed());
  std::map<uptr, u32> oracle;
  const uptr places[] = {kPrimary - 216 * kFrameSize, kPrimary, kPrimary + (kFrames - 50) * kFrameSize,
                         9 * kLeaf - 50 * kFrameSize};
  for (int i = 0; i < 50000; ++i) {
    const uptr start = places[random.below(4)] + random.below(200) * kFrameSize;
    const std::size_t n = 1 + random.below(16);
    const FrameInfo info{static_cast<u32>(random.next() | 1)};
    if (random.chance(50)) {
      ASSERT_TRUE(map().set(start, n, info, 1 + info.bits % 40));
      for (std::size_t f = 0; f < n; ++f) oracle[start + f * kFrameSize] = info.bits;
    } else {
      map().clear(start, n);
      for (std::size_t f = 0; f < n; ++f) oracle[start + f * kFrameSize] = 0;
    }
    for (int look = 0; look < 3; ++look) {
      const uptr address = places[random.below(4)] + random.below(216) * kFrameSize;
      const u32 bits = oracle.contains(address) ? oracle[address] : 0;
      ASSERT_EQ(map().get(address + random.below(kFrameSize)).bits, bits);
      const bool primary = address - kPrimary < kFrames * kFrameSize;
      if (bits != 0) {
        ASSERT_EQ(map().value_of_primary(address, 1 + bits % 40), primary ? FrameInfo{bits}.value() : 0);
      }
    }
  }
}

}  // namespace
}  // namespace freeway
