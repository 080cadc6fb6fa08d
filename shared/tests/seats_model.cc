// SPDX-License-Identifier: MIT
// seats_model.cc: shared/seat_pool.h: which of a process's seats a call has for itself.
//
// Promises  a seat is one call's at a time, which sees what the one before it wrote there; every seat that was added
//           and not removed is there at the end; a thread that stops for ever keeps one seat from the others, and
//           nobody waits
// Bounds    2 and 3 threads of up to 3 calls, 4 places; weak memory, exhausted. Stops: each thread for ever at each
//           operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shared/seat_pool.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

// 'c': a call takes a seat, or adds one; 'r': one is removed, if there is one.
struct SeatsProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kSeats = 10;

  const char* script[kThreads];
  shared::SeatPool<ModelEnv, 4> pool;
  ModelEnv::Plain<u32> slab[kSeats];
  int added = 1, removed = 0;  // of threads that ended their calls

  SeatsProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    model_name(pool, "pool");
    for (u32 seat = 0; seat < kSeats; ++seat) model_name(slab[seat], "slab", static_cast<int>(seat));
    pool.give(pool.add(1, 0));
  }

  void thread(int id) {
    u32 next = static_cast<u32>(id) * 3 + 2;
    for (const char* move = script[id]; *move != 0; ++move) {
      auto taken = pool.take(static_cast<u64>(id));
      if (*move == 'c' && taken.seat == 0) {
        taken = pool.add(next++, static_cast<u64>(id));
        model_check(taken.seat != 0, "there is a place");
        ++added;
      }
      if (taken.seat == 0) continue;
      slab[taken.seat].set(slab[taken.seat].get() + 1);  // a race unless the seat is ours alone
      if (*move == 'c') {
        pool.give(taken);
      } else {
        pool.remove(taken);
        ++removed;
      }
    }
  }

  void finish() {
    bool seen[kSeats] = {};
    int found = 0;
    for (auto taken = pool.take(0); taken.seat != 0; taken = pool.take(0), ++found) {
      model_check(taken.seat < kSeats && !seen[taken.seat], "a seat is there once");
      seen[taken.seat] = true;
    }
    model_observe(static_cast<u64>(found));
    const int missing = added - removed - found;
    model_check(missing >= 0 && missing <= (model_stalled() >= 0 ? 1 : 0), "no seat is lost");
  }
};

Scenario scenario(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          program_type<SeatsProgram>(first, second, third)};
}

std::vector<Scenario> two_threads() {
  return {scenario("c", "c"), scenario("cc", "cc"), scenario("cr", "cc"), scenario("r", "cc"), scenario("rc", "cr")};
}

TEST(SharedSeatsModel, HoldsWithTwoThreads) { expect_hold(two_threads()); }

TEST(SharedSeatsModel, HoldsWithThreeThreads) { expect_hold({scenario("c", "c", "c"), scenario("c", "r", "c")}); }

TEST(SharedSeatsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = {scenario("cc", "cc"), scenario("cr", "rc"), scenario("c", "c", "c")};
  for (Scenario& each : scenarios) each.stalls = true;
  expect_hold(scenarios);
}

TEST(SharedSeatsModel, PlantedFaultsAreFound) {
  for (const char* mutant : {"seats that others took", "claimed by a store"})
    expect_mutant_caught(two_threads(), mutant);
}

TEST(SharedSeatsModel, EachMemoryOrderIsNeeded) { expect_orders_needed(two_threads(), "sync/claim.h"); }

}  // namespace
}  // namespace freeway::model
