// SPDX-License-Identifier: MIT
// tagged_stack_relacy.cc: a second opinion on src/sync/tagged_stack.h: all executions of two threads, and the planted
// faults.
#include "sync/tagged_stack.h"
#include "tests/explorer/relacy/relacy_test.h"

namespace freeway::model {
namespace {

constexpr u32 kNodes = 3;

// Scripts of two threads: - pop and keep, + push the one kept longest.
struct StackProgram : rl::test_suite<StackProgram, 2> {
  static inline const char* scripts[2] = {"", ""};

  TaggedStack<RelacyEnv> stack;
  RelacyEnv::Atomic<u32> links[kNodes + 1];
  RelacyEnv::Plain<u32> content[kNodes + 1];
  u32 kept[2][8] = {};
  u32 from[2] = {}, to[2] = {};

  auto of() {
    return [this](u32 node) -> auto& { return links[node]; };
  }
  void before() {
    for (u32 node = kNodes; node > 0; --node) stack.push(node, of());
  }
  void thread(unsigned id) {
    for (const char* move = scripts[id]; *move != 0; ++move) {
      if (*move == '+') {
        if (from[id] < to[id]) stack.push(kept[id][from[id]++], of());
      } else if (const u32 node = stack.pop(of())) {
        content[node].set(content[node].get() + 1);  // a race, unless it is ours
        kept[id][to[id]++] = node;
      }
    }
  }
  void after() {
    u32 places[kNodes + 1] = {};
    for (unsigned id = 0; id < 2; ++id)
      for (u32 i = from[id]; i < to[id]; ++i) ++places[kept[id][i]];
    u32 steps = 0;
    for (u32 node = stack.peek(); node != 0; node = links[node].load_relaxed()) {
      ++places[node];
      RL_ASSERT(++steps <= kNodes);
    }
    for (u32 node = 1; node <= kNodes; ++node) RL_ASSERT(places[node] == 1);
  }
};
RelacyResult run(const char* first, const char* second, unsigned executions) {
  StackProgram::scripts[0] = first;
  StackProgram::scripts[1] = second;
  return run_in_relacy<StackProgram>(executions);
}
// Between the first one's load and its CAS the stack's top goes and comes back, with another node below it.
RelacyResult run_aba(unsigned executions) { return run("-", "--+", executions); }

class TaggedStackInRelacy : public RelacyTest {
 protected:
  TaggedStackInRelacy() : RelacyTest("tagged stack, in Relacy") {}
};

TEST_F(TaggedStackInRelacy, HoldsInAllExecutions) {
  expect_holds(run_aba(0), true);
  expect_holds(run("-+", "-+", 0), true);
}
TEST_F(TaggedStackInRelacy, HoldsAtRandom) { expect_holds(run("-+--+", "--++-", 30000), false); }

TEST_F(TaggedStackInRelacy, WithoutItsTagIsCaught) {
  RelacyEnv::kept_bits = StackHead::kIndexMask;
  expect_found(run_aba(20000), "no tag (ABA), at random");
  expect_found(run_aba(0), "no tag (ABA), in all executions");
}
TEST_F(TaggedStackInRelacy, WithoutItsReleaseIsCaught) {
  RelacyEnv::releases = false;
  expect_found(run("-+", "-", 0), "push without release");
}

}  // namespace
}  // namespace freeway::model
