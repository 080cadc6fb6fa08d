// SPDX-License-Identifier: MIT
//
// lifetimes_test.cc: the helper of processes that fork, become another program, change their user, or end.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <atomic>
#include <thread>

#include "tests/background/helper_process.h"

namespace freeway::test {
namespace {

const std::initializer_list<const char*> kOn = {"FREEWAY_BACKGROUND=1"};

void expect_success(const char* scenario) {
  const Outcome outcome = run_scenario(scenario, 0, kOn);
  EXPECT_TRUE(outcome.succeeded()) << outcome.exit_status << " " << outcome.signal << "\n" << outcome.err;
}

// Waits for a child, and not for ever.
void require_end(pid_t child, int wanted) {
  int status = -1;
  require(comes_true([&] { return waitpid(child, &status, WNOHANG) == child; }), "the child's end");
  require(WIFEXITED(status) && WEXITSTATUS(status) == wanted, "the child's status");
}

void fork_down(int depth) {
  const pid_t child = fork();
  if (child == 0) {
    require(helpers_of(getpid()).empty(), "a new process has no helper");
    begin_helper();
    require(helpers_of(getpid()).size() == 1, "one helper");
    if (depth > 1) fork_down(depth - 1);
    require_sound();
    _exit(0);
  }
  require_end(child, 0);
}

FREEWAY_SCENARIO(Forks) {
  begin_helper();
  fork_down(3);
  require(helpers_of(getpid()).size() == 1, "the parent still has its own");
}
TEST(Lifetimes, AForkedChildHasAHelperOfItsOwn) { expect_success("Forks"); }

// Threads that fork while the helper trims all the time; the children allocate.
FREEWAY_SCENARIO(ForksOfThreads) {
  const pid_t helper = begin_helper();
  std::atomic<bool> stop{false};
  std::thread orders([&] {
    while (!stop) {
      order_trim(getpid(), helper, 0);
      usleep(500);
    }
  });
  std::thread others[3];
  for (std::thread& other : others)
    other = std::thread([] {
      for (int i = 0; i < 30; ++i) {
        burst(kMiB);
        const pid_t child = fork();
        if (child == 0) {
          burst(8 * kMiB);
          _exit(freeway_audit(nullptr, 0) == 0 || comes_true([] { return freeway_audit(nullptr, 0) == 0; }) ? 0 : 5);
        }
        require_end(child, 0);
      }
    });
  for (std::thread& other : others) other.join();
  stop = true;
  orders.join();
}
TEST(Lifetimes, ChildrenOfThreadsThatForkBesideAWorkingHelperAreSound) { expect_success("ForksOfThreads"); }

FREEWAY_SCENARIO(VforkAndExec) {
  const bool has_helper = begin_helper() != 0;
  for (int i = 0; i < 50; ++i) {
    burst(kMiB);
    const pid_t child = vfork();
    if (child == 0) {
      if (i % 2 == 0) _exit(7);
      execl("/bin/true", "true", nullptr);
      _exit(8);
    }
    require_end(child, i % 2 == 0 ? 7 : 0);
  }
  require(has_helper && helpers_of(getpid()).size() == 1, "the helper is still there");
  require_sound();
}
TEST(Lifetimes, ChildrenOfVforkLeaveTheHelperAlone) { expect_success("VforkAndExec"); }

// The child of a vfork is the first to have much.
FREEWAY_SCENARIO(VforkFirst) {
  const pid_t child = vfork();
  if (child == 0) {
    burst(32 * kMiB);
    _exit(static_cast<int>(helpers_of(getpid()).size()));
  }
  require_end(child, 0);
  begin_helper();
  require_sound();
}
TEST(Lifetimes, AChildOfVforkMakesNone) { expect_success("VforkFirst"); }

FREEWAY_SCENARIO(ExecsItself) {
  begin_helper();
  execl("/proc/self/exe", "background", "--scenario=Forks", "0", nullptr);
}
TEST(Lifetimes, ExecTakesTheHelperAlong) { expect_success("ExecsItself"); }

// The last thread that the C library knows of ends behind its back; or the first ends before the others.
FREEWAY_SCENARIO(EndsByTheBareCall) {
  const pid_t child = fork();
  if (child == 0) {
    begin_helper();
    syscall(SYS_exit, 9);
  }
  require_end(child, 9);
  const pid_t other = fork();
  if (other == 0) {
    begin_helper();
    std::thread([] {
      usleep(3'000'000);
      burst(kMiB);
      _exit(6);
    }).detach();
    syscall(SYS_exit, 9);
  }
  require_end(other, 6);
}
TEST(Lifetimes, TheHelperKeepsNoEmptyProcessAlive) { expect_success("EndsByTheBareCall"); }

FREEWAY_SCENARIO(LastThreadExits) {
  const pid_t child = fork();
  if (child == 0) {
    begin_helper();
    pthread_exit(nullptr);
  }
  require_end(child, 0);
}
TEST(Lifetimes, TheLastThreadsEndIsTheProcessesEnd) { expect_success("LastThreadExits"); }

FREEWAY_SCENARIO(ChangesItsUser) {
  if (getuid() != 0) _exit(77);
  const pid_t helper = begin_helper();
  require(setgid(65534) == 0 && setuid(65534) == 0, "another user");
  require(comes_true([helper] { return status_of(getpid(), helper, "Seccomp") == "2"; }), "a filter");
  const size_t before = anonymous_rss();
  burst(64 * kMiB);
  require(comes_true([before] { return anonymous_rss() <= before + 4 * kMiB; }), "it goes on giving back");
}
TEST(Lifetimes, AProgramMayChangeItsUser) {
  const Outcome outcome = run_scenario("ChangesItsUser", 0, kOn);
  if (outcome.exit_status == 77) GTEST_SKIP() << "for root alone";
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// Where a thread cannot be confined there is no helper, and it is said once.
FREEWAY_SCENARIO(NoFilters) {
  sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)},
                        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, SYS_prctl},
                        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, args)},
                        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, PR_SET_SECCOMP},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | EPERM},
                        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
  const sock_fprog filter = {sizeof code / sizeof code[0], code};
  require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, 2, &filter) == 0, "a filter of its own");
  for (int i = 0; i < 10; ++i) {
    burst(16 * kMiB);
    usleep(50'000);
  }
  require(comes_true([] { return threads_of(getpid()).size() == 1; }), "no helper");
}
TEST(Lifetimes, NoHelperWhereItCannotBeConfined) {
  const Outcome outcome = run_scenario("NoFilters", 0, {"FREEWAY_BACKGROUND=1", "FREEWAY_STATS=1"});
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  const std::string said = "no background thread";
  const size_t first = outcome.err.find(said);
  EXPECT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find(said, first + 1), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
