// SPDX-License-Identifier: MIT
//
// Children of a process whose threads are anywhere within these functions: each goes through all of them, and ends.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "control.h"
#include "everything.h"

namespace {

constexpr unsigned kForks = 300;
constexpr unsigned kEnough = 60;  // seconds for one child: it is killed then, and the test fails

TEST(Children, OfBusyThreadsMayUseEverything) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 3; ++i)
    threads.emplace_back([&stop] {
      for (unsigned turn = 0; !stop.load(); ++turn) use_everything(turn);
    });
  unsigned ended_well = 0;
  for (unsigned i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kEnough);
      faults.store(0);
      for (unsigned turn = i; turn < i + 30; ++turn) use_everything(turn);
      _exit(faults.load() == 0 ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ended_well += WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(ended_well, kForks);
  EXPECT_EQ(faults.load(), 0u);
}

}  // namespace
