// SPDX-License-Identifier: MIT
// partial_list_model.cc: papers/michael/{fifo,lifo,partial_list}.h, all executions of small programs, and the
// faults they must show.
//
// Promises: a descriptor is in the list once or in one pair of hands, and what its last owner did to it is seen by the
// next; nodes too; a FIFO hands out what one thread put in the order of the puts; nothing is lost; a thread that stops
// for ever keeps at most the descriptor in its hands.
#include <gtest/gtest.h>

#include <string>

#include "papers/michael/partial_list.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

using michael::Descriptor;
using michael::ListKind;
using michael::ListLink;
using michael::PartialList;
namespace anchor = michael::anchor;

constexpr u32 kListed = 3;
constexpr u32 kDummy = kListed + 1;

// Scripts: - get and keep, + put the one kept longest, e remove an EMPTY one (they stay out), E make the one kept
// longest EMPTY and put it. In the setup each digit puts that descriptor, the one behind > is kept by the second
// thread, * makes the one before EMPTY.
struct ListProgram {
  static constexpr int kThreads = 3;

  const char* script[kThreads];
  ListKind kind;
  PartialList<ModelEnv> list;
  Descriptor<ModelEnv> desc[kDummy + 1];
  u32 kept[kThreads][8] = {};
  int from[kThreads] = {}, to[kThreads] = {};
  u32 removed[kThreads] = {};
  u32 present = 0;  // bits

  auto nodes() {
    return [this](u32 index) -> Descriptor<ModelEnv>& {
      model_check(index >= 1 && index <= kDummy, "a node that exists");
      return desc[index];
    };
  }

  ListProgram(ListKind k, const char* setup, const char* first, const char* second, const char* third)
      : script{first, second, third}, kind(k) {
    model_name(list, "list");
    for (u32 d = 1; d <= kDummy; ++d) {
      const int index = static_cast<int>(d);
      model_name(desc[d].anchor, "anchor", index);
      model_name(desc[d].link, "link", index);
      model_name(desc[d].value, "value", index);
      model_name(desc[d].node, "node", index);
      model_name(desc[d].sb, "content", index);
      desc[d].self.set(d);
      desc[d].node.set(d);
    }
    list.init(kind, kDummy);
    for (const char* c = setup; *c != 0; ++c) {
      if (*c >= '1' && *c <= '3') present |= u32{1} << (*c - '0');
      if (*c == '*') make_empty(static_cast<u32>(c[-1] - '0'));
      else if (*c == '>') kept[1][to[1]++] = static_cast<u32>(*++c - '0'), present |= u32{1} << (*c - '0');
      else list.put(desc[*c - '0'], nodes());
    }
  }

  void make_empty(u32 d) { desc[d].anchor.store_relaxed(anchor::with_state(0, anchor::kEmpty)); }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == '-' || *move == 'e') {
        Descriptor<ModelEnv>* got = *move == '-' ? list.get(nodes()) : list.remove_empty(nodes());
        if (got == nullptr) continue;
        got->sb.set(got->sb.get() + 1);  // a race unless it is ours alone
        if (*move == 'e') {
          model_check(anchor::state(got->anchor.load_relaxed()) == anchor::kEmpty, "only EMPTY ones are removed");
          removed[id] |= u32{1} << got->self.get();
        } else {
          kept[id][to[id]++] = got->self.get();
        }
      } else if (from[id] < to[id]) {
        const u32 d = kept[id][from[id]++];
        if (*move == 'E') make_empty(d);
        list.put(desc[d], nodes());
      }
    }
  }

  void finish() {
    int places[kDummy + 1] = {}, owned[kDummy + 1] = {};
    const bool stalled = model_stalled() >= 0;
    for (int id = 0; id < kThreads; ++id) {
      for (int i = from[id]; i < to[id]; ++i) ++places[kept[id][i]];
      for (u32 d = 1; d <= kListed; ++d) places[d] += removed[id] >> d & 1;
    }
    u32 steps = 0;
    if (kind == ListKind::kLifo)
      list.each(nodes(), [&](Descriptor<ModelEnv>&) { model_check(++steps <= kListed, "the list ends"); });
    // What is listed comes out, also after a thread stopped half-way.
    for (u32 n = 0; Descriptor<ModelEnv>* got = list.get(nodes()); ++n) {
      model_check(n < kListed, "the list ends");
      ++places[got->self.get()];
      model_observe(got->self.get());
    }
    int missing = 0;
    for (u32 d = 1; d <= kListed; ++d) {
      model_check(places[d] <= 1, "a descriptor is in one place only");
      missing += places[d] == 0 && (present >> d & 1) != 0;
      if (kind == ListKind::kFifo && places[d] == 1)
        model_check(++owned[desc[d].node.get()] == 1, "a node has one owner");
    }
    model_check(missing <= (stalled ? 1 : 0), "no descriptor is lost");
  }
};

Scenario scenario(ListKind kind, const char* setup, const char* first, const char* second, const char* third = "") {
  const std::string name = std::string(kind == ListKind::kFifo ? "FIFO " : "LIFO ") + setup + ": ";
  return {name + first + " | " + second + (*third ? " | " : "") + third,
          program_type<ListProgram>(kind, setup, first, second, third)};
}

