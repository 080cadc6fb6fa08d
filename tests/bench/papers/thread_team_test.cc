// SPDX-License-Identifier: MIT
//
// What the workloads' threads share: teams that start together, and hand-overs in which nobody waits for ever.
#include "support/thread_team.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "support/handover.h"

namespace {

TEST(ThreadTeam, RunsTheBodyOnceForEachThreadAndAllAreDoneAtTheEnd) {
  bench::ThreadTeam team(7);
  bench::Stopwatch watch;
  std::vector<bench::Padded<int>> calls(team.size());
  team.run(watch, [&](std::size_t t) { ++calls[t].value; });
  for (const auto& each : calls) EXPECT_EQ(each.value, 1);
  EXPECT_LE(team.first_finish(), team.last_finish());
  EXPECT_GT(team.first_finish(), 0);
}

TEST(ThreadTeam, NobodyBeginsBeforeAllAreThere) {
  // A body that waits for all others would hang if they were started one after the other.
  constexpr int kThreads = 5;
  bench::ThreadTeam team(kThreads);
  bench::Stopwatch watch;
  std::atomic<int> there{0};
  team.run(watch, [&](std::size_t) {
    ++there;
    while (there.load() < kThreads) sched_yield();
  });
  EXPECT_EQ(there.load(), kThreads);
}

TEST(ThreadTeam, RepeatsExactlyAsOftenAsAskedWithoutSeconds) {
  bench::ThreadTeam team(1);
  std::vector<long> turns;
  EXPECT_EQ(team.repeat(4, [&](long turn) { turns.push_back(turn); }), 4);
  EXPECT_EQ(turns, (std::vector<long>{0, 1, 2, 3}));
  EXPECT_EQ(team.repeat(0, [](long) { FAIL(); }), 0);
}

TEST(ThreadTeam, WithSecondsItRepeatsUntilTheTimeIsOver) {
  bench::ThreadTeam team(3, 0.02);
  bench::Stopwatch watch;
  std::vector<bench::Padded<long>> done(team.size());
  team.run(watch, [&](std::size_t t) { done[t].value = team.repeat(1, [](long) { sched_yield(); }); });
  EXPECT_GE(watch.wall(), 0.02);
  EXPECT_GT(done[0].value + done[1].value + done[2].value, 3) << "as if --seconds were not there";
  EXPECT_FALSE(team.running());
}

TEST(Handover, GivesEveryTurnInOrderAndIsNeverMoreThanItsCapacityAhead) {
  constexpr int kCapacity = 3, kTurns = 20'000;
  bench::Handover handover(kCapacity);
  int places[kCapacity] = {};
  std::atomic<int> made{0}, taken{0};
  int most_ahead = 0, next = 0;
  bench::ThreadTeam team(2);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    if (t == 0) {
      for (int turn = 0; turn < kTurns; ++turn) {
        places[handover.reserve()] = turn;
        most_ahead = std::max(most_ahead, made.fetch_add(1) + 1 - taken.load());
        handover.publish();
        // Either side sleeps now and then: the other must wake it.
        if (turn % 5000 == 0) bench::sleep_seconds(0.002);
      }
      handover.finish();
      return;
    }
    while (handover.take([&](int place) {
      EXPECT_EQ(places[place], next);
      ++next;
      ++taken;
      if (next % 7000 == 0) bench::sleep_seconds(0.002);
    })) {}
  });
  EXPECT_EQ(next, kTurns);
  EXPECT_LE(most_ahead, kCapacity);
}

TEST(Handover, EndsAtOnceIfNothingWasMade) {
  bench::Handover handover(1);
  handover.finish();
  EXPECT_FALSE(handover.take([](int) { FAIL(); }));
}

TEST(Handover, WakesAConsumerThatSleepsWhenThereIsNoMore) {
  bench::Handover handover(1);
  bench::ThreadTeam team(2);
  bench::Stopwatch watch;
  int taken = 0;
  team.run(watch, [&](std::size_t t) {
    if (t == 0) {
      bench::sleep_seconds(0.01);
      handover.finish();
    } else {
      while (handover.take([&](int) { ++taken; })) {}
    }
  });
  EXPECT_EQ(taken, 0);
}

}  // namespace
