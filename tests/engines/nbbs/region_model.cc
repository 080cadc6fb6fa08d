// SPDX-License-Identifier: MIT
// region_model.cc: src/engine/nbbs/region.h: regions come and go under threads that allocate from them.
//
// Script    of letters: o open the region, l and r take its left and right half, f free the oldest, and close the region if it
//           is empty then, as the engine does; c close it
// Promises  memory is taken when there is none and given when there is some; a block that is taken lies in the memory that is
//           there; nobody touches memory after it was given (a race); no block twice; at the end, all freed, it can be closed
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "engine/nbbs/region.h"
#include "model/explorer.h"
#include "model/model_env.h"
#include "model/scenarios.h"

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
constexpr Settings kSettings{2, 16, 16, 4, Kind::kCorrectedUp};
using ModelRegion = Region<ModelEnv, Backing>;

struct RegionProgram {
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
    if (model::model_stalled() >= 0) return;
    for (int id = 0; id < kThreads; ++id)
      for (int i = 0; i < 4; ++i) give(id);
    if (!region().is_closed()) model_check(region().close(backing), "an empty region can be closed");
    model_check(backing.address == 0 && region().base() == 0, "a closed region has no memory");
    model_check(region().open(backing, 1), "and can be opened");
  }
};

Scenario scenario(const char* setup, const char* first, const char* second, const char* third = "") {
  return {std::string(setup) + ": " + first + " | " + second + (*third ? " | " : "") + third,
          model::program_type<RegionProgram>(setup, first, second, third)};
}

std::vector<Scenario> scenarios() {
  return {scenario("", "olf", "or"),       scenario("", "olf", "or", "c"), scenario("ol", "f", "rf"),
          scenario("ol", "fol", "rf"),    scenario("o", "c", "lf", "o"),   scenario("o", "co", "co", "l"),
          scenario("olr", "f", "c", "lf"), scenario("ol", "f", "ol", "or")};
}

TEST(RegionModel, Holds) { model::expect_hold(scenarios()); }

TEST(RegionModel, OthersGoOnWhenAThreadStopsForEver) {
  std::vector<Scenario> all = {scenario("", "olf", "or"), scenario("ol", "f", "rf"), scenario("o", "c", "lf", "o")};
  for (Scenario& each : all) each.stalls = true;
  model::expect_hold(all);
}

TEST(RegionModel, EachMemoryOrderIsNeeded) { model::expect_orders_needed(scenarios(), "nbbs/region.h"); }

}  // namespace
}  // namespace freeway::nbbs
