// SPDX-License-Identifier: MIT
// way_model.cc: src/cache/way.h: free blocks that are worth leaving go from a magazine's top to their superblocks,
// beside who allocates, frees and drains; with the magazines and superblocks behind it.
//
// Bounds    2 or 3 threads of 1 to 3 actions (cache_program.h) in slabs that are claimed, or in restartable sections on
//           one CPU or two; superblocks of 2 or 3 blocks, of which those of the first span are worth leaving. Sections
//           are interrupted once by a thread of their CPU, or never, as named. Weak memory; claimed: source-DPOR, else
//           sleep sets; exhausted. Stops: each thread for ever at each operation
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/cache/cache_program.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

Scenario claimed(const char* setup, u32 slabs, u32 blocks, const char* first, const char* second) {
  const CacheScript script{CacheMode::kClaimed, blocks, slabs, setup, {first, second, ""}};
  return {std::to_string(slabs) + " slabs, " + setup + ": " + first + " | " + second,
          program_type<CacheProgram>(script)};
}

Scenario sections(int second_cpu, int restarts, const char* setup, u32 blocks, const char* first, const char* second) {
  const CacheScript script{CacheMode::kSections, blocks, 1, setup, {first, second, ""}, {0, second_cpu, 1}};
  Scenario each{std::string(second_cpu == 0 ? "one CPU" : "two CPUs") +
                    (restarts != 0 ? ", sections begin again, " : ", ") + setup + ": " + first + " | " + second,
                program_type<CacheProgram>(script)};
  each.options.reduction = Reduction::kSleep;
  each.options.restarts = restarts;
  return each;
}

std::vector<Scenario> scenarios() {
  return {
      claimed("mmmmff", 1, 3, "w", "m"),   claimed("mmd", 2, 3, "wm", "m"),      claimed("mmd", 1, 3, "w", "m"),
      claimed("mmm0", 1, 3, "fw", "m"),    claimed("mmmff", 1, 3, "w", "d"),     claimed("mmd", 2, 3, "w", "w"),
      claimed("mmmm0", 1, 2, "fwm", "d"),  sections(0, 0, "mmmff", 3, "w", "m"), sections(0, 0, "mmmf0", 3, "fw", "m"),
      sections(0, 0, "mmD", 3, "w", "m"),  sections(0, 0, "mmff", 3, "w", "w"),  sections(0, 0, "mmD", 3, "w", "w"),
      sections(0, 0, "mmf1", 3, "w", "f"), sections(0, 1, "mmf1", 2, "w", "f"),  sections(1, 0, "mmmff", 3, "w", "d"),
      sections(1, 0, "mmD", 3, "w", "m"),  sections(1, 0, "mf", 2, "w", "d"),    sections(1, 0, "mmf", 2, "w>m", "d")};
}

TEST(WayModel, PromisesHold) { expect_hold(scenarios()); }
TEST(WayModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all;
  for (Scenario& each : scenarios()) {
    each.options.max_executions = 500;
    if (!explore_program(each.program, each.options).exhausted) continue;
    each.options.max_executions = 0;
    each.stalls = true;
    all.push_back(each);
  }
  EXPECT_GT(all.size(), 10U);
  expect_hold(all);
}
TEST(WayMutants, AreCaught) {
  for (const char* mutant : {"the block on top is kept", "the last ones are kept", "what has no room stays held"})
    expect_mutant_caught(scenarios(), mutant);
}

}  // namespace
}  // namespace freeway::model