std::vector<Scenario> two_threads(ListKind kind) {
  return {scenario(kind, "1", "-", "-"),     scenario(kind, "12", "-", "-"),     scenario(kind, "1", "-+", "-"),
          scenario(kind, "12", "-+", "-+"),  scenario(kind, "1", "-+-", "-"),    scenario(kind, "123", "-", "--+"),
          scenario(kind, "1*2", "e", "-"),   scenario(kind, "12*", "e", "-"),    scenario(kind, "12*3", "e", "-+"),
          scenario(kind, "1*2*", "e", "e"),  scenario(kind, "123*", "e", "--+"), scenario(kind, "12", "-E", "e"),
          scenario(kind, "12", "-E", "-+"),  scenario(kind, "1*2", "e", "-E"),   scenario(kind, "123", "-+", "--++"),
          scenario(kind, "12>3", "-+", "+"), scenario(kind, "1>3", "-+-+", "+"), scenario(kind, ">3", "-+", "+")};
}
std::vector<Scenario> both() {
  std::vector<Scenario> all = two_threads(ListKind::kFifo);
  for (Scenario& each : two_threads(ListKind::kLifo)) all.push_back(each);
  return all;
}
// The tail of the sleeper's memory is a node in another's hands.
std::vector<Scenario> recycled() { return {scenario(ListKind::kFifo, "1>3", "-+-+-+", "+")}; }
// Three puts in a row by one thread, in the hands of the other two: gets, and marks, in between.
std::vector<Scenario> three_threads() {
  return {scenario(ListKind::kFifo, "123", "-", "-", "-"), scenario(ListKind::kFifo, "12", "-+", "-", "-"),
          scenario(ListKind::kLifo, "12", "-", "-", "-")};
}
std::vector<Scenario> long_ones() {
  return {scenario(ListKind::kLifo, "123", "-", "-", "-"),   scenario(ListKind::kLifo, "12*3", "e", "-", "-"),
          scenario(ListKind::kFifo, "12", "-+", "-+", "-+"), scenario(ListKind::kLifo, "12", "-+", "-+", "-+"),
          scenario(ListKind::kFifo, "123", "-+-+", "--++"),  scenario(ListKind::kLifo, "123", "-+-+", "--++"),
          scenario(ListKind::kLifo, "12*3", "e", "-+", "-+")};
}

TEST(MichaelPartialListModel, HoldsWithTwoThreads) { expect_hold(both()); }
TEST(MichaelPartialListModel, HoldsWhereANodeIsRecycled) { expect_hold(recycled()); }
TEST(MichaelPartialListModel, HoldsWithThreeThreads) { expect_hold(three_threads()); }
TEST(MichaelPartialListModel, DISABLED_HoldsInLongerPrograms) { expect_hold(limited(long_ones(), 200000)); }

TEST(MichaelPartialListModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios;
  for (Scenario& each : both()) {
    Options options{.max_executions = 2000};
    if (!explore_program(each.program, options).exhausted) continue;  // the larger ones are left to the long tests
    each.stalls = true;
    scenarios.push_back(each);
  }
  expect_all_hold(scenarios);
}
TEST(MichaelPartialListModel, DISABLED_OthersFinishInLargerPrograms) {
  std::vector<Scenario> scenarios = limited(both(), 10000);
  for (Scenario& each : scenarios) each.stalls = true;
  expect_all_hold(scenarios);
}

TEST(MichaelPartialListModel, AFifoWithoutTagsIsCaught) {
  expect_caught(two_threads(ListKind::kFifo), "no tags", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"list", StackHead::kIndexMask});
    options.lose_bits.push_back({"link", StackHead::kIndexMask});
  });
}
TEST(MichaelPartialListModel, ALifoWithoutTagsIsCaught) {
  expect_caught(two_threads(ListKind::kLifo), "no tags", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"list", ListLink::kIndexMask | ListLink::kMark});
    options.lose_bits.push_back({"link", ListLink::kIndexMask | ListLink::kMark});
  });
}
TEST(MichaelPartialListModel, ALifoWithoutMarksIsCaught) {
  expect_caught(two_threads(ListKind::kLifo), "no marks", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"link", ~ListLink::kMark});
  });
}
TEST(MichaelPartialListModel, NotSweepingWhatOneHasTakenIsCaught) {
  expect_caught({scenario(ListKind::kLifo, "1>3", "-+", "+")}, "no sweep", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.mutant = "no sweep";
  });
}
TEST(MichaelPartialListModel, ATailLeftBehindTheHeadIsCaught) {
  expect_mutant_caught(two_threads(ListKind::kFifo), "tail left behind");
}

Scenario stopping(Scenario scenario) {
  scenario.stalls = true;
  scenario.options.max_executions = 2000;
  return scenario;
}
TEST(MichaelPartialListModel, WaitingForOneAnotherIsCaught) {
  expect_mutant_caught({stopping(scenario(ListKind::kFifo, "1>3", "-+", "+"))}, "tail left to its putter");
  expect_mutant_caught({stopping(scenario(ListKind::kLifo, "12", "-", "-"))}, "marked ones left to their taker");
}

TEST(MichaelPartialListModel, EachMemoryOrderOfTheFifoIsNeeded) {
  std::vector<Scenario> scenarios = two_threads(ListKind::kFifo);
  // A node in the hands of one who stopped before he could link it.
  scenarios.push_back(scenario(ListKind::kFifo, "123*", "e", "--+"));
  scenarios.back().options.stall_thread = 0;
  scenarios.back().options.stall_after = 25;
  expect_orders_needed(scenarios, "michael/fifo.h");
}
TEST(MichaelPartialListModel, EachMemoryOrderOfTheLifoIsNeeded) {
  expect_orders_needed(two_threads(ListKind::kLifo), "michael/lifo.h");
}

}  // namespace
}  // namespace freeway::model
