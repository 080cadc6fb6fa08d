// SPDX-License-Identifier: MIT
// births_leaves_model.cc: the leaves of src/harden/births.h in all executions of small programs: far blocks' bytes,
// whose memory whoever needs it first gets from the kernel and publishes.
//
// World     a span for each thread, all in one gigabyte; three leaves, which hold garbage until the mapping thread has
//           zeroed them; mail
// Scripts   p provide for the own span, of which one block is born     f free it     s send it     r receive it and
//           free it
// Promises  what is provided is zero to whoever provided it; a byte that was written is there for whoever got the
//           block; one leaf is published, and none is lost but that of a thread which is stopped for ever
// Bounds    2 or 3 threads of 1 or 2 actions. Weak memory, source-DPOR, exhausted
#include "harden/births.h"

#include <gtest/gtest.h>

#include <array>
#include <new>
#include <string>
#include <vector>

#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

using Leafed = Births<PagesEnv>;
Leafed the_births;  // megabytes that are the same in every execution: the explorer keeps the values

constexpr uptr kSpans = uptr{4} << 32;  // one frame each, in one gigabyte
constexpr u32 kSpansThere = 3;

// Leaves as they are before the kernel's zeros are known to a thread.
class Leaves {
 public:
  static constexpr unsigned kCount = 3;
  Leaves() {
    for (auto& leaf : memory_)
      for (u32 span = 0; span < kSpansThere; ++span) new (&leaf[entry(span)]) Leafed::Byte(0x99);
  }
  uptr operator[](unsigned n) { return reinterpret_cast<uptr>(&memory_[n][0]); }
  static void zero(uptr leaf) {
    for (u32 span = 0; span < kSpansThere; ++span) reinterpret_cast<Leafed::Byte*>(leaf)[entry(span)].store_relaxed(0);
  }
  static uptr span(u32 n) { return kSpans + n * kFrameSize; }

 private:
  static std::size_t entry(u32 n) { return n * kFrameSize >> birth::kLeastShift; }
  Leafed::Byte memory_[kCount][kSpansThere * kFrameSize >> birth::kLeastShift];
};
Leaves the_leaves;

class LeavesProgram {
 public:
  static constexpr int kThreads = 3;
  explicit LeavesProgram(std::array<const char*, 3> scripts) : scripts_(scripts) {
    PagesEnv::kernel = &kernel_;
    model_name(&the_births, sizeof the_births, "births");
    model_name(letter_, "letter");
    kernel_.pool_bytes = Leafed::kLeafBytes;
    kernel_.fresh = &Leaves::zero;
    for (unsigned n = 0; n < Leaves::kCount; ++n) {
      kernel_.pool[n] = the_leaves[n];
      model_name(reinterpret_cast<void*>(the_leaves[n]), sizeof(Leaves) / Leaves::kCount, "leaf", static_cast<int>(n));
    }
    the_births.init(Space{}, 0, 0);
    kernel_.settle();
  }
  void thread(int id) {
    const auto span = static_cast<u32>(id);
    for (const char* move = scripts_[span]; *move != 0; ++move) {
      if (*move == 'p') provide(span);
      if (*move == 'f') release(span);
      if (*move == 's') letter_.store_release(span + 1);
      if (const u32 letter = *move == 'r' ? letter_.load_acquire() : 0; letter != 0) release(letter - 1);
    }
  }
  void finish() {
    const u32 taken = popcount(kernel_.pool_taken());
    const std::size_t made = the_births.committed() / Leafed::kLeafBytes;
    model_check(made <= 1, "one leaf is published");
    model_check(taken <= made + (model_stalled() >= 0 ? 1 : 0), "no leaf is lost");
    for (u32 span = 0; span < kSpansThere; ++span)
      if (provided_[span]) model_observe(the_births.far(Leaves::span(span)).load_relaxed());
  }

 private:
  void provide(u32 span) {
    const auto kind = the_births.provide(Leaves::span(span), kFrameSize, 16);
    model_check(kind == Leafed::Kind::kFar, "there is memory for a leaf");
    provided_[span] = true;
    auto& byte = the_births.far(Leaves::span(span));
    model_check(byte.load_relaxed() == 0, "what is provided is zero");
    birth::begin(byte, Leaves::span(span));
  }
  static void release(u32 span) {
    auto& byte = the_births.far(Leaves::span(span));
    model_check(birth::is_born(byte, Leaves::span(span), [] { return false; }), "a correct free is not refused");
    birth::end(byte);
  }

  std::array<const char*, 3> scripts_;
  PagesKernel kernel_;
  ModelEnv::Atomic<u32> letter_;
  bool provided_[kSpansThere] = {};
};

Scenario leaves(const char* first, const char* second, const char* third = "") {
  return {std::string("leaves: ") + first + " | " + second + (*third ? " | " : "") + third,
          program_type<LeavesProgram>(std::array<const char*, 3>{first, second, third})};
}
std::vector<Scenario> leaf_scenarios() {
  return {leaves("p", "p"), leaves("ps", "r"), leaves("pf", "pf"), leaves("ps", "pr"), leaves("p", "p", "p")};
}

TEST(BirthsLeavesModel, PromisesHold) { expect_hold(leaf_scenarios()); }
TEST(BirthsLeavesModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = leaf_scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
TEST(BirthsLeavesModel, EachMemoryOrderIsNeeded) { expect_orders_needed(leaf_scenarios(), "harden/births.h"); }

}  // namespace
}  // namespace freeway::model
