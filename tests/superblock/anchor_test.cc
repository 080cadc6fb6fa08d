// SPDX-License-Identifier: MIT
//
// Tests of superblock/anchor.h: every transition on every small state of every width against plain integers, and all
// that one superblock can go through, with freers between their two steps.
#include "superblock/anchor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <vector>

#include "tests/support/random.h"

namespace freeway {
namespace {

using anchor::Duty;

// The state as anybody would write it down, and its word: one sum, in which a negative nz borrows from full.
struct State {
  bool unlisted = false, held = false;
  unsigned size_class = 0;
  long nz = 0, full = 0;

  u64 word() const {
    const long counts = full * (1L << 20) + nz;
    return (static_cast<u64>(counts) << 12) + size_class * 4u + held * 2u + unlisted;
  }
  bool is_empty(long words) const { return !held && nz == words && full == words; }
};

// Every state of every width, with counts from a little below 0 (pluses that are still to come) to a little above W.
template <class F> void each_state(F&& f) {
  for (unsigned words = 1; words <= 64; ++words)
    for (long nz = -3; nz <= static_cast<long>(words) + 2; ++nz)
      for (long full = -3; full <= static_cast<long>(words) + 2; ++full)
        for (int flags = 0; flags < 4; ++flags) f(words, State{(flags & 1) != 0, (flags & 2) != 0, 17, nz, full});
}

TEST(Anchor, FieldsAreReadBackFromEverySmallState) {
  each_state([](unsigned, const State& s) {
    const u64 a = s.word();
    ASSERT_EQ(anchor::is_held(a), s.held);
    ASSERT_EQ(anchor::is_unlisted(a), s.unlisted);
    ASSERT_EQ(anchor::class_of(a), s.size_class);
    ASSERT_EQ(anchor::non_zero_words(a), s.nz);
  });
}

TEST(Anchor, CountsOf20BitsAreReadBackToTheirEnds) {
  for (long nz = -(1L << 19); nz < 1L << 19; ++nz)
    for (long full : {-1L, 0L, 64L}) {
      const State s{(nz & 1) != 0, (nz & 2) != 0, 40, nz, full};
      ASSERT_EQ(anchor::non_zero_words(s.word()), nz);
      ASSERT_EQ(anchor::is_empty(s.word(), 40, 64), s.is_empty(64));
    }
}

TEST(Anchor, EveryClassIsReadBackAndDisturbsNothing) {
  for (unsigned c = 0; c < 256; ++c)
    for (long nz = -3; nz < 4; ++nz) {
      const u64 a = State{true, true, c, nz, 1}.word();
      ASSERT_EQ(anchor::class_of(a), c);
      ASSERT_EQ(anchor::non_zero_words(a), nz);
      ASSERT_TRUE(anchor::is_held(a) && anchor::is_unlisted(a));
    }
}

TEST(Anchor, EmptyIsOneExactStateWhateverUSays) {
  each_state([](unsigned words, const State& s) {
    ASSERT_EQ(anchor::is_empty(s.word(), 17, words), s.is_empty(words))
        << words << " words, nz " << s.nz << " full " << s.full;
    ASSERT_FALSE(anchor::is_empty(s.word(), 18, words));
    ASSERT_EQ(anchor::is_empty(s.word(), 17, words + 1), s.is_empty(words + 1));
  });
}

TEST(Anchor, ListingIsWantedWhereSomethingIsFreeAndNobodyKnows) {
  each_state([](unsigned, const State& s) { ASSERT_EQ(anchor::wants_listing(s.word()), s.unlisted && s.nz > 0); });
}

TEST(Anchor, ANewSuperblockIsHeldAndAllFree) {
  for (unsigned words = 1; words <= 64; ++words)
    for (unsigned c = 1; c < 256; ++c) {
      const u64 a = anchor::born(c, words);
      ASSERT_EQ(a, (State{false, true, c, words, words}.word()));
      // Nothing was taken: letting it go ends it.
      ASSERT_EQ(anchor::let_go(a, 0, c, words).duty, Duty::kEmpty);
    }
}

TEST(Anchor, LettingGoSettlesTheDebtAndNamesTheDuty) {
  each_state([](unsigned words, State s) {
    s.held = true;
    s.unlisted = false;  // a held superblock has no U
    for (long owed_nz = 0; owed_nz <= 3; ++owed_nz)
      for (long owed_full = 0; owed_full <= 3; ++owed_full) {
        const u64 owed = static_cast<u64>(owed_full * (1L << 20) + owed_nz) << 12;
        State after{false, false, s.size_class, s.nz - owed_nz, s.full - owed_full};
        const Duty duty = after.is_empty(words) ? Duty::kEmpty : after.nz > 0 ? Duty::kList : Duty::kNone;
        after.unlisted = duty == Duty::kNone;
        const anchor::LetGo next = anchor::let_go(s.word(), owed, s.size_class, words);
        ASSERT_EQ(next.duty, duty) << words << " words, nz " << s.nz << " full " << s.full;
        ASSERT_EQ(next.word, after.word());
      }
  });
}

TEST(Anchor, LettingGoBesideAnEntryLeavesTheEntryAndListsNothing) {
  each_state([](unsigned words, State s) {
    s.held = true;
    s.unlisted = false;
    const State after{false, false, s.size_class, s.nz, s.full};
    const anchor::LetGo next = anchor::let_go(s.word() | anchor::kEntry, 0, s.size_class, words);
    ASSERT_EQ(next.word, after.word());
    ASSERT_EQ(next.duty, after.is_empty(words) ? Duty::kTombstone : Duty::kNone);
  });
}

TEST(Anchor, WhoPopsAnEntryAdoptsRecyclesOrDropsIt) {
  each_state([](unsigned words, State s) {
    if (s.unlisted) return;  // has no entry
    const u64 a = s.word() | (s.held ? anchor::kEntry : 0);
    const anchor::Popped next = anchor::popped(a, s.size_class, words);
    State after = s;
    if (s.is_empty(words)) {
      ASSERT_EQ(next.find, anchor::Find::kTombstone);
    } else if (s.held) {
      ASSERT_EQ(next.find, anchor::Find::kDropped);
    } else if (s.nz <= 0) {
      after.unlisted = true;
      ASSERT_EQ(next.find, anchor::Find::kDropped);
    } else {
      after.held = true;
      ASSERT_EQ(next.find, anchor::Find::kAdopted);
    }
    ASSERT_EQ(next.word, after.word());
  });
}

TEST(Anchor, WhatNobodyHoldsAndHasFreeBlocksMayBeTakenWithoutItsEntry) {
  each_state([](unsigned words, const State& s) {
    ASSERT_EQ(anchor::may_take(s.word(), s.size_class, words),
              !s.unlisted && !s.held && s.nz > 0 && !s.is_empty(words));
    ASSERT_FALSE(anchor::may_take(s.word() | anchor::kHeld | anchor::kEntry, s.size_class, words));
  });
  EXPECT_FALSE(anchor::may_take(0, 1, 1)) << "a descriptor that was never used";
}

// The change of a word's share in the counts, by counting before and after.
u64 counted(u64 before, u64 after, u64 full_mask) {
  const long nz = (after != 0) - (before != 0), full = (after == full_mask) - (before == full_mask);
  return static_cast<u64>(full * (1L << 20) + nz) << 12;
}

TEST(Anchor, FreeingAndTakingChangeTheCountsByWhatTheWordsSay) {
  for (unsigned width = 1; width <= 8; ++width) {
    const u64 all = low_bits(width);
    for (u64 old = 0; old <= all; ++old)
      for (u64 mask = 1; mask <= all; ++mask) {
        if ((mask & old) == 0) {
          ASSERT_EQ(anchor::plus(old, mask, all), counted(old, old | mask, all));
        } else if ((mask & ~old) == 0) {
          ASSERT_EQ(u64{0} - anchor::minus(old, mask, all), counted(old, old & ~mask, all));
        }
      }
  }
}

TEST(Anchor, FreeingAndTakingChangeTheCountsOfWideWordsToo) {
  test::Random random(test::test_seed());
  for (int i = 0; i < 200000; ++i) {
    const u64 all = low_bits(static_cast<unsigned>(1 + random.below(64)));
    u64 old = random.next() & all, mask = random.next() & all;
    if (random.chance(30)) old = random.chance(50) ? 0 : all;
    if (random.chance(30)) mask = random.chance(50) ? all & ~old : old;
    const u64 freed = mask & ~old, taken = mask & old;
    if (freed != 0) { ASSERT_EQ(anchor::plus(old, freed, all), counted(old, old | freed, all)); }
    if (taken != 0) { ASSERT_EQ(u64{0} - anchor::minus(old, taken, all), counted(old, old & ~taken, all)); }
  }
}

// --- All that one superblock can go through -------------------------------------------------------------------------

// A superblock of W words of a few bits, its holder, and freers that have done their fetch_or but not yet their
// fetch_add. Everything but the anchor is what an onlooker who sees all would know.
struct Life {
  std::vector<u64> words;
  u64 anchor = 0, owed = 0;
  std::vector<u64> pending;  // what stopped freers have still to add, sorted
  bool held = false, listed = false;

