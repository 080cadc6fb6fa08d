// SPDX-License-Identifier: MIT
//
// handlers_test.cc: a program's own way with SIGSEGV is what it is without FREEWAY_GUARD, after the explanation.
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csetjmp>
#include <csignal>

#include "guard_test.h"

namespace freeway::test {
namespace {

sigjmp_buf back;
volatile sig_atomic_t calls = 0;
void* volatile last_address = nullptr;
volatile bool on_alternate = false;

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
void note_and_jump_back(int number, siginfo_t* info, void* context) {
  require(number == SIGSEGV && context != nullptr, "what a handler gets");
  last_address = info->si_addr;
  stack_t stack;
  sigaltstack(nullptr, &stack);
  on_alternate = (stack.ss_flags & SS_ONSTACK) != 0;
  jump_back(number);
}

void handle(int flags) {
  struct sigaction action = {};
  action.sa_sigaction = note_and_jump_back;
  action.sa_flags = SA_SIGINFO | flags;
  sigaddset(&action.sa_mask, SIGUSR2);
  require(sigaction(SIGSEGV, &action, nullptr) == 0, "sigaction");
}

FREEWAY_SCENARIO(JumpsOut) {
  if (argument == 0)
    require(signal(SIGSEGV, jump_back) == SIG_DFL, "the default before");
  else
    handle(0);
  for (int i = 0; i < 10; ++i) {
    char* block = guarded_block(64, At::kEnd);
    require(faults(block + 64), "a fault");
    if (argument == 1) require(last_address == block + 64, "si_addr");
  }
  require(calls == 10, "ten calls of the handler");
  dprintf(1, "fine");
}
TEST(GuardHandlers, AHandlerThatJumpsOutHasEachFaultAfterItWasExplained) {
  for (long how : {0L, 1L}) {
    const Outcome outcome = run_guarded("JumpsOut", how);
    EXPECT_EQ(outcome.out, "fine") << outcome.err;
    size_t explained = 0;
    for (const std::string& line : outcome.reports()) explained += contains(line, "overflow: a write");
    EXPECT_EQ(explained, 10u) << outcome.err;
  }
}

void count(int) { calls = calls + 1; }
FREEWAY_SCENARIO(Counts) {
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
  EXPECT_EQ(outcome.err, "");
}

FREEWAY_SCENARIO(ManyFaults) {
  signal(SIGSEGV, jump_back);
  char* block = guarded_block(64, At::kEnd);
  for (int i = 0; i < 1000; ++i) require(faults(block + 64 + i), "a fault");
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof(stats));
  require(calls == 1000 && stats.guard_faults == 1000, "each is counted");
}
TEST(GuardHandlers, OfVeryManyFaultsTheFirstAreExplained) {
  const Outcome outcome = run_guarded("ManyFaults");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_LT(outcome.reports().size(), 100u);
  EXPECT_TRUE(contains(outcome.err, "further faults are not explained"));
}

FREEWAY_SCENARIO(Asks) {
  struct sigaction old, action = {};
  require(sigaction(SIGSEGV, nullptr, &old) == 0, "sigaction");
  require(old.sa_handler == SIG_DFL && old.sa_flags == 0, "the default at first");
  action.sa_handler = count;
  action.sa_flags = SA_RESTART;
  require(sigaction(SIGSEGV, &action, &old) == 0 && old.sa_handler == SIG_DFL, "the default before");
  require(sigaction(SIGSEGV, nullptr, &old) == 0 && old.sa_handler == count, "the program's handler");
  require((old.sa_flags & SA_SIGINFO) == 0 && (old.sa_flags & SA_RESTART) != 0, "its flags");
  handle(SA_ONSTACK | SA_NODEFER);
  require(sigaction(SIGSEGV, nullptr, &old) == 0 && old.sa_sigaction == note_and_jump_back, "the second one");
  constexpr int kFlags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  require((old.sa_flags & kFlags) == kFlags, "its flags");
  require(sigismember(&old.sa_mask, SIGUSR2) == 1 && sigismember(&old.sa_mask, SIGUSR1) == 0, "its mask");
  require(signal(SIGSEGV, SIG_IGN) == old.sa_handler, "signal answers with it");
  require(signal(SIGSEGV, SIG_DFL) == SIG_IGN, "ignored");
  require(signal(SIGSEGV, SIG_DFL) == SIG_DFL, "the default again");
  require(sigaction(SIGSEGV + 1000, &action, nullptr) == -1 && errno == EINVAL, "no such signal");
  require(sigaction(SIGUSR1, &action, &old) == 0 && old.sa_handler == SIG_DFL, "other signals");
  require(sigaction(SIGUSR1, nullptr, &old) == 0 && old.sa_handler == count, "other signals");
}
TEST(GuardHandlers, TheProgramSeesItsOwnHandlers) {
  for (const char* guard : {"FREEWAY_GUARD=0", "FREEWAY_GUARD=1"}) {
    const Outcome outcome = run_scenario("Asks", 0, {guard});
    EXPECT_TRUE(outcome.succeeded()) << guard << "\n" << outcome.err;
  }
}

FREEWAY_SCENARIO(HandlesOnce) {
  handle(SA_RESETHAND);
  char* block = guarded_block(64, At::kEnd);
  require(faults(block + 64), "a fault");
  dprintf(1, "%d", calls);
  *hide(block + 64) = 1;
}
TEST(GuardHandlers, AHandlerForOneFaultHasOneFault) {
  const Outcome outcome = run_guarded("HandlesOnce");
  EXPECT_EQ(outcome.signal, SIGSEGV);
  EXPECT_EQ(outcome.out, "1");
}

int deep(int depth) {
  volatile char local[4096];
  local[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : deep(depth + 1) + local[0];
}
FREEWAY_SCENARIO(OverflowsItsStack) {
  const rlimit small = {256 * 1024, 256 * 1024};
  setrlimit(RLIMIT_STACK, &small);
  stack_t stack = {};
  stack.ss_size = 64 * 1024;
  stack.ss_sp = mmap(nullptr, stack.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require(sigaltstack(&stack, nullptr) == 0, "sigaltstack");
  handle(SA_ONSTACK);
  if (sigsetjmp(back, 1) == 0) deep(0);
  require(calls == 1 && on_alternate, "the handler runs on its own stack");
}
TEST(GuardHandlers, AStackOverflowIsHandledOnTheAlternateStack) {
  const Outcome outcome = run_guarded("OverflowsItsStack");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

FREEWAY_SCENARIO(BlocksWhileHandling) {
  struct sigaction action = {};
  action.sa_handler = [](int) {
    sigset_t blocked;
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    require(sigismember(&blocked, SIGUSR2) == 1 && sigismember(&blocked, SIGSEGV) == 1, "what is blocked in a handler");
    require(sigismember(&blocked, SIGBUS) == 0, "what is not");
    calls = calls + 1;
    siglongjmp(back, 1);
  };
  sigaddset(&action.sa_mask, SIGUSR2);
  sigaction(SIGSEGV, &action, nullptr);
  char* block = guarded_block(64, At::kEnd);
  require(faults(block + 64) && calls == 1, "it was called");
}
TEST(GuardHandlers, WhatAHandlerBlocksIsWhatItAskedFor) {
  const Outcome outcome = run_guarded("BlocksWhileHandling");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
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
  signal(SIGSEGV, SIG_IGN);
  require(kernels_handler() == 1, "ignored is ignored: exec passes it on");
}
TEST(GuardHandlers, ThereIsOneOnlyWhereSomethingIsGuarded) {
  EXPECT_TRUE(run_scenario("LooksAtTheKernel", 0).succeeded());
  EXPECT_TRUE(run_guarded("LooksAtTheKernel", 1).succeeded());
}

FREEWAY_SCENARIO(Forks) {
  signal(SIGSEGV, argument == 2 ? jump_back : SIG_DFL);
  char* const block = guarded_block(64, At::kEnd);
  const pid_t child = argument == 2 ? vfork() : fork();
  require(child >= 0, "fork");
  if (child == 0) {
    if (argument == 2) {
      signal(SIGSEGV, SIG_DFL);  // its own, not its parent's
      _exit(0);
    }
    free(block);
    if (argument == 0) *hide(block) = 1;
    signal(SIGSEGV, jump_back);
    _exit(faults(block) ? calls : 100);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (argument == 0) require(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV, "the child's fault");
  if (argument == 1) require(WIFEXITED(status) && WEXITSTATUS(status) == 1, "the child's handler");
  block[0] = 1;  // still the parent's
  if (argument == 2) require(faults(block + 64), "a fault");
  require(calls == (argument == 2), "the parent's handler");
  free(block);
}
TEST(GuardHandlers, AForkedChildFaultsForItself) {
  const Outcome outcome = run_guarded("Forks", 0);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "use after free: a write at ")) << outcome.err;
  const Outcome handled = run_guarded("Forks", 1);
  EXPECT_TRUE(handled.succeeded()) << handled.err;
  EXPECT_TRUE(contains(handled.err, "use after free: a write at ")) << "the child's handler is its own, and explained";
}
TEST(GuardHandlers, AChildOfVforkLeavesItsParentsHandlerAlone) {
  const Outcome outcome = run_guarded("Forks", 2);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "overflow: a write at ")) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
