// SPDX-License-Identifier: MIT
// pages_range_model.cc: src/pages/committed_range.h in all executions of small programs.
//
// Scripts   e<n> make the first n frames accessible, and then use the last of them and the first
//           f<n> the same with the n-th frame alone
//           h look at the holes
//           m<n> another's mapping of two frames appears at the n-th, if nothing is there       u it goes away again
// Promises  what ensure() granted is accessible for whoever asked, though another thread made it so; the watermark is
//           never below it, and nothing of it is in a hole; a thread that is stopped between mapping a piece and the
//           watermark, or while it skips, stops nobody. At the end all below the watermark is mapped or in a hole,
//           nothing in a hole or above is mapped but what is another's, or in the hands of a stopped thread
// Bounds    2 or 3 threads, 1 to 4 calls each, a kernel that refuses long steps or everything; weak memory, no other
// bound
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pages/committed_range.h"
#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

struct RangeScript {
  const char* thread[3];
  std::size_t most_committed = ~std::size_t{0};
  u32 accessible = 0;    // frames, from the start
  bool reserved = true;  // or merely chosen
  u64 foreign = 0;       // frames that are another's from the start on, as bits
};

struct RangeProgram {
  static constexpr int kThreads = 3;
  static constexpr u32 kFrames = 16;

  RangeScript script;
  PagesKernel kernel;
  CommittedRange<PagesEnv> range;
  u64 granted[kThreads] = {};  // frames, as bits
  u64 foreign = 0;

  explicit RangeProgram(const RangeScript& s) : script(s), foreign(s.foreign) {
    PagesEnv::kernel = &kernel;
    model_name(range, "watermark");
    for (u32 f = 0; f < kFrames; ++f)
      if ((foreign >> f & 1) != 0) kernel.occupy(address(f), 1);
    range.init({PagesKernel::kArena, s.reserved}, kFrames * kFrameSize);
    if (script.accessible != 0) range.ensure(0, script.accessible * kFrameSize);
    kernel.settle();
    kernel.most_committed = script.most_committed;
  }

  static uptr address(u64 frame) { return PagesKernel::kArena + frame * kFrameSize; }

  void thread(int id) {
    u32 mapped = 0;  // the frame at which this thread has mapped something, and one
    each_move(script.thread[id], [&](Move move) {
      const u32 last = move.number - 1;
      switch (move.letter) {
        case 'e': use(id, 0, last); break;
        case 'f': use(id, last, last); break;
        case 'h':
          range.each_hole(
              [](std::size_t from, std::size_t to) { model_check(from < to, "a hole that is told of is noted"); });
          break;
        case 'm':
          if (kernel.extend(address(last), 2 * kFrameSize) != Extended::kDone) break;
          foreign |= u64{3} << last;
          mapped = move.number;
          break;
        case 'u':
          if (mapped == 0 && foreign == 0) break;
          if (mapped == 0) mapped = lowest_bit(foreign) + 1;
          foreign &= ~(u64{3} << (mapped - 1));
          kernel.unmap_piece(address(mapped - 1), 2 * kFrameSize);
          mapped = 0;
          break;
        default: model_check(false, "a letter that means something");
      }
    });
  }
  void use(int id, u32 first, u32 last) {
    if (range.ensure(first * kFrameSize, (last + 1) * kFrameSize) != Access::kYes) return;
    granted[id] |= low_bits(last + 1) & ~low_bits(first);
    kernel.touch(address(first));
    kernel.touch(address(last));
  }

  u64 holes() {
    u64 bits = 0;
    range.each_hole([&](std::size_t from, std::size_t to) {
      bits |= low_bits(static_cast<u32>(to / kFrameSize)) & ~low_bits(static_cast<u32>(from / kFrameSize));
    });
    return bits;
  }

  void finish() {
    const std::size_t committed = range.committed();
    model_observe(committed);
    model_observe(holes());
    model_check(committed <= kFrames * kFrameSize, "the watermark is within the range");
    const u64 decided = low_bits(static_cast<u32>(committed / kFrameSize)), ours = decided & ~holes();
    const u64 mapped = kernel.accessible(PagesKernel::kArena);
    for (u32 f = 0; f < kFrames; ++f)
      if ((ours >> f & 1) != 0) kernel.touch(address(f));
    for (const u64 frames : granted) {
      model_observe(frames);
      model_check((frames & ~ours) == 0, "what was granted is below the watermark, and in no hole");
    }
    if (!script.reserved) {
      model_check((foreign & ours) == 0, "nothing of another's is ours");
      model_check((foreign & ~mapped) == 0, "nothing of another's was unmapped");
      if (model_stalled() < 0) model_check((mapped & ~ours & ~foreign) == 0, "no piece is lost");
    }
    kernel.most_committed = ~std::size_t{0};
    const Access all = range.ensure(0, kFrames * kFrameSize);
    model_check(all == Access::kYes || (all == Access::kHole && holes() != 0), "when there is memory all is decided");
    model_check(!script.reserved || all == Access::kYes, "all of a reservation can be had");
  }
};

