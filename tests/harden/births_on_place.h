// SPDX-License-Identifier: MIT
//
// births_on_place.h: births with a place of their own, reserved or merely chosen, and spans whose blocks are born
// there.
#ifndef FREEWAY_TESTS_UNIT_BIRTHS_ON_PLACE_H
#define FREEWAY_TESTS_UNIT_BIRTHS_ON_PLACE_H

#include <gtest/gtest.h>

#include <memory>

#include "harden/births.h"
#include "tests/support/test_env.h"

namespace freeway {

using test::Call;
using test::kernel;
using test::TestEnv;

using BirthsOf = Births<TestEnv>;

constexpr std::size_t kArenaBytes = kGiB, kPage = 4 * kKiB, kShortest = kFrameSize << birth::kMostShift;
constexpr uptr kArena = uptr{1} << 44;                     // nothing is there, and nothing is looked for
inline constexpr u32 kSizes[] = {16, 48, 112, 160, 1024};  // one of each granule size

inline uptr address_of(const BirthsOf::Byte& byte) { return reinterpret_cast<uptr>(&byte); }

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
  BirthsOf::Kind provide(const SizeClass& k, uptr span) { return births().provide(span, k.span_bytes(), k.size); }
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

class ChosenBirthsTest : public BirthsTest {};

}  // namespace freeway

#endif  // FREEWAY_TESTS_UNIT_BIRTHS_ON_PLACE_H
