// SPDX-License-Identifier: MIT
//
// Tests of sync/tagged_stack.h: the arithmetic of its word, its order, what it does when another thread moves between
// its steps, and that nothing is lost or doubled between threads.
#include "sync/tagged_stack.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "tests/support/random.h"
#include "tests/support/test_env.h"

namespace freeway {
namespace {

using test::Random;
using test::TestEnv;

constexpr u64 kTags = u64{1} << 38;

TEST(StackHead, EveryIndexIsReadBack) {
  for (u64 index = 0; index < u64{1} << 26; index += index < 100000 ? 1 : 997)
    for (u64 tag : {u64{0}, u64{1}, kTags / 2, kTags - 1}) ASSERT_EQ(StackHead::index((tag << 26) | index), index);
  EXPECT_EQ(StackHead::index(~u64{0}), (u32{1} << 26) - 1);
}

TEST(StackHead, EachMoveCountsTheTagUpAndReplacesTheIndex) {
  Random random(test::test_seed());
  const u64 edges[] = {0, 1, 2, (u64{1} << 26) - 1};
  const u64 tags[] = {0, 1, 0x12345, kTags / 2 - 1, kTags - 2, kTags - 1};
  auto check = [](u64 tag, u64 index, u64 next) {
    const u64 head = StackHead::next((tag << 26) | index, static_cast<u32>(next));
    ASSERT_EQ(StackHead::index(head), next);
    ASSERT_EQ(head >> 26, (tag + 1) % kTags) << "the tag wraps into nothing else";
  };
  for (u64 tag : tags)
    for (u64 index : edges)
      for (u64 next : edges) check(tag, index, next);
  for (int i = 0; i < 100000; ++i) check(random.below(kTags), random.below(1 << 26), random.below(1 << 26));
}

class Nodes {
 public:
  explicit Nodes(u32 count) : links_(count + 1) {}
  auto operator()() {
    return [this](u32 index) -> Atomic<u32>& { return links_[index]; };
  }
  u32 link(u32 index) const { return links_[index].load_relaxed(); }

