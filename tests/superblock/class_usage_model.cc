// SPDX-License-Identifier: MIT
// class_usage_model.cc: src/superblock/class_usage.h: a walk through the heap that all who ask go on with.
//
// World     one class; superblocks with 3 taken blocks, and the last of them with 5
// Scripts   a ask: the walk goes on by a step, the first one to its end    r read what the last whole walk has found
//           0 all superblocks go
// Promises  what is read is never wild: so many superblocks as walks may have added up, and an average of them; a walk
//           that nobody overtakes counts each place once. Whatever happened, also with a thread stopped for ever, two
//           more walks know what is there
// Bounds    3 threads of up to 6 moves, 1 to 3 places, the first walk as well as later ones; weak memory, source-DPOR,
//           exhausted. Stops: each thread for ever at each operation
#include "superblock/class_usage.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

class UsageProgram {
 public:
  static constexpr int kThreads = 3;

  // The setup is run before the threads are there.
  UsageProgram(u64 places, const char* setup, const char* first, const char* second, const char* third)
      : heap_{places}, setup_(setup), script_{first, second, third} {
    model_name(usage_, "usage");
    run(setup);
  }

  void thread(int id) { run(script_[id]); }

  void finish() {
    const u64 walk = heap_.places + 1;
    read();
    if (setup_ == std::string("a") && !heap_.is_empty && !heap_.has_ended && model_stalled() < 0) {
      // The second walk goes on.
      while (!heap_.has_ended) usage_.advance(heap_);
      expect_exact();
    }
    for (u64 i = 0; i < 3 * walk; ++i) usage_.advance(heap_);
    expect_exact();
  }

 private:
  static constexpr unsigned kClass = 1;
  static constexpr u32 kLow = 3, kHigh = 5;

  struct Heap {
    u64 places;
    bool has_ended = false;  // since the setup
    bool is_empty = false;
    bool is_end(u64 place) { return place == places && (has_ended = true); }
    static u64 behind(u64 place) { return place + 1; }
    u32 taken_at(u64 place) const { return place + 1 == places ? kHigh : kLow; }
    template <class F> void count(u64 place, F&& f) const {
      if (!is_empty) f(kClass, taken_at(place));
    }
  };

  void run(const char* script) {
    for (const char* move = script; *move != 0; ++move) {
      if (*move == 'a') usage_.advance(heap_);
      else if (*move == 'r') read();
      else heap_.is_empty = true;
    }
    if (script == setup_) heap_.has_ended = false;
  }

  void read() const {
    const occupancy::Usage found = usage_.of(kClass);
    constexpr u64 kMostWalks = 8;
    model_check(found.superblocks <= heap_.places * kMostWalks, "not more superblocks than walks have counted");
    model_check(found.taken >= found.superblocks * kLow && found.taken <= found.superblocks * kHigh,
                "the average is one of superblocks");
    if (model_thread() < 0) model_observe(found.superblocks);
  }

  void expect_exact() const {
    const occupancy::Usage found = usage_.of(kClass);
    const u64 taken = (heap_.places - 1) * kLow + kHigh;
    model_check(found.superblocks == (heap_.is_empty ? 0 : heap_.places), "each place is counted once");
    model_check(found.taken == (heap_.is_empty ? 0 : taken), "with what is taken there");
  }

  Heap heap_;
  const char* setup_;
  const char* script_[kThreads];
  ClassUsage<ModelEnv, kClass + 1> usage_;
};

Scenario usage(u64 places, const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::to_string(places) + " places, " + (*setup ? setup : "nothing") + ": " + first + " | " + second +
              (*third ? " | " : "") + third,
          program_type<UsageProgram>(places, setup, first, second, third)};
}
std::vector<Scenario> scenarios() {
  return {usage(1, "", "a", "a"),         usage(1, "", "a", "r"),        usage(1, "", "a", "ar"),
          usage(2, "", "a", "r"),         usage(2, "a", "a", "a"),       usage(3, "a", "a", "a", "a"),
          usage(2, "a", "aa", "ar"),      usage(1, "aa", "a", "ar"),     usage(1, "aa", "aa", "ar"),
          usage(1, "aa", "a", "aar"),     usage(1, "aa", "a", "aa0aar"), usage(2, "aaa", "aa", "ar"),
          usage(1, "aa", "a", "a", "ar"), usage(2, "aaa", "a", "aaaar")};
}

TEST(ClassUsageModel, PromisesHold) { expect_hold(scenarios()); }
TEST(ClassUsageModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}
// The second is what this model found.
TEST(ClassUsageMutants, AreCaught) {
  for (const char* mutant : {"whoever comes counts", "taken out in two steps", "added in two steps"})
    expect_mutant_caught(scenarios(), mutant);
}

}  // namespace
}  // namespace freeway::model
