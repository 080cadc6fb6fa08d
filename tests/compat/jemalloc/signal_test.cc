// SPDX-License-Identifier: MIT
//
// Every function in a signal handler, at any instruction of the same functions outside: nothing waits, nothing is lost.
#include <signal.h>
#include <sys/time.h>

#include <atomic>

#include "control.h"
#include "everything.h"

namespace {

constexpr unsigned kSignals = 3000;

std::atomic<unsigned> handled{0};

void on_signal(int) { use_everything(handled.fetch_add(1)); }

TEST(SignalHandlers, MayUseEverything) {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  ASSERT_EQ(sigaction(SIGALRM, &action, nullptr), 0);
  const itimerval often = {{0, 200}, {0, 200}}, never = {};
  ASSERT_EQ(setitimer(ITIMER_REAL, &often, nullptr), 0);
  for (unsigned turn = 0; handled.load() < kSignals; ++turn) use_everything(turn);
  ASSERT_EQ(setitimer(ITIMER_REAL, &never, nullptr), 0);
  EXPECT_EQ(faults.load(), 0u);
  EXPECT_EQ(value_of<unsigned>("arenas.narenas"), 1u) << "each number that was made is gone";
}

}  // namespace
