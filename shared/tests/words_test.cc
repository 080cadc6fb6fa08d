// SPDX-License-Identifier: MIT
//
// Tests of shared/words.h: each field comes out as it was put in, zero is what a new file must be, damaged words are
// harmless.
#include "shared/words.h"

#include <gtest/gtest.h>

#include "tests/support/random.h"

namespace freeway::shared {
namespace {

TEST(SharedWords, ANewFilesWordsAreZero) {
  EXPECT_EQ(participant::none(0), 0u);
  EXPECT_EQ(entry::kFree, 0u);
  EXPECT_EQ(entry::kind(0), entry::Kind::kFree);
  EXPECT_EQ(state::kFree, 0u);
}

TEST(SharedWords, ParticipantsFieldsComeOutAsTheyWerePutIn) {
  for (u32 token = 0; token < participant::kTokens; ++token)
    for (u32 life : {0u, 1u, 77u, participant::kLifeMask}) {
      const u64 alive = participant::alive(life, token);
      EXPECT_EQ(participant::kind(alive), participant::Kind::kAlive);
      EXPECT_EQ(participant::token(alive), token);
      EXPECT_EQ(participant::life(alive), life);
      EXPECT_FALSE(participant::is_unsettled(alive));
      const u64 unsettled = participant::unsettled(life, token);
      EXPECT_EQ(participant::kind(unsettled), participant::Kind::kAlive);
      EXPECT_EQ(participant::token(unsettled), token);
      EXPECT_EQ(participant::life(unsettled), life);
      EXPECT_TRUE(participant::is_unsettled(unsettled));
      EXPECT_EQ(participant::life(participant::none(life)), life);
      EXPECT_EQ(participant::kind(participant::none(life)), participant::Kind::kNone);
    }
  for (u32 claimer = 1; claimer <= kMaxSeats; ++claimer)
    for (u32 life : {0u, 5u, participant::kLifeMask})
      for (u32 theirs : {0u, 6u, participant::kLifeMask}) {
        const u64 word = participant::recovering(claimer, theirs, life);
        EXPECT_EQ(participant::kind(word), participant::Kind::kRecovering);
        EXPECT_EQ(participant::claimer(word), claimer);
        EXPECT_EQ(participant::claimers_life(word), theirs);
        EXPECT_EQ(participant::life(word), life);
        EXPECT_FALSE(participant::is_unsettled(word));
      }
  EXPECT_EQ(participant::life(participant::alive(participant::kLifeMask + 1, 3)), 0u) << "lives begin again";
}

TEST(SharedWords, EntriesFieldsComeOutAsTheyWerePutIn) {
  for (u32 seat = 0; seat <= kMaxSeats; ++seat) {
    EXPECT_EQ(entry::holder(entry::claim(seat, ~u32{0})), seat);
    EXPECT_EQ(entry::count(entry::claim(seat, ~u32{0})), ~u32{0});
    for (u32 c = 0; c < 256; ++c) {
      const u64 small = entry::small(c, seat);
      EXPECT_EQ(entry::kind(small), entry::Kind::kSmall);
      EXPECT_EQ(entry::size_class(small), c);
      EXPECT_EQ(entry::holder(small), seat);
    }
  }
  EXPECT_EQ(entry::count(entry::tail(12345678)), 12345678u);
  EXPECT_EQ(entry::kind(entry::tail(1)), entry::Kind::kTail);
  EXPECT_EQ(entry::count(entry::large(1)), 1u);
  EXPECT_EQ(entry::kind(entry::large(1)), entry::Kind::kLarge);
}

TEST(SharedWords, AStateIsFreeOrLiveOrSomeSeats) {
  for (u32 seat = 1; seat <= kMaxSeats; ++seat) {
    EXPECT_EQ(state::cached(seat), seat);
    EXPECT_NE(state::cached(seat), state::kFree);
    EXPECT_NE(state::cached(seat), state::kLive);
  }
}

TEST(SharedWords, NoWordIsOfAnotherKindThanThereAre) {
  test::Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const u64 word = random.next();
    EXPECT_LE(static_cast<u32>(participant::kind(word)), 2u);
    EXPECT_LT(participant::token(word), participant::kTokens);
  }
}

}  // namespace
}  // namespace freeway::shared
