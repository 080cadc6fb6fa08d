// SPDX-License-Identifier: MIT
// tagged_stack_model.cc: src/sync/tagged_stack.h, all executions of small programs, and the faults they must show.
//
// Promises: a node is popped by one thread only and its contents are seen by the popper; at the end each node is in the
// stack or in one pair of hands; a thread that stops for ever keeps at most the node in its hands from the others.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sync/tagged_stack.h"
#include "tests/explorer/explorer.h"
#include "tests/explorer/model_env.h"
#include "tests/explorer/scenarios.h"

namespace freeway::model {
namespace {

constexpr u32 kNodes = 3;

// Each thread follows its script: '-' pops a node and keeps it, '+' pushes the node that it has kept for the longest
// time; '*' takes all and keeps them.
struct StackProgram {
  static constexpr int kThreads = 3;  // a thread with an empty script ends at once

  const char* script[kThreads];
  bool touch;  // whoever pops a node writes to it
  TaggedStack<ModelEnv> stack;
  ModelEnv::Atomic<u32> link[kNodes + 1];
  ModelEnv::Plain<u32> content[kNodes + 1];
  u32 kept[kThreads][8] = {};
  int kept_from[kThreads] = {}, kept_to[kThreads] = {};

  StackProgram(const char* first, const char* second, const char* third, bool touch_contents)
      : script{first, second, third}, touch(touch_contents) {
    model_name(stack, "head");
    for (u32 node = 1; node <= kNodes; ++node) {
      model_name(link[node], "link", static_cast<int>(node));
      model_name(content[node], "content", static_cast<int>(node));
    }
    for (u32 node = kNodes; node >= 1; --node) push(node);
  }

  auto links() {
    return [this](u32 node) -> auto& { return link[node]; };
  }
  void push(u32 node) { stack.push(node, links()); }

  void thread(int id) {
    for (const char* move = script[id]; *move != 0; ++move) {
      if (*move == '-') {
        u32 node = stack.pop(links());
        if (node == 0) continue;
        model_check(node <= kNodes, "a node that exists");
        if (touch) content[node].set(content[node].get() + 1);  // a race unless the node is ours alone
        kept[id][kept_to[id]++] = node;
      } else if (*move == '*') {
        for (u32 node = stack.take_all(); node != 0; node = link[node].load_relaxed()) {
          if (touch) content[node].set(content[node].get() + 1);
          kept[id][kept_to[id]++] = node;
        }
      } else if (kept_from[id] < kept_to[id]) {
        push(kept[id][kept_from[id]++]);
      }
    }
  }

  void finish() {
    int places[kNodes + 1] = {};
    for (int id = 0; id < kThreads; ++id)
      for (int i = kept_from[id]; i < kept_to[id]; ++i) ++places[kept[id][i]];
    u32 node = stack.peek();
    for (u32 seen = 0; node != 0; node = link[node].load_relaxed()) {
      model_check(node <= kNodes && ++seen <= kNodes, "the list ends");
      ++places[node];
    }
    model_observe(stack.peek());
    int missing = 0;
    for (node = 1; node <= kNodes; ++node) {
      model_observe(link[node].load_relaxed());
      for (auto& mine : kept) model_observe(mine[node - 1]);
      model_check(places[node] <= 1, "a node is in one place only");
      missing += places[node] == 0;
    }
    model_check(missing <= (model_stalled() >= 0 ? 1 : 0), "no node is lost");
  }
};

Scenario scenario(const char* first, const char* second, const char* third = "", bool touch = true) {
  return {std::string(first) + " | " + second + (*third ? " | " : "") + third,
          program_type<StackProgram>(first, second, third, touch)};
}

std::vector<Scenario> two_threads() {
  return {scenario("-", "-"),     scenario("-+", "-+"),   scenario("-", "--+"),   scenario("-+", "--+"),
          scenario("-+", "--++"), scenario("-+-", "--+"), scenario("--+", "--+"), scenario("-+-+", "-+-+"),
          scenario("-", "---+"),  scenario("*", "-+"),    scenario("*+", "-+"),   scenario("*+", "*+")};
}

TEST(TaggedStackModel, HoldsWithTwoThreads) { expect_hold(two_threads()); }

TEST(TaggedStackModel, HoldsWithThreeThreads) {
  expect_hold({scenario("-", "-", "-"), scenario("-+", "-", "-+"), scenario("-", "--+", "-")});
}

TEST(TaggedStackModel, OthersFinishWhenAThreadStopsForEver) {
  std::vector<Scenario> scenarios = {scenario("-+", "-+"), scenario("-+-", "--+"), scenario("-+", "-", "-")};
  for (Scenario& each : scenarios) each.stalls = true;
  expect_hold(scenarios);
}

// The classical ABA: sequentially consistent, and nobody touches the nodes, so that it is not a missing acquire that
// is found.
TEST(TaggedStackModel, WithoutTheTagANodeIsInTwoPlaces) {
  expect_caught({scenario("-", "--+", "", false)}, "no tag", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"head", StackHead::kIndexMask});
  });
}

// Pop, pop, pop and push bring a tag of two bits back to where it was: why the tag must be wide.
TEST(TaggedStackModel, ATagOfTwoBitsWrapsAround) {
  expect_caught({scenario("-", "---+", "", false)}, "2-bit tag", [](Options& options) {
    options.memory = MemoryModel::kSequential;
    options.lose_bits.push_back({"head", StackHead::kIndexMask * 4 + 3});
  });
}

TEST(TaggedStackModel, ReductionsSeeAllOutcomes) {
  for (Scenario each : {scenario("-", "--+"), scenario("-+", "-"), scenario("-", "-", "-")}) {
    Result reduced = explore_program(each.program, each.options);
    each.options.reduction = Reduction::kFull;
    Result full = explore_program(each.program, each.options);
    std::printf("  %-44s %s\n", each.name.c_str(), full.summary().c_str());
    EXPECT_EQ(reduced.outcomes, full.outcomes) << each.name;
    EXPECT_GT(full.outcomes.size(), 1U);
  }
}

TEST(TaggedStackModel, EachMemoryOrderIsNeeded) { expect_orders_needed(two_threads(), "sync/tagged_stack.h"); }

}  // namespace
}  // namespace freeway::model
