// SPDX-License-Identifier: MIT
//
// Tests of TimeWarpExecutor on small scripted runs: two threads' executors, stepped by hand.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "simulation/time_warp_executor.h"
#include "tests/bench/simulation/script.h"

namespace simulation::test {
namespace {

class Rollback : public testing::Test {
 protected:
  using Thread = TimeWarpExecutor<Script, ThrowingFaults>;
  static constexpr std::uint64_t kAll = 1000;

  void begin(std::vector<Script::First> firsts) {
    model_ = std::make_unique<Script>(std::move(firsts));
    Settings settings;
    settings.threads = 2;
    settings.end = 1000;
    world_ = std::make_unique<World<Script>>(*model_, settings);
    first = std::make_unique<Thread>(*world_, 0);
    second = std::make_unique<Thread>(*world_, 1);
    first->start();
    second->start();
  }
  std::uint64_t tags(ProcessId process) { return world_->processes[process].now.state.tags; }
  std::uint64_t committed(ProcessId process) { return world_->processes[process].committed; }
  std::uint64_t alive() const {
    return first->counts().allocated + second->counts().allocated - first->counts().freed - second->counts().freed;
  }
  void end() {
    first->collect_before(1000);
    second->collect_before(1000);
    first->finish();
    second->finish();
    EXPECT_EQ(alive(), 0u);
  }

