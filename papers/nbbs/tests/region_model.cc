// SPDX-License-Identifier: MIT
// region_model.cc: papers/nbbs/region.h: regions come and go under threads that allocate from them.
//
// Script    of letters: o open the region, l and r take its left and right half, f free the oldest, and close the
//           region if it is empty then, as the engine does; c close it
// Promises  memory is taken when there is none and given when there is some; a block that is taken lies in the memory
//           that is there; nobody touches memory after it was given (a race); no block twice; at the end, all freed, it
//           can be closed. With a thread stopped for ever: all of that, once what the stopped one has of the tree was
//           given back for it, unless it was opening or closing the region: then that is lost, and others are told that
//           it is not there
// Trees     of one word, and of one word a node, where a block's claim and the root are not in the same word
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "papers/nbbs/region.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::nbbs {
namespace {

using model::model_check;
using model::ModelEnv;
using model::Scenario;

struct Backing {
  uptr address = 0;  // of what is there now; each time another
  unsigned spans = 0;
  ModelEnv::Plain<u32> content[2];

  uptr take_span(std::size_t, std::size_t, u32) {
    model_check(address == 0, "memory is taken when there is none");
    for (auto& each : content) each.set(1);
    return address = uptr{++spans} << 20;
  }
  void give_span(uptr given, std::size_t) {
    model_check(given != 0 && given == address, "the memory that is there is given");
    for (auto& each : content) each.set(2);
    address = 0;
  }
};

// Two halves of 64 KiB.
constexpr Settings settings(unsigned levels_per_word) { return {2, 16, 16, levels_per_word, Kind::kCorrectedUp}; }
using ModelRegion = Region<ModelEnv, Backing>;

template <unsigned kLevelsPerWord> struct RegionProgram {
  static constexpr Settings kSettings = settings(kLevelsPerWord);
  static constexpr int kThreads = 3;

  const char* script[kThreads];
  Backing backing;
  alignas(64) unsigned char memory[ModelRegion::bytes(kSettings)];
  Node had[kThreads][4] = {};
  bool held[2] = {};

  RegionProgram(const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third} {
    region().init(kSettings);
    model::model_name(memory, sizeof(memory), "region");
    model::model_name(backing.content, "content");
    follow(setup, 0);
  }
  ModelRegion& region() { return *reinterpret_cast<ModelRegion*>(memory); }

  void thread(int id) { follow(script[id], id); }
  void follow(const char* moves, int id) {
    for (; *moves != 0; ++moves) {
      if (*moves == 'o') region().open(backing, 1);
      if (*moves == 'c') region().close(backing);
      if (*moves == 'l' || *moves == 'r') take(*moves == 'l' ? 2 : 3, id);
      if (*moves == 'f') give(id);
    }
  }
  void take(Node start, int id) {
    if (!region().is_open()) return;
    const Node n = region().take(1, start);
    if (n == 0) return;
    model_check(region().base() != 0 && region().base() == backing.address, "a block lies in the memory that is there");
    model_check(!held[n - 2], "no block is handed out twice");
    held[n - 2] = true;
    backing.content[n - 2].set(3);
    for (Node& slot : had[id])
      if (slot == 0) {
        slot = n;
        break;
      }
  }
  void give(int id) {
    for (Node& slot : had[id]) {
      if (slot == 0) continue;
      backing.content[slot - 2].set(4);
      held[slot - 2] = false;
      unsigned free_level;
      model_check(region().give(std::exchange(slot, 0), &free_level), "what was taken can be given");
      if (region().tree().is_empty()) region().close(backing);
      return;
    }
  }
  void finish() {
    if (model::model_stalled() >= 0) return finish_without(model::model_stalled());
    for (int id = 0; id < kThreads; ++id)
      for (int i = 0; i < 4; ++i) give(id);
    if (!region().is_closed()) model_check(region().close(backing), "an empty region can be closed");
    model_check(backing.address == 0 && region().base() == 0, "a closed region has no memory");
    model_check(region().open(backing, 1), "and can be opened");
  }
  void finish_without(int stopped) {
    for (int id = 0; id < kThreads; ++id)
      for (int i = 0; id != stopped && i < 4; ++i) give(id);
    if (region().is_open() && region().tree().block_at(0) != 1) {
      for (Node n : {2, 3}) region().tree().give(n);  // whoever knows that it is dead may do this
      region().tree().repair_all();
      model_check(region().close(backing), "an empty region can be closed");
    }
    if (region().is_closed()) {
      model_check(backing.address == 0 && region().base() == 0, "a closed region has no memory");
      model_check(region().open(backing, 1), "and can be opened");
    } else {
      model_check(!region().open(backing, 1), "it is not there for others");
      model_check(region().take(1, 2) == 0 && region().take(1, 3) == 0, "nothing is had from it");
    }
  }
};

template <unsigned kLevelsPerWord>
Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::to_string(kLevelsPerWord) + " levels in a word: " + setup + ": " + first + " | " + second +
              (*third ? " | " : "") + third,
          model::program_type<RegionProgram<kLevelsPerWord>>(setup, first, second, third)};
}

template <unsigned k> std::vector<Scenario> scenarios() {
  return {scenario<k>("", "olf", "or"),       scenario<k>("", "olf", "or", "c"), scenario<k>("ol", "f", "rf"),
          scenario<k>("ol", "fol", "rf"),     scenario<k>("o", "c", "lf", "o"),  scenario<k>("o", "co", "co", "l"),
          scenario<k>("olr", "f", "c", "lf"), scenario<k>("ol", "f", "ol", "or")};
}
std::vector<Scenario> of_many_words(std::uint64_t executions) { return model::limited(scenarios<1>(), executions); }

TEST(RegionModel, Holds) { model::expect_hold(scenarios<4>()); }
TEST(RegionModel, HoldsWithAWordForEachNode) { model::expect_hold(of_many_words(2000)); }

TEST(RegionModel, OthersGoOnWhenAThreadStopsForEver) {
  std::vector<Scenario> all = scenarios<4>();
  for (Scenario& each : of_many_words(60)) all.push_back(each);
  for (Scenario& each : all) {
    each.stalls = true;
    if (each.options.max_executions == 0) each.options.max_executions = 300;
  }
  model::expect_all_hold(all);
}

TEST(RegionModel, PlantedFaultsAreCaught) {
  for (const char* mutant : {"root freed early", "closed without the root", "closed early", "waits for who opens"})
    model::expect_mutant_caught(scenarios<4>(), mutant);
}

TEST(RegionModel, EachMemoryOrderIsNeeded) { model::expect_orders_needed(scenarios<4>(), "nbbs/region.h"); }

TEST(RegionModel, DISABLED_HoldsForLonger) {
  model::expect_hold(of_many_words(30000));
  std::vector<Scenario> all = model::limited(scenarios<4>(), 3000);
  for (Scenario& each : of_many_words(3000)) all.push_back(each);
  for (Scenario& each : all) each.stalls = true;
  model::expect_all_hold(all);
}

}  // namespace
}  // namespace freeway::nbbs
