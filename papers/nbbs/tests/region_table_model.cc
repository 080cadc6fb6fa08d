// SPDX-License-Identifier: MIT
// region_table_model.cc: papers/nbbs/region_table.h and recent.h: regions are added while others follow hints to
// them.
//
// Script    of letters: a make and add a region, w walk over all of them, + give a hint to the region added last, -
//           follow a hint
// Promises  what leads to a region leads to one that is there, with all that was written to it; a walk meets what the
//           walker has added; at the end every region that was added is in one slot, and a walk comes by it. With a
//           thread stopped for ever: the same, but for its latest one, as soon as somebody adds another
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "papers/nbbs/recent.h"
#include "papers/nbbs/region_table.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::nbbs {
namespace {

using model::model_check;
using model::ModelEnv;
using model::Scenario;

constexpr u32 kSlots = 8;

struct AnyRegion {
  ModelEnv::Plain<u32> tree;
};

struct TableProgram {
  static constexpr int kThreads = 3;

  const char* script[kThreads];
  AnyRegion regions[kThreads + 1][4];
  int made[kThreads + 1] = {};
  u64 last[kThreads + 1] = {};  // place of the region added last
  RegionTable<ModelEnv, AnyRegion, kSlots> table;
  Recent<ModelEnv, 4> recent;

  TableProgram(const char* first, const char* second, const char* third) : script{first, second, third} {
    model::model_name(table, "table");
    model::model_name(recent, "hints");
    model::model_name(regions, "region");
  }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      switch (*move) {
        case 'a': add(id); break;
        case 'w': model_check(met(id) == made[id], "a walk meets the regions that one has added"); break;
        case '+':
          if (last[id] != 0) recent.push(last[id]);
          break;
        default: follow(recent.pop());
      }
    }
  }
  void add(int id) {
    AnyRegion& fresh = regions[id][made[id]];
    fresh.tree.set(1);
    model_check(table.add(&fresh), "there is a slot");
    ++made[id];
    for (u32 slot = 0; slot < kSlots; ++slot)
      if (table.at(slot) == &fresh) last[id] = slot + 1;
  }
  void follow(u64 place) {
    if (place == 0) return;
    const AnyRegion* region = table.at(static_cast<u32>(place - 1));
    model_check(region != nullptr, "a hint leads to a region");
    if (region != nullptr) model_check(region->tree.get() == 1, "with its tree");
  }
  int met(int id) {
    int count = 0;
    for (u32 slot = 0; slot < table.size(); ++slot)
      if (AnyRegion* each = table.at(slot)) {
        model_check(each->tree.get() == 1, "what is found has been made");
        count += each >= regions[id] && each < regions[id] + 4;
      }
    return count;
  }
  void finish() {
    model::model_observe(table.size());
    if (model::model_stalled() >= 0) add(kThreads);
    for (int id = 0; id <= kThreads; ++id)
      if (id == model::model_stalled())
        model_check(met(id) >= made[id] && met(id) <= made[id] + 1,
                    "of a stopped thread's regions, its latest is missing");
      else model_check(met(id) == made[id], "each region is in one slot, and a walk comes by it");
  }
};

Scenario scenario(const char* first, const char* second, const char* third = "") {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          model::program_type<TableProgram>(first, second, third)};
}

std::vector<Scenario> scenarios() {
  return {scenario("a", "a"),       scenario("aw", "aw"), scenario("aa", "a"),
          scenario("a", "w"),       scenario("a+", "-"),  scenario("a+", "--"),
          scenario("a+", "-", "-"), scenario("a+", "a-"), scenario("a+a+", "--")};
}
std::vector<Scenario> larger_scenarios() {
  return {scenario("a+", "a+-"), scenario("a+-", "a+-"), scenario("a", "a", "a"), scenario("a+", "a", "-")};
}

TEST(RegionTableModel, Holds) {
  model::expect_hold(scenarios());
  model::expect_hold(model::limited(larger_scenarios(), 5000));
}
TEST(RegionTableModel, OthersGoOnWhenAThreadStopsForEver) {
  std::vector<Scenario> all = model::limited(scenarios(), 300);
  for (Scenario& each : all) each.stalls = true;
  model::expect_all_hold(all);
}
TEST(RegionTableModel, PlantedFaultsAreCaught) {
  for (const char* mutant : {"slot by load and store", "count by store"})
    model::expect_mutant_caught(scenarios(), mutant);
}
TEST(RegionTableModel, EachMemoryOrderIsNeeded) {
  model::expect_orders_needed(scenarios(), "nbbs/region_table.h");
  model::expect_orders_needed(scenarios(), "nbbs/recent.h");
}
TEST(RegionTableModel, DISABLED_HoldsForLonger) {
  model::expect_hold(larger_scenarios());
  std::vector<Scenario> all = model::limited(larger_scenarios(), 3000);
  for (Scenario& each : all) each.stalls = true;
  model::expect_all_hold(all);
}

}  // namespace
}  // namespace freeway::nbbs
