// SPDX-License-Identifier: MIT
// helper_word_model.cc: src/background/helper_word.h: whether there is a helper thread, and whether it must be woken.
//
// Promises  at most one thread is made at a time, and nobody makes one while there is one; whoever ticks after the
//           helper lay down sees to it that it is woken, once; a thread that stops for ever keeps nobody waiting. A
//           forked child has a helper of its own
// Bounds    2 threads of up to 3 actions beside the helper, which lies down twice; weak memory, source-DPOR, exhausted.
//           Stops: each thread for ever at each operation. Forks: sleep sets, exhausted
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "background/helper_word.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

using background::Due;
using Word = background::HelperWord<ModelEnv>;

// Scripts: t tick, and do what is due, as src/background/helper.cc does; f the same, but the kernel refuses to wake it;
// x the helper ends; l lie down, and wait until woken; F fork.
class HelperProgram {
 public:
  static constexpr int kThreads = 3;

  HelperProgram(bool has_helper, const char* first, const char* second, const char* third)
      : script_{first, second, third} {
    model_name(word_, "word");
    exists_ = has_helper;
    if (has_helper) word_.thread().store_relaxed(kFirstThread);
  }
  void thread(int id) {
    for (const char* move = script_[id]; *move != 0; ++move) {
      if (*move == 't') tick(true);
      if (*move == 'f') tick(false);
      if (*move == 'x') end();
      if (*move == 'l') lie_down();
      if (*move == 'F') fork();
    }
  }
  void finish() {
    model_observe(made_);
    const bool stopped = model_stalled() >= 0;
    for (int i = 0; i < sleeps_; ++i) model_check(wakes_[i] <= 1, "a sleeper is woken once");
    if (sleeps_ == 0 || stopped) return;
    const bool ticked = word_.ticks() != slept_at_;
    model_check(!asleep_ || !ticked || wakes_[sleeps_ - 1] == 1, "a tick wakes the sleeper");
    model_check(!asleep_ || ticked || wakes_[sleeps_ - 1] == 0, "nobody wakes it for nothing");
  }

 private:
  static constexpr u32 kFirstThread = 100;

  void tick(bool can_wake) {
    const Due due = word_.tick();
    if (due == Due::kWake && !can_wake && !ModelEnv::mutant("it was not woken, and nobody knows")) word_.not_woken();
    if (due == Due::kWake && can_wake) ++wakes_[sleeps_ - 1];
    if (due != Due::kHelper || !word_.begin()) return;
    block_.set(block_.get() + 1);  // the block is its maker's: the explorer finds a race if it is another's, too
    model_check(!exists_, "there is one helper");
    exists_ = true;
    word_.thread().store_relaxed(kFirstThread + ++made_);  // the kernel
  }
  // The kernel clears the word when the thread has ended, and it orders what it does.
  void end() {
    const u32 id = word_.id();
    if (id == 0) return;
    exists_ = false;
    word_.thread().store_relaxed(0);
  }
  void lie_down() {
    const u64 seen = word_.ticks();
    if (!word_.lie_down(seen)) return;
    slept_at_ = seen;
    asleep_ = true;
    ++sleeps_;
  }
  void fork() {
    model_fork();
    word_.thread().store_relaxed(0);
    exists_ = false;
  }

  const char* script_[kThreads];
  Word word_;
  ModelEnv::Plain<u32> block_;
  bool exists_ = false, asleep_ = false;
  int sleeps_ = 0, wakes_[4] = {};
  u32 made_ = 0;
  u64 slept_at_ = 0;
};

Scenario scenario(bool has_helper, const char* first, const char* second, const char* third = "") {
  Scenario each{std::string(has_helper ? "a helper, " : "") + first + " | " + second + (*third ? " | " : "") + third,
                program_type<HelperProgram>(has_helper, first, second, third)};
  return each;
}

std::vector<Scenario> makers() {
  return {scenario(false, "t", "t"), scenario(false, "tt", "t"), scenario(false, "t", "t", "t"),
          scenario(true, "x", "tt"), scenario(true, "x", "t", "t")};
}
std::vector<Scenario> sleepers() {
  return {scenario(true, "l", "t"),        scenario(true, "l", "tt"), scenario(true, "l", "t", "t"),
          scenario(true, "l", "tt", "tt"), scenario(true, "l", "ft"), scenario(true, "l", "ft", "t"),
          scenario(true, "l", "fft", "ft")};
}
std::vector<Scenario> forks() {
  std::vector<Scenario> all = {scenario(false, "t", "Ft"), scenario(false, "t", "tFt"), scenario(true, "t", "Ftt")};
  for (Scenario& each : all) each.options.reduction = Reduction::kSleep;
  return all;
}
std::vector<Scenario> scenarios() {
  std::vector<Scenario> all = makers();
  for (const auto& more : {sleepers(), forks()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(HelperWordModel, PromisesHold) { expect_hold(scenarios()); }
TEST(HelperWordModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios();
  for (Scenario& each : all) each.stalls = true;
  expect_hold(all);
}

TEST(HelperWordMutants, AreCaught) {
  for (const char* mutant : {"held ones are claimed", "claimed by a store"}) expect_mutant_caught(makers(), mutant);
  for (const char* mutant : {"everybody wakes", "lies down without looking", "it was not woken, and nobody knows"})
    expect_mutant_caught(sleepers(), mutant);
}

}  // namespace
}  // namespace freeway::model
