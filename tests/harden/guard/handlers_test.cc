// SPDX-License-Identifier: MIT
//
// handlers_test.cc: handlers of SIGSEGV that the program sets after the start take the place of ours. early_test.cc:
// those that were there before.
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csetjmp>
#include <csignal>

#include "guard_test.h"

namespace freeway::test {
namespace {

sigjmp_buf back;
volatile sig_atomic_t calls = 0;

// Writes there; whether the handler jumped out of a fault.
__attribute__((noinline)) bool faults(char* address) {
  if (sigsetjmp(back, 1) != 0) return true;
  *hide(address) = 1;
  return false;
}
void jump_back(int) {
  calls = calls + 1;
  siglongjmp(back, 1);
}

FREEWAY_SCENARIO(JumpsOut) {
  char* block = guarded_block(64, At::kEnd);
  require(signal(SIGSEGV, jump_back) != SIG_ERR, "signal");
  for (int i = 0; i < 10; ++i) require(faults(block + 64), "a fault");
  require(calls == 10, "ten calls of the handler");
}
TEST(GuardHandlers, AHandlerThatIsSetLaterHasTheFaultsAlone) {
  const Outcome outcome = run_guarded("JumpsOut");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

void count(int) { calls = calls + 1; }
FREEWAY_SCENARIO(Counts) {
  free(hide(malloc(10)));
  signal(SIGSEGV, count);
  signal(SIGBUS, count);
  for (int i = 0; i < 5; ++i) {
    raise(SIGSEGV);
    kill(getpid(), SIGBUS);
  }
  require(calls == 10, "each signal reaches the handler once");
}
TEST(GuardHandlers, SentSignalsReachAHandlerThatReturns) {
  const Outcome outcome = run_guarded("Counts");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// The one before it is ours.
struct sigaction before;
FREEWAY_SCENARIO(CallsTheOneBefore) {
  char* block = guarded_block(64, At::kEnd);
  struct sigaction action = {};
  action.sa_sigaction = [](int number, siginfo_t* info, void* context) {
    dprintf(1, "called");
    if ((before.sa_flags & SA_SIGINFO) != 0) before.sa_sigaction(number, info, context);
    else before.sa_handler(number);
  };
  action.sa_flags = SA_SIGINFO;
  require(sigaction(SIGSEGV, &action, &before) == 0, "sigaction");
  if (argument == 1) before.sa_flags = 0;
  if (argument == 2) sigaction(SIGSEGV, &before, nullptr);
  *hide(block + 64) = 1;
}
TEST(GuardHandlers, WhoCallsTheHandlerBeforeHasTheFaultExplained) {
  const Outcome outcome = run_guarded("CallsTheOneBefore", 0);
  expect_explained(outcome, SIGSEGV, {"overflow: a write at "});
  EXPECT_EQ(outcome.out, "called");
}
TEST(GuardHandlers, CalledWithTheNumberAloneItEndsTheProgram) {
  const Outcome outcome = run_guarded("CallsTheOneBefore", 1);
  EXPECT_EQ(outcome.signal, SIGSEGV) << outcome.err;
  EXPECT_EQ(outcome.out, "called");
}
TEST(GuardHandlers, PutBackItExplains) {
  const Outcome outcome = run_guarded("CallsTheOneBefore", 2);
  expect_explained(outcome, SIGSEGV, {"overflow: a write at "});
  EXPECT_EQ(outcome.out, "");
}

// The kernel's own view: the handler that it has for SIGSEGV.
unsigned long kernels_handler() {
  unsigned long action[4] = {};
  require(syscall(SYS_rt_sigaction, SIGSEGV, nullptr, action, 8) == 0, "rt_sigaction");
  return action[0];
}
FREEWAY_SCENARIO(LooksAtTheKernel) {
  free(hide(malloc(10)));
  require((kernels_handler() != 0) == (argument != 0), "a handler where something is guarded, and only there");
}
TEST(GuardHandlers, ThereIsOneOnlyWhereSomethingIsGuarded) {
  EXPECT_TRUE(run_scenario("LooksAtTheKernel", 0).succeeded());
  EXPECT_TRUE(run_guarded("LooksAtTheKernel", 1).succeeded());
}

FREEWAY_SCENARIO(Ignores) {
  signal(SIGSEGV, SIG_IGN);
  execl("/proc/self/exe", "/proc/self/exe", "--scenario=IsIgnored", "0", nullptr);
  require(false, "exec");
}
FREEWAY_SCENARIO(IsIgnored) {
  free(hide(malloc(10)));
  require(kernels_handler() == 1, "ignored is ignored");
}
TEST(GuardHandlers, AProgramThatIgnoresThemGoesOnIgnoring) { EXPECT_TRUE(run_guarded("Ignores").succeeded()); }

FREEWAY_SCENARIO(Forks) {
  char* const block = guarded_block(64, At::kEnd);
  const pid_t child = fork();
  require(child >= 0, "fork");
  if (child == 0) {
    free(block);
    if (argument == 1) signal(SIGSEGV, jump_back);
    _exit(faults(block) ? calls : 100);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (argument == 0) require(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child's fault");
  if (argument == 1) require(WIFEXITED(status) && WEXITSTATUS(status) == 1, "the child's handler");
  block[0] = 1;  // still the parent's
  *hide(block + 64) = 1;
}
TEST(GuardHandlers, AForkedChildFaultsForItself) {
  expect_explained(run_guarded("Forks", 0), SIGSEGV, {"use after free: a write at ", "overflow: a write at "});
}
TEST(GuardHandlers, AForkedChildsHandlerIsItsOwn) {
  expect_explained(run_guarded("Forks", 1), SIGSEGV, {"overflow: a write at "});
}

}  // namespace
}  // namespace freeway::test
