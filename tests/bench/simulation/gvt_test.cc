// SPDX-License-Identifier: MIT
//
// Tests of the agreement on GVT: two threads' state is brought about by hand, then both agree.
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "simulation/time_warp.h"
#include "tests/bench/simulation/script.h"

namespace simulation::test {
namespace {

class Gvt : public testing::Test {
 protected:
  using Thread = TimeWarpThread<Script, ThrowingFaults>;
  static constexpr std::uint64_t kAll = 1000;
  static constexpr Time kEnd = 1000;

  void begin(std::vector<Script::First> firsts) {
    model_ = std::make_unique<Script>(std::move(firsts));
    Settings settings;
    settings.threads = 2;
    settings.end = kEnd;
    world_ = std::make_unique<World<Script>>(*model_, settings);
    for (std::uint32_t i = 0; i < 2; ++i) {
      threads_.push_back(std::make_unique<Thread>(*world_, i, meeting_));
      threads_[i]->executor().start();
    }
  }
  Thread::Executor& first() { return threads_[0]->executor(); }
  Thread::Executor& second() { return threads_[1]->executor(); }

  Time agree() {
    Time other = 0;
    std::thread thread([&] { other = threads_[1]->agree(); });
    const Time gvt = threads_[0]->agree();
    thread.join();
    EXPECT_EQ(gvt, other);
    return gvt;
  }
  std::uint64_t committed(ProcessId process) { return world_->processes[process].committed; }
  void collect_and_finish() {
    std::uint64_t alive = 0;
    for (auto& thread : threads_) {
      thread->executor().collect_before(kEnd);
      thread->executor().finish();
      alive += thread->executor().counts().allocated - thread->executor().counts().freed;
    }
    EXPECT_EQ(alive, 0u);
  }

  // `one` has processes `base` and `base` + 1, and `other` has the other two.
  void check_chain(Thread::Executor& one, Thread::Executor& other, ProcessId base) {
    one.execute_before(kNever, kAll);
    other.receive();
    EXPECT_EQ(other.execute_before(kNever, kAll), 2u);
    one.receive();
    EXPECT_EQ(one.execute_before(kNever, kAll), 3u) << "15, 20 again, 30";
    EXPECT_EQ(one.anti_messages(), 1u);
    EXPECT_EQ(agree(), kNever);
    EXPECT_EQ(other.anti_messages(), 1u);
    collect_and_finish();
    EXPECT_EQ(committed(base), 2u);
    EXPECT_EQ(committed(base + 1), 0u);
    EXPECT_EQ(committed(2 - base), 0u);
    EXPECT_EQ(committed(3 - base), 1u);
  }

  std::unique_ptr<Script> model_;
  std::unique_ptr<World<Script>> world_;
  Thread::Meeting meeting_{2};
  std::vector<std::unique_ptr<Thread>> threads_;
};

TEST_F(Gvt, IsTheEarliestPendingEventOfAllThreads) {
  begin({{0, 30, {1, kNobody, 0}}, {2, 20, {2, kNobody, 0}}, {2, 40, {3, kNobody, 0}}});
  EXPECT_EQ(agree(), 20u);
  second().execute_before(kNever, kAll);
  EXPECT_EQ(agree(), 30u);
  first().execute_before(kNever, kAll);
  EXPECT_EQ(agree(), kNever);
  collect_and_finish();
}

TEST_F(Gvt, CountsAnEventThatIsOnItsWay) {
  begin({{0, 5, {1, 2, 10}}, {2, 40, {2, kNobody, 0}}});
  first().execute_before(kNever, kAll);
  second().execute_before(kNever, kAll);
  EXPECT_EQ(agree(), 15u);
  EXPECT_EQ(second().earliest(), 15u) << "it has arrived, too";
  second().execute_before(kNever, kAll);
  collect_and_finish();
}

// 0's event of 20 leads to one of 25 at 2 and that to one of 30 at 1. Then one from 3 reaches 0 at 15, and 20 is
// executed again without sending. All are done when the threads meet, but the anti-message for 25 is on its way, and
// only when it arrives the one for 30 is sent: that event must not be committed.
TEST_F(Gvt, WaitsForAntiMessagesThatAntiMessagesCause) {
  begin({{0, 20, {1, 2, 5, 1, 5, true}}, {3, 5, {7, 0, 10}}});
  check_chain(first(), second(), 0);
}

// The same with the threads' parts exchanged: which of them looks first into its inbox is not ours to say.
TEST_F(Gvt, WaitsForAntiMessagesInTheOtherDirection) {
  begin({{2, 20, {1, 0, 5, 3, 5, true}}, {1, 5, {7, 2, 10}}});
  check_chain(second(), first(), 2);
}

}  // namespace
}  // namespace simulation::test
