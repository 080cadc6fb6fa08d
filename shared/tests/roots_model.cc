// SPDX-License-Identifier: MIT
// roots_model.cc: shared/roots.h: names that several processes write at once, and their values.
//
// Promises  a name has one entry, whoever writes it first, and whoever dies in the middle of it; a value is replaced by
//           one of those who expected the same; who finds a value sees what was written before it
// Bounds    2 and 3 threads of up to 3 calls, names of 2 words that begin alike; weak memory, exhausted. Stops: each
//           thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "shared/roots.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

constexpr u64 kNames[3][2] = {{1, 1}, {1, 2}, {2, 1}};

// 'a' … 'c' set a root from 0 to what the thread has written; 'A' … 'C' find it, and read what its value stands for.
// 'd' sets root a from what the first thread wrote first, and reads what that stands for: it is his now.
struct RootsProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kWritten = 7;

  const char* script[kThreads];
  shared::Roots<ModelEnv, 4, 2> roots;
  ModelEnv::Plain<u32> content[kThreads * 4];
  int tries[3] = {}, successes[3] = {};
  u64 winner[3] = {};

  RootsProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    model_name(roots, "roots");
    for (int i = 0; i < kThreads * 4; ++i) model_name(content[i], "content", i);
  }

  void thread(int id) {
    u64 value = static_cast<u64>(id) * 4;
    for (const char* move = script[id]; *move != 0; ++move) {
      const bool finds = *move < 'a';
      const int name = *move - (finds ? 'A' : 'a');
      if (finds) {
        const u64 found = roots.find(kNames[name]);
        if (found != 0) model_check(content[found].get() == kWritten, "what was written before is seen");
        continue;
      }
      content[++value].set(kWritten);
      if (*move == 'd') {
        if (roots.replace(kNames[0], 1, value) != decltype(roots)::Replaced::kDone) continue;
        model_check(content[1].get() == kWritten, "what was written before is seen");
        winner[0] = value;
        continue;
      }
      ++tries[name];
      const auto replaced = roots.replace(kNames[name], 0, value);
      model_check(replaced != decltype(roots)::Replaced::kNoRoom, "there is room");
      if (replaced != decltype(roots)::Replaced::kDone) continue;
      ++successes[name];
      winner[name] = value;
    }
  }

  void finish() {
    for (int name = 0; name < 3; ++name) {
      const u64 found = roots.find(kNames[name]);
      model_observe(found);
      model_check(successes[name] <= 1, "one of those who expected the same has replaced it");
      if (successes[name] == 1) model_check(found == winner[name], "it is what the one wrote");
      if (model_stalled() < 0) model_check((found != 0) == (tries[name] > 0), "there are the names that were written");
    }
  }
};

Scenario scenario(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          program_type<RootsProgram>(first, second, third)};
}

std::vector<Scenario> two_threads() {
  return {scenario("a", "a"),   scenario("a", "A"),   scenario("a", "b"), scenario("a", "bA"),
          scenario("ab", "ba"), scenario("ac", "ca"), scenario("a", "d"), scenario("aA", "dA")};
}

TEST(SharedRootsModel, HoldsWithTwoThreads) { expect_hold(two_threads()); }

TEST(SharedRootsModel, HoldsWithThreeThreads) {
  expect_hold({scenario("a", "a", "A"), scenario("a", "b", "a"), scenario("a", "b", "c")});
}

TEST(SharedRootsModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = {scenario("a", "aA"), scenario("a", "ba"), scenario("ab", "ca"),
                                     scenario("a", "b", "a")};
  for (Scenario& each : scenarios) each.stalls = true;
  expect_hold(scenarios);
}

TEST(SharedRootsModel, PlantedFaultsAreFound) {
  expect_mutant_caught(two_threads(), "names are not compared");
  expect_mutant_caught(two_threads(), "only free entries are named");
}

TEST(SharedRootsModel, EachMemoryOrderIsNeeded) { expect_orders_needed(two_threads(), "shared/roots.h"); }

}  // namespace
}  // namespace freeway::model