  std::unique_ptr<Script> model_;
  std::unique_ptr<World<Script>> world_;
  std::unique_ptr<Thread> first, second;
};

TEST_F(Rollback, AStragglerUndoesWhatWasExecutedTooEarlyAndNothingElse) {
  begin({{0, 5, {1, 2, 10}},
         {2, 10, {2, kNobody, 0}},
         {2, 20, {3, kNobody, 0}},
         {2, 30, {4, kNobody, 0}},
         {3, 40, {5, kNobody, 0}}});
  EXPECT_EQ(second->execute_before(kNever, kAll), 4u);
  EXPECT_EQ(tags(2), 2003004u);
  first->execute_before(kNever, kAll);
  EXPECT_EQ(second->receive(), 1u);  // tag 101 at time 15
  EXPECT_EQ(second->rollbacks(), 1u);
  EXPECT_EQ(second->rolled_back(), 2u);
  EXPECT_EQ(tags(2), 2u);
  EXPECT_EQ(tags(3), 5u) << "another process of the same thread is not rolled back";
  EXPECT_EQ(second->earliest(), 15u);
  second->execute_before(kNever, kAll);
  EXPECT_EQ(tags(2), 2101003004u);
  end();
  EXPECT_EQ(committed(2), 4u);
}

TEST_F(Rollback, AnEventThatIsNotTooEarlyUndoesNothing) {
  begin({{0, 5, {1, 2, 30}}, {2, 10, {2, kNobody, 0}}});
  second->execute_before(kNever, kAll);
  first->execute_before(kNever, kAll);
  second->receive();
  second->execute_before(kNever, kAll);
  EXPECT_EQ(second->rolled_back(), 0u);
  EXPECT_EQ(tags(2), 2101u);
  end();
}

// Process 0 sends at 20 to process 2; then process 3's event of 5 turns out to reach process 0 at 15.
TEST_F(Rollback, AnAntiMessageUndoesAnExecutedEventOnAnotherThread) {
  begin({{0, 20, {1, 2, 5}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  EXPECT_EQ(second->receive(), 1u);
  EXPECT_EQ(second->execute_before(kNever, kAll), 2u);
  EXPECT_EQ(tags(2), 101u);
  EXPECT_EQ(first->receive(), 1u);
  EXPECT_EQ(first->rolled_back(), 1u);
  EXPECT_EQ(first->anti_messages(), 1u);
  EXPECT_EQ(second->receive(), 1u);
  EXPECT_EQ(second->rolled_back(), 1u);
  EXPECT_EQ(tags(2), 0u);
  EXPECT_EQ(second->earliest(), kNever) << "the event that was taken back is not executed again";
  first->execute_before(kNever, kAll);
  EXPECT_EQ(tags(0), 107001u);
  second->receive();
  second->execute_before(kNever, kAll);
  EXPECT_EQ(tags(2), 101u);
  end();
  EXPECT_EQ(committed(2), 1u);
}

TEST_F(Rollback, AnAntiMessageRemovesAPendingEventWithoutARollback) {
  begin({{0, 20, {1, 2, 5}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  second->receive();
  EXPECT_EQ(second->execute_before(10, kAll), 1u);
  first->receive();
  EXPECT_EQ(second->receive(), 1u);
  EXPECT_EQ(second->rolled_back(), 0u);
  EXPECT_EQ(second->earliest(), kNever);
  end();
}

TEST_F(Rollback, AnEventAndItsAntiMessageInOneInboxLeaveNothing) {
  begin({{0, 20, {1, 2, 5}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  EXPECT_EQ(second->execute_before(10, kAll), 1u);
  first->receive();
  EXPECT_EQ(second->receive(), 2u);
  EXPECT_EQ(second->earliest(), kNever);
  end();
}

// 0 sends to 1 on the same thread; both were executed when 3's event reaches 0.
TEST_F(Rollback, WhatWasSentToTheSameThreadIsUndoneWithoutMessages) {
  begin({{0, 20, {1, 1, 5}}, {1, 30, {2, 2, 50}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  EXPECT_EQ(tags(1), 101002u);
  second->execute_before(10, kAll);
  first->receive();
  EXPECT_EQ(first->rolled_back(), 3u) << "20 on process 0; 25 and 30 on process 1";
  EXPECT_EQ(first->anti_messages(), 1u) << "only for what process 1 sent to process 2";
  EXPECT_EQ(tags(0), 0u);
  EXPECT_EQ(tags(1), 0u);
  first->execute_before(kNever, kAll);
  EXPECT_EQ(tags(0), 107001u);
  EXPECT_EQ(tags(1), 101002u);
  second->receive();
  second->execute_before(kNever, kAll);
  EXPECT_EQ(tags(2), 102u) << "the first one was taken back, the second one counts";
  end();
}

TEST_F(Rollback, TheEventThatIsSentAgainHasTheSameKey) {
  begin({{0, 20, {1, 2, 5}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  const std::uint32_t sequence = world_->processes[0].now.next_sequence;
  second->execute_before(10, kAll);
  first->receive();
  EXPECT_EQ(world_->processes[0].now.next_sequence, sequence - 1);
  first->execute_before(kNever, kAll);
  EXPECT_EQ(world_->processes[0].now.next_sequence, sequence);
  second->receive();
  end();
}

TEST_F(Rollback, CollectionCommitsAndFreesWhatIsBeforeGvtOnly) {
  begin({{2, 10, {2, kNobody, 0}}, {2, 20, {3, kNobody, 0}}, {2, 30, {4, kNobody, 0}}});
  second->execute_before(kNever, kAll);
  EXPECT_EQ(alive(), 6u) << "three events, three saved states";
  second->collect_before(20);
  EXPECT_EQ(committed(2), 1u);
  EXPECT_EQ(alive(), 4u);
  second->collect_before(21);
  EXPECT_EQ(committed(2), 2u);
  EXPECT_EQ(alive(), 2u);
  end();
  EXPECT_EQ(committed(2), 3u);
}

TEST_F(Rollback, ReceiversFreeWhatOthersSent) {
  begin({{0, 20, {1, 2, 5}}, {3, 5, {7, 0, 10}}});
  first->execute_before(kNever, kAll);
  second->receive();
  second->execute_before(kNever, kAll);
  first->receive();
  second->receive();  // the event of 25 and its anti-message
  EXPECT_EQ(second->counts().freed_remotely, 2u);
  EXPECT_EQ(first->counts().freed_remotely, 0u);
  first->execute_before(kNever, kAll);
  second->receive();
  end();
  EXPECT_EQ(second->counts().freed_remotely, 3u);
  EXPECT_EQ(first->counts().freed_remotely, 1u) << "process 3's event";
}

TEST_F(Rollback, AnEventBeforeGvtIsReported) {
  begin({{0, 5, {1, 2, 10}}, {2, 40, {2, kNobody, 0}}});
  second->execute_before(kNever, kAll);
  second->collect_before(40);  // wrong: process 0 has yet to send
  first->execute_before(kNever, kAll);
  EXPECT_THROW(second->receive(), std::logic_error);
}

// Conservative windows rest on it: process 0 sends to process 2 after less than the lookahead.
TEST_F(Rollback, AModelThatBreaksItsLookaheadIsStopped) {
  begin({{0, 5, {1, 2, 0}}});
  EXPECT_DEATH(first->execute_before(kNever, kAll), "less delay than promised");
}

}  // namespace
}  // namespace simulation::test
