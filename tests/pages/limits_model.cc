// SPDX-License-Identifier: MIT
// pages_limits_model.cc: src/pages/limits.h in every interleaving of small programs: what is backed by memory is never
// more than a hard limit allows, whoever charges, gives back and sets limits at the same time.
//
// Scripts   c<n> charge n frames, and touch them if that was granted     g give the oldest back: the memory goes, then
//           its charge     h<n> set the hard limit     m move the oldest: it changes its kind and keeps its charge
// Promises  what is backed is never more than what is held. Held, at any moment after a limit was set, is within it, or
//           was more already and does not grow. Nobody is refused what fits beside what others hold, or have in hand.
//           At the end all that is held is backed; with a thread stopped for ever, but for what it had in hand
// Bounds    2 or 3 threads, 1 to 3 calls each; weak memory, no other bound
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pages/limits.h"
#include "tests/explorer/scenarios.h"
#include "tests/pages/pages_world.h"

namespace freeway::model {
namespace {

struct LimitsScript {
  u32 hard;   // at first; 0: none
  u32 taken;  // frames that each thread has to begin with, one block
  const char* thread[3];
};

struct LimitsProgram {
  static constexpr int kThreads = 3;

  LimitsScript script;
  Limits<ModelEnv> limits;
  Belongings<u32> blocks[kThreads];
  u32 in_hand[kThreads] = {};
  // What is backed changes in the step that touches `memory`, between the steps of the word.
  ModelEnv::Atomic<u32> memory;
  u32 backed = 0;
  static constexpr u32 kAny = ~u32{0};
  u32 allowed[kThreads + 1] = {};  // by the limits that each thread has set, or is setting; at first, by the program's

  explicit LimitsProgram(const LimitsScript& s) : script(s) {
    model_name(limits, "limits");
    model_name(memory, "memory");
    for (int id = 0; id < kThreads; ++id) {
      if (*s.thread[id] == 0 || s.taken == 0) continue;
      limits.charge(s.taken);
      backed += s.taken;
      blocks[id].add(s.taken);
    }
    limits.begin(0, s.hard);
    allowed[kThreads] = allow(s.hard);
  }

  // No more than the limit, or than there is.
  u32 allow(u32 hard) const { return hard == 0 ? kAny : hard > backed_or_in_hand() ? hard : backed_or_in_hand(); }
  u32 backed_or_in_hand() const {
    u32 all = backed;
    for (u32 each : in_hand) all += each;
    return all;
  }
  void touch(u32 frames) {
    memory.fetch_add_relaxed(1);
    backed += frames;
    u32 most = 0;
    for (u32 each : allowed) most = each > most ? each : most;
    model_check(backed <= most, "no more is backed than the limit allows");
  }

  void thread(int id) {
    each_move(script.thread[id], [&](Move move) {
      auto& mine = blocks[id];
      switch (move.letter) {
        case 'c': {
          in_hand[id] = move.number;
          const bool granted = limits.charge(move.number);
          if (granted) {
            touch(move.number);
            mine.add(move.number);
          }
          model_observe(granted);
          break;
        }
        case 'g':
          if (!mine.any()) break;
          in_hand[id] = mine.oldest();
          if (ModelEnv::mutant("uncharged too early")) limits.uncharge(mine.oldest());
          memory.fetch_add_relaxed(1);
          backed -= mine.oldest();
          if (!ModelEnv::mutant("uncharged too early")) limits.uncharge(mine.oldest());
          mine.remove();
          break;
        case 'm':
          if (mine.any()) mine.add(mine.remove());
          break;
        case 'h':
          allowed[id] = kAny;
          limits.set(0, move.number);
          allowed[id] = allow(move.number);
          allowed[kThreads] = 0;
          break;
        default: model_check(false, "a letter that means something");
      }
      in_hand[id] = 0;
    });
  }

  void finish() {
    const int stalled = model_stalled();
    const u32 lost = stalled < 0 ? 0 : in_hand[stalled];
    u32 owned = 0;
    for (auto& each : blocks) each.each([&](u32 frames) { owned += frames; });
    const u64 held = limits.held();
    model_observe(held);
    model_check(held >= backed, "what is backed is charged");
    model_check(held <= backed + lost, "what is charged is backed, but for what a stopped thread had in hand");
    model_check(owned <= backed + lost, "what is owned is backed");
    // Room is what the limit leaves, and all of it can be had.
    const u64 hard = limits.hard();
    if (hard > held) model_check(limits.charge(hard - held), "what fits is granted");
    if (hard != 0) model_check(!limits.charge(1), "what does not fit is refused");
  }
};

Scenario scenario(const char* name, const LimitsScript& script) {
  std::string full = name;
  for (int id = 0; id < 3; ++id)
    if (*script.thread[id] != 0) full += (id == 0 ? ": " : " | ") + std::string(script.thread[id]);
  return {full, program_type<LimitsProgram>(script)};
}

std::vector<Scenario> charges() {
  return {
      scenario("two where one fits", {5, 0, {"c3", "c3", ""}}),
      scenario("two that fit", {6, 0, {"c3", "c3", ""}}),
      scenario("one gives what the other needs", {6, 3, {"gc3", "c3", ""}}),
      scenario("both give and take again", {6, 3, {"gc2c1", "gc3", ""}}),
      scenario("three where two fit", {7, 0, {"c3", "c3", "c3"}}),
      scenario("what changes its kind keeps its charge", {4, 2, {"mc1", "gc2", ""}}),
  };
}

std::vector<Scenario> limits_set() {
  return {
      scenario("a limit comes while one charges", {0, 0, {"c3", "h2c1", ""}}),
      scenario("a limit is lowered while two charge", {9, 1, {"c3", "c3", "h4"}}),
      scenario("two limits at once", {0, 1, {"h3c2", "h5gc2", ""}}),
      scenario("a limit is raised", {3, 1, {"c2c2", "h8c2", ""}}),
  };
}

std::vector<Scenario> all_scenarios() {
  std::vector<Scenario> all = charges();
  for (Scenario& each : limits_set()) all.push_back(each);
  return all;
}

std::vector<Scenario> with_stalls(std::vector<Scenario> scenarios) {
  for (Scenario& each : scenarios) each.stalls = true;
  return scenarios;
}

TEST(PagesLimitsModel, NoMoreIsBackedThanTheLimitAllows) { expect_hold(charges()); }
TEST(PagesLimitsModel, ALimitHoldsFromTheStepThatSetsIt) { expect_hold(limits_set()); }
TEST(PagesLimitsModel, AThreadThatStopsForEverTakesRoomWithIt) { expect_hold(with_stalls(all_scenarios())); }

TEST(PagesLimitsMutants, TestingAndAddingApartIsCaught) { expect_mutant_caught(charges(), "tested and added apart"); }
TEST(PagesLimitsMutants, UnchargingBeforeTheMemoryHasGoneIsCaught) {
  expect_mutant_caught(charges(), "uncharged too early");
}
TEST(PagesLimitsMutants, ALimitBesideTheWordIsCaught) { expect_mutant_caught(limits_set(), "limit set in two steps"); }

}  // namespace
}  // namespace freeway::model