  // While it is held both the anchor and the debt grow without bound; only their difference says anything.
  auto key() const { return std::make_tuple(anchor - owed, words, pending, held, listed); }
  bool operator<(const Life& other) const { return key() < other.key(); }
};

class Explorer {
 public:
  Explorer(unsigned words, unsigned bits) : words_(words), all_(low_bits(bits)) {
    Life birth;
    birth.words.assign(words, all_);
    birth.anchor = anchor::born(kClass, words);
    birth.held = true;
    reach(birth);
    while (!todo_.empty() && !testing::Test::HasFailure()) {
      const Life life = todo_.back();
      todo_.pop_back();
      if (life.held) holder_moves(life);
      if (life.listed) pop(life);
      if (life.listed && !life.held) take(life);
      for (unsigned w = 0; w < words_; ++w)
        for (u64 mask = 1; mask <= all_; ++mask)
          if ((mask & life.words[w]) == 0 && life.pending.size() < 4) free_bits(life, w, mask);
      for (std::size_t i = 0; i < life.pending.size(); ++i) free_counts(life, i);
    }
  }
  std::size_t states() const { return seen_.size(); }
  std::size_t deaths() const { return deaths_; }

 private:
  static constexpr unsigned kClass = 5;

  void reach(Life life) {
    std::sort(life.pending.begin(), life.pending.end());
    check(life);
    if (seen_.insert(life).second) todo_.push_back(life);
  }

