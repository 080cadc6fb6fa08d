// SPDX-License-Identifier: MIT
//
// runs_model.cc: shared/runs.h: runs of frames, for large blocks and for superblocks of several frames.
//
// Promises  a frame has one owner; runs are claimed whole or not at all; nothing is lost where the file grows, memory
//           is refused, or a worker dies before any of its stores
// Bounds    2 workers of up to 2 actions, one of which may die; up to 4 frames; weak memory, source-DPOR, exhausted
#include <gtest/gtest.h>

#include "shared/tests/world.h"

namespace freeway::model {
namespace {

std::vector<Scripts> small_ones() {
  return {
      {.script = {"lf", "lf"}, .size = {.frames = 3, .capacity = 3}},
      {.script = {"l", "l"}, .size = {.frames = 1, .capacity = 4}},
      {.script = {"lf", "M"}, .size = {.frames = 3, .capacity = 3, .span_frames = 2}},
      {.script = {"lf", "A"}, .size = {.frames = 2, .capacity = 3}},
      {.script = {"lx", "T"}, .size = {.frames = 2, .capacity = 2}},
      {.before = {"lg", "h"}, .script = {"lfT", "f"}, .size = {.frames = 2, .capacity = 4}},
      {.script = {"l", "m"}, .size = {.frames = 2, .capacity = 2, .refuses = true}},
  };
}
std::vector<Scripts> deaths() {
  return with_deaths(
      {
          {.script = {"lf", "r"}, .size = {.frames = 2, .capacity = 2}},
          {.script = {"lf", "l"}, .size = {.frames = 3, .capacity = 3}},
          {.script = {"lf", "rA"}, .size = {.frames = 2, .capacity = 2}},
          {.script = {"Mfd", "r"}, .size = {.frames = 2, .capacity = 2, .span_frames = 2}},
          {.script = {"T", "m"}},
      },
      0);
}
std::vector<Scenario> scenarios() {
  std::vector<Scripts> all = deaths();
  for (const Scripts& each : small_ones()) all.push_back(each);
  return shared_scenarios(all);
}

TEST(SharedRunsModel, FramesHaveOneOwner) { expect_hold(shared_scenarios(small_ones())); }
TEST(SharedRunsModel, NothingIsLostWhereverAWorkerDies) { expect_all_hold(shared_scenarios(deaths())); }

TEST(SharedRunsMutants, AreCaught) {
  const auto all = scenarios();
  for (const char* mutant :
       {"run: head freed first", "run: tails freed unseen", "run: tails skipped", "run: freed without a claim"})
    expect_mutant_caught(all, mutant);
}
TEST(SharedRunsMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "shared/runs.h"); }

}  // namespace
}  // namespace freeway::model
