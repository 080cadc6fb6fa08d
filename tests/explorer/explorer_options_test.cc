// SPDX-License-Identifier: MIT
// explorer_options_test.cc: bounds, stalls, replay, random walks and planted faults do what explorer.h says.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "base/check.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"

namespace freeway::model {
namespace {

using u32 = std::uint32_t;

struct LostUpdate {  // a counter without an RMW
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> count;
  void thread(int) { count.store_relaxed(count.load_relaxed() + 1); }
  void finish() { model_observe(count.load_relaxed()); }
};

struct LostUpdateIsAFailure : LostUpdate {
  void finish() { model_check(count.load_relaxed() == 2, "no update is lost"); }
};

TEST(Explorer, PreemptionBoundLeavesOutWhatNeedsMore) {
  const Options sequential{.memory = MemoryModel::kSequential};
  Options none = sequential, one = sequential;
  none.preemptions = 0;
  one.preemptions = 1;
  EXPECT_EQ(explore<LostUpdate>(none).outcomes.size(), 1U);
  EXPECT_EQ(explore<LostUpdate>(one).outcomes.size(), 2U);
  EXPECT_EQ(explore<LostUpdate>(sequential).outcomes.size(), 2U);
}

TEST(Explorer, StaleReadBoundLeavesOutWhatNeedsMore) {
  // Without preemption, only a stale read can lose an update.
  EXPECT_EQ(explore<LostUpdate>({.preemptions = 0, .stale_reads = 0}).outcomes.size(), 1U);
  EXPECT_EQ(explore<LostUpdate>({.preemptions = 0, .stale_reads = 2}).outcomes.size(), 2U);
}

TEST(Explorer, AFailureIsReplayedByItsChoices) {
  Result found = explore<LostUpdateIsAFailure>();
  ASSERT_TRUE(found.failed);
  EXPECT_NE(found.trace.find("load.relaxed"), std::string::npos) << found.trace;
  Result again = explore<LostUpdateIsAFailure>({.replay = found.choices});
  EXPECT_TRUE(again.failed);
  EXPECT_EQ(again.what, found.what);
  EXPECT_EQ(again.trace, found.trace);
  EXPECT_EQ(again.executions, 1U);
  EXPECT_TRUE(explore<LostUpdateIsAFailure>({.replay = "0 0 1 1"}).ok());
}

TEST(Explorer, RandomWalksFindAFaultAndSayHowToRepeatIt) {
  Result found = explore<LostUpdateIsAFailure>({.random_walks = 1000, .seed = 7});
  ASSERT_TRUE(found.failed);
  EXPECT_TRUE(explore<LostUpdateIsAFailure>({.replay = found.choices}).failed);
  Result again = explore<LostUpdateIsAFailure>({.random_walks = 1000, .seed = 7});
  EXPECT_EQ(again.choices, found.choices);
}

struct TwoSteps {
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> done[2];
  void thread(int id) {
    done[id].fetch_add_relaxed(1);
    done[id].fetch_add_relaxed(1);
  }
  void finish() {
    for (int id = 0; id < 2; ++id)
      model_check(id == model_stalled() || done[id].load_relaxed() == 2, "who was not stopped has finished");
    model_observe(done[0].load_relaxed() * 10 + done[1].load_relaxed());
  }
};

TEST(Explorer, EachThreadIsStoppedAtEachOperation) {
  Result result = explore_stalls<TwoSteps>();
  EXPECT_TRUE(result.ok()) << result.report();
  EXPECT_EQ(result.outcomes, (std::set<std::uint64_t>{2 + 1, 12 + 1, 20 + 1, 21 + 1, 22 + 1}));
}

struct HandOver {  // thread 1 needs thread 0 to have been here
  static constexpr int kThreads = 2;
  ModelEnv::Atomic<u32> lock;
  void thread(int) {
    u32 free = 0;
    while (!lock.cas_acquire(free, 1)) free = 0;
    lock.store_release(0);
  }
  void finish() {}
};

TEST(Explorer, ALockIsNotLockFree) {
  Result result = explore_stalls<HandOver>({.memory = MemoryModel::kSequential, .max_steps = 100});
  EXPECT_TRUE(result.failed);
  EXPECT_NE(result.what.find("does not finish"), std::string::npos) << result.what;
}

struct Chooser {
  static constexpr int kThreads = 2;
  int chosen[2] = {};
  void thread(int id) { chosen[id] = model_choose(3); }
  void finish() { model_observe(static_cast<std::uint64_t>(chosen[0] * 10 + chosen[1])); }
};

TEST(Explorer, EveryAlternativeIsChosen) { EXPECT_EQ(explore<Chooser>().outcomes.size(), 9U); }

struct Checked {
  static constexpr int kThreads = 1;
  ModelEnv::Atomic<u32> word;
  void thread(int) { FREEWAY_CHECK(word.load_relaxed() == 1); }
  void finish() {}
};

TEST(Explorer, AFailedCheckOfTheShippedCodeIsAFailedExecution) {
  Result result = explore<Checked>();
  EXPECT_TRUE(result.failed);
  EXPECT_NE(result.what.find("word.load_relaxed() == 1"), std::string::npos) << result.what;
}

struct Publisher {
  static constexpr int kThreads = 2;
  ModelEnv::Plain<u32> data;
  ModelEnv::Atomic<u32> flag;
  Publisher() { model_name(flag, "flag"); }
  void thread(int id) {
    if (id == 0) {
      data.set(1);
      flag.store_release(ModelEnv::mutant("published twice") ? 3 : 5);
    } else {
      u32 seen = flag.load_acquire();
      if (seen != 0) model_check(data.get() == 1 && seen == 5, "what was published");
    }
  }
  void finish() {}
};

TEST(Explorer, PlantedFaultsAreFound) {
  Result sound = explore<Publisher>();
  EXPECT_TRUE(sound.ok()) << sound.report();
  ASSERT_EQ(sound.order_sites.size(), 2U);  // the release and the acquire
  for (const Weakening& weakening : sound.order_sites) EXPECT_TRUE(explore<Publisher>({.weaken = {weakening}}).failed);
  EXPECT_TRUE(explore<Publisher>({.mutant = "published twice"}).failed);
  EXPECT_TRUE(explore<Publisher>({.lose_bits = {{"flag", 4}}}).failed);
}

TEST(Explorer, OutsideOfAnExplorationTheWordsAreVariables) {
  ModelEnv::Atomic<u32> word(3);
  u32 expected = 4;
  EXPECT_FALSE(word.cas_acq_rel(expected, 9));
  EXPECT_EQ(expected, 3U);
  EXPECT_TRUE(word.cas_acq_rel(expected, 9));
  EXPECT_EQ(word.fetch_sub_relaxed(1), 9U);
  EXPECT_EQ(word.load_acquire(), 8U);
}

}  // namespace
}  // namespace freeway::model
