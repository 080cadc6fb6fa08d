// SPDX-License-Identifier: MIT
// pages_range_model.cc: src/pages/committed_range.h in all executions of small programs.
//
// Scripts   e<n> make the first n frames accessible, and then use the last of them and the first
// Promises  what ensure() granted is accessible for whoever asked, though another thread made it so; the watermark is
//           never below it; a thread that is stopped between the kernel's call and the watermark takes nothing along
// Bounds    2 or 3 threads, 1 to 3 calls each, a kernel that refuses long steps or everything; weak memory, no other
// bound
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/pages_world.h"
#include "model/scenarios.h"
#include "pages/committed_range.h"

namespace freeway::model {
namespace {

struct RangeScript {
  const char* thread[3];
  std::size_t most_committed = ~std::size_t{0};
  u32 accessible = 0;  // frames, from the start
};

struct RangeProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kFrames = 16;

  RangeScript script;
  PagesKernel kernel;
  CommittedRange<PagesEnv> range;
  u32 granted[kThreads] = {};  // frames

  explicit RangeProgram(const RangeScript& s) : script(s) {
    PagesEnv::kernel = &kernel;
    model_name(range, "watermark");
    range.init(PagesKernel::kArena, kFrames * kFrameSize);
    if (script.accessible != 0) range.ensure(script.accessible * kFrameSize);
    kernel.settle();
    kernel.most_committed = script.most_committed;
  }

  void thread(int id) {
    each_move(script.thread[id], [&](Move move) {
      model_check(move.letter == 'e', "a letter that means something");
      if (!range.ensure(move.number * kFrameSize)) return;
      if (move.number > granted[id]) granted[id] = move.number;
      kernel.touch(PagesKernel::kArena);
      kernel.touch(PagesKernel::kArena + (move.number - 1) * kFrameSize);
    });
  }

  void finish() {
    const std::size_t committed = range.committed();
    model_observe(committed);
    model_check(committed <= kFrames * kFrameSize, "the watermark is within the range");
    for (std::size_t f = 0; f < committed / kFrameSize; ++f) kernel.touch(PagesKernel::kArena + f * kFrameSize);
    for (u32 frames : granted) {
      model_observe(frames);
      model_check(frames * kFrameSize <= committed, "the watermark is never below what was granted");
    }
    kernel.most_committed = ~std::size_t{0};
    model_check(range.ensure(kFrames * kFrameSize), "when there is memory all of the range can be had");
  }
};

Scenario scenario(const char* name, const RangeScript& script, bool stalls = true) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<RangeProgram>(script), {}, stalls};
}

// All of them also with each thread stopped for ever at each operation.
std::vector<Scenario> scenarios() {
  return {
      scenario("the same is needed by two", {{"e1", "e1", ""}}),
      scenario("one needs more", {{"e1", "e5", ""}}),
      scenario("step by step", {{"e1e5", "e2e7", ""}}),
      scenario("by three", {{"e1", "e3", "e5"}}, false),
      scenario("by three who need the same", {{"e2", "e2", "e2"}}),
      scenario("some is there", {{"e3e8", "e4e6", ""}, ~std::size_t{0}, 2}),
      scenario("all of the range", {{"e16", "e9", ""}}),
      scenario("long steps are refused", {{"e1e2", "e1e2", ""}, kFrameSize}),
      scenario("long steps are refused to one", {{"e1e4", "e1", ""}, 2 * kFrameSize}),
      scenario("all is refused", {{"e3", "e2e4", ""}, 0, 2}),
  };
}

TEST(PagesRangeModel, WhatIsGrantedIsAccessibleAlsoWhenAThreadStops) { expect_hold(scenarios()); }

TEST(PagesRangeMutants, MovingTheWatermarkFirstIsCaught) { expect_mutant_caught(scenarios(), "watermark first"); }
TEST(PagesRangeMutants, AWatermarkThatCanSinkIsCaught) { expect_mutant_caught(scenarios(), "watermark stored"); }
TEST(PagesRangeMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "pages/committed_range.h"); }

}  // namespace
}  // namespace freeway::model