 private:
  std::vector<Atomic<u32>> links_;
};

TEST(TaggedStack, AnEmptyStackPopsNothing) {
  Nodes nodes(1);
  TaggedStack<TestEnv> stack;
  EXPECT_TRUE(stack.looks_empty());
  EXPECT_EQ(stack.peek(), 0u);
  EXPECT_EQ(stack.pop(nodes()), 0u);
  EXPECT_TRUE(stack.looks_empty());
}

TEST(TaggedStack, WhatWasPushedLastIsPoppedFirst) {
  Random random(test::test_seed());
  constexpr u32 kNodes = 100;
  Nodes nodes(kNodes);
  TaggedStack<TestEnv> stack;
  std::vector<u32> oracle, idle;
  for (u32 n = 1; n <= kNodes; ++n) idle.push_back(n);
  for (int i = 0; i < 100000; ++i) {
    if (random.chance(50) && !idle.empty()) {
      const std::size_t which = random.below(idle.size());
      stack.push(idle[which], nodes());
      oracle.push_back(idle[which]);
      idle.erase(idle.begin() + static_cast<long>(which));
    } else if (const u32 n = stack.pop(nodes())) {
      ASSERT_FALSE(oracle.empty());
      ASSERT_EQ(n, oracle.back());
      oracle.pop_back();
      idle.push_back(n);
    } else {
      ASSERT_TRUE(oracle.empty());
    }
    ASSERT_EQ(stack.looks_empty(), oracle.empty());
    ASSERT_EQ(stack.peek(), oracle.empty() ? 0 : oracle.back());
  }
  // The links lead from the top to the bottom.
  for (u32 n = stack.peek(); n != 0; n = nodes.link(n)) {
    ASSERT_EQ(n, oracle.back());
    oracle.pop_back();
  }
  EXPECT_TRUE(oracle.empty());
}

TEST(TaggedStack, APopThatSleptWhileItsNodeWentAndCameBackIsNotFooled) {
  Nodes nodes(3);
  TaggedStack<TestEnv> stack;
  for (u32 n : {3u, 2u, 1u}) stack.push(n, nodes());
  TestEnv::at_step("stack.pop", [&] {  // the sleeper has seen 1 on top and 2 below it
    EXPECT_EQ(stack.pop(nodes()), 1u);
    EXPECT_EQ(stack.pop(nodes()), 2u);
    stack.push(1, nodes());  // 1 is on top again, but now 3 is below it, and 2 is somebody's
  });
  EXPECT_EQ(stack.pop(nodes()), 1u);
  EXPECT_EQ(stack.pop(nodes()), 3u);
  EXPECT_EQ(stack.pop(nodes()), 0u);
}

TEST(TaggedStack, APopThatSleptWhileAllWasPoppedFindsNothing) {
  Nodes nodes(2);
  TaggedStack<TestEnv> stack;
  stack.push(2, nodes());
  stack.push(1, nodes());
  TestEnv::at_step("stack.pop", [&] {
    EXPECT_EQ(stack.pop(nodes()), 1u);
    EXPECT_EQ(stack.pop(nodes()), 2u);
  });
  EXPECT_EQ(stack.pop(nodes()), 0u);
}

TEST(TaggedStack, APushThatSleptTakesTheNewTopAsItsLink) {
  Nodes nodes(3);
  TaggedStack<TestEnv> stack;
  stack.push(1, nodes());
  TestEnv::at_step("stack.push", [&] {
    EXPECT_EQ(stack.pop(nodes()), 1u);
    stack.push(3, nodes());
  });
  stack.push(2, nodes());
  EXPECT_EQ(stack.pop(nodes()), 2u);
  EXPECT_EQ(stack.pop(nodes()), 3u);
  EXPECT_EQ(stack.pop(nodes()), 0u);
}

TEST(TaggedStack, AThreadThatEndsInAMoveLosesTheNodeInItsHandAtMost) {
  Nodes nodes(3);
  TaggedStack<TestEnv> stack;
  stack.push(1, nodes());
  EXPECT_TRUE(test::ended_at("stack.push", [&] { stack.push(2, nodes()); }));
  EXPECT_TRUE(test::ended_at("stack.pop", [&] { stack.pop(nodes()); }));
  stack.push(3, nodes());
  EXPECT_EQ(stack.pop(nodes()), 3u);
  EXPECT_EQ(stack.pop(nodes()), 1u);
  EXPECT_EQ(stack.pop(nodes()), 0u);
}

TEST(TaggedStack, BetweenThreadsEveryNodeIsInOnePlace) {
  constexpr u32 kNodes = 6, kThreads = 4, kRounds = 200000;
  Nodes nodes(kNodes);
  TaggedStack<TestEnv> stacks[2];
  Atomic<u32> owners[kNodes + 1];
  for (u32 n = 1; n <= kNodes; ++n) stacks[n % 2].push(n, nodes());
  std::vector<std::thread> threads;
  for (u32 t = 1; t <= kThreads; ++t)
    threads.emplace_back([&, t] {
      Random random(test::test_seed() + t);
      for (u32 i = 0; i < kRounds; ++i) {
        const u32 n = stacks[random.below(2)].pop(nodes());
        if (n == 0) continue;
        ASSERT_LE(n, kNodes);
        ASSERT_EQ(owners[n].exchange_relaxed(t), 0u) << "popped by two";
        ASSERT_EQ(owners[n].exchange_relaxed(0), t);
        stacks[random.below(2)].push(n, nodes());
      }
    });
  for (auto& thread : threads) thread.join();
  u32 found = 0;
  for (auto& stack : stacks)
    while (const u32 n = stack.pop(nodes())) {
      EXPECT_EQ(owners[n].exchange_relaxed(99), 0u) << "in two places";
      ++found;
    }
  EXPECT_EQ(found, kNodes);
}

}  // namespace
}  // namespace freeway