Scenario scenario(const char* name, const RangeScript& script, bool stalls = true) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<RangeProgram>(script), {}, stalls};
}

// All of them also with each thread stopped for ever at each operation.
std::vector<Scenario> reserved() {
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

// Spaces that are merely chosen.
constexpr std::size_t kAny = ~std::size_t{0};
std::vector<Scenario> chosen() {
  return {
      scenario("the same is needed by two", {{"e1", "e1", ""}, kAny, 0, false}),
      scenario("one needs more", {{"e1", "e4", ""}, kAny, 0, false}),
      scenario("each a frame, and one more", {{"f1f3", "f2", ""}, kAny, 0, false}),
      scenario("some is there", {{"f3", "f4f5", ""}, kAny, 2, false}),
      scenario("by three", {{"f1", "f1", "f1"}, kAny, 0, false}, false),
      scenario("something in the way", {{"f1f3", "f3", ""}, kAny, 0, false, 3 << 2}),
      scenario("something in the way, and a look", {{"f3", "h", ""}, kAny, 0, false, 1}),
      scenario("something at the start", {{"f1", "f3", ""}, kAny, 0, false, 1}),
      scenario("something in the midst of a long piece", {{"e8", "f1", ""}, kAny, 0, false, 1 << 4}),
      scenario("something appears", {{"f1f4", "m3", ""}, kAny, 0, false}),
      scenario("something goes away", {{"f3", "u", ""}, kAny, 2, false, 3 << 2}),
      scenario("one thing goes and another comes", {{"f1", "uf1m3f3", ""}, kAny, 0, false, 3}),
      scenario("memory is refused", {{"f1", "f1f3", ""}, 0, 2, false}),
      scenario("long steps are refused", {{"f1f2", "f2", ""}, kFrameSize, 0, false}),
      scenario("long steps are refused, and something is in the way", {{"f3", "f3", ""}, kFrameSize, 2, false, 1 << 3}),
  };
}

std::vector<Scenario> scenarios() {
  std::vector<Scenario> all = reserved();
  for (Scenario& each : chosen()) all.push_back(each);
  return all;
}

TEST(PagesRangeModel, WhatIsGrantedIsAccessibleAlsoWhenAThreadStops) { expect_hold(reserved()); }
TEST(PagesRangeModel, PiecesOfAPlaceHaveOneOwnerAlsoWhenAThreadStopsOrSomethingIsInTheWay) { expect_hold(chosen()); }

TEST(PagesRangeMutants, MovingTheWatermarkFirstIsCaught) { expect_mutant_caught(scenarios(), "watermark first"); }
TEST(PagesRangeMutants, PublishingBeforeMappingIsCaughtInAPlace) { expect_mutant_caught(chosen(), "watermark first"); }
TEST(PagesRangeMutants, AWatermarkThatCanSinkIsCaught) { expect_mutant_caught(reserved(), "watermark stored"); }
TEST(PagesRangeMutants, PublishingWhatWasSkippedIsCaught) { expect_mutant_caught(chosen(), "watermark stored"); }
TEST(PagesRangeMutants, KeepingAPieceThatWasSkippedIsCaught) { expect_mutant_caught(chosen(), "skipped piece kept"); }
TEST(PagesRangeMutants, UnmappingAPublishedPieceIsCaught) { expect_mutant_caught(chosen(), "published and unmapped"); }
TEST(PagesRangeMutants, AHoleThatNobodyIsToldOfIsCaught) { expect_mutant_caught(chosen(), "hole not published"); }
TEST(PagesRangeMutants, ReplacingAHoleThatCountsIsCaught) { expect_mutant_caught(chosen(), "hole overwritten"); }
TEST(PagesRangeMutants, HandingOutAHoleIsCaught) { expect_mutant_caught(chosen(), "holes handed out"); }
TEST(PagesRangeMutants, EachMemoryOrderIsNeeded) { expect_orders_needed(scenarios(), "pages/committed_range.h"); }

}  // namespace
}  // namespace freeway::model