  // What must be true at every moment.
  void check(const Life& life) {
    State truth{!life.held && !life.listed, life.held, kClass, 0, 0};
    for (u64 word : life.words) {
      truth.nz += word != 0;
      truth.full += word == all_;
    }
    u64 sum = life.anchor - life.owed;  // what the holder owes and what freers will add included, it is the truth
    for (u64 plus : life.pending) sum += plus;
    ASSERT_EQ(sum, truth.word() + (life.held && life.listed ? anchor::kEntry : 0));
    ASSERT_TRUE(life.held || anchor::non_zero_words(life.anchor) <= truth.nz) << "more counted than is there";
    ASSERT_TRUE(life.held || life.listed || !life.pending.empty() || truth.nz == 0) << "free, and nobody will list it";
  }

  // The span goes: nobody may hold it, own a block of it, or have a plus to come.
  void die(const Life& life) {
    ++deaths_;
    ASSERT_FALSE(life.held);
    ASSERT_TRUE(life.pending.empty());
    for (u64 word : life.words) ASSERT_EQ(word, all_);
  }

  void holder_moves(Life life) {
    for (unsigned w = 0; w < words_; ++w)
      for (u64 mask = 1; mask <= all_; ++mask)
        if ((mask & ~life.words[w]) == 0) {
          Life next = life;
          next.owed += anchor::minus(next.words[w], mask, all_);
          next.words[w] &= ~mask;
          reach(next);
        }
    const anchor::LetGo next = anchor::let_go(life.anchor, life.owed, kClass, words_);
    life.anchor = next.word;
    life.owed = 0;
    life.held = false;
    if (life.listed) { ASSERT_TRUE(next.duty == Duty::kNone || next.duty == Duty::kTombstone); }
    life.listed |= next.duty == Duty::kList;
    if (next.duty == Duty::kEmpty || next.duty == Duty::kTombstone) return die(life);
    reach(life);
  }

  void pop(Life life) {
    life.listed = false;
    const anchor::Popped next = anchor::popped(life.anchor, kClass, words_);
    if (next.find == anchor::Find::kTombstone) FAIL() << "dead already, but seen in a list as alive";
    ASSERT_EQ(life.held, anchor::has_entry(life.anchor));
    life.anchor = next.word;
    if (next.find == anchor::Find::kAdopted) life.held = true;
    reach(life);
  }

  void take(Life life) {
    if (!anchor::may_take(life.anchor, kClass, words_)) return;
    life.anchor |= anchor::kHeld | anchor::kEntry;
    life.held = true;
    reach(life);
  }

  void free_bits(Life life, unsigned w, u64 mask) {
    const u64 plus = anchor::plus(life.words[w], mask, all_);
    life.words[w] |= mask;
    if (plus != 0) life.pending.push_back(plus);
    reach(life);
  }

  void free_counts(Life life, std::size_t i) {
    life.anchor += life.pending[i];
    life.pending.erase(life.pending.begin() + static_cast<long>(i));
    if (anchor::is_empty(life.anchor, kClass, words_)) return die(life);  // a tombstone, if it is listed
    if (anchor::wants_listing(life.anchor)) {
      ASSERT_FALSE(life.listed) << "it would be listed twice";
      life.anchor &= ~anchor::kUnlisted;
      life.listed = true;
    }
    reach(life);
  }

  unsigned words_;
  u64 all_;
  std::set<Life> seen_;
  std::vector<Life> todo_;
  std::size_t deaths_ = 0;
};

TEST(Anchor, AWholeLifeKeepsTheCountsTrueAndEndsOnce) {
  struct {
    unsigned words, bits;
  } shapes[] = {{1, 1}, {1, 4}, {2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}, {6, 1}};
  for (auto [words, bits] : shapes) {
    Explorer explorer(words, bits);
    EXPECT_GT(explorer.deaths(), 0u);
    // Held: every pattern of bits, at least.
    EXPECT_GE(explorer.states(), std::size_t{1} << (words * bits)) << words << " words of " << bits;
    printf("  %u words of %u bits: %zu states\n", words, bits, explorer.states());
  }
}

}  // namespace
}  // namespace freeway
