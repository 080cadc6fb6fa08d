// SPDX-License-Identifier: MIT
//
// early_test.cc: a handler of SIGSEGV that was there before the library started (early_library.c) has each fault after
// it was explained.
#include <csetjmp>
#include <csignal>

#include "guard_test.h"

extern "C" {
extern void (*early_handler)(int, siginfo_t*, void*);
void early_call();
}

namespace freeway::test {
namespace {

sigjmp_buf back;
volatile sig_atomic_t calls = 0;
void* volatile last_address = nullptr;

void return_from_signal(int, siginfo_t*, void*) { calls = calls + 1; }
void jump_back(int number, siginfo_t* info, void* context) {
  require(number == SIGSEGV && context != nullptr, "what a handler gets");
  sigset_t blocked;
  sigprocmask(SIG_BLOCK, nullptr, &blocked);
  require(sigismember(&blocked, SIGUSR2) == 1 && sigismember(&blocked, SIGSEGV) == 0, "what it blocks, and no more");
  last_address = info->si_addr;
  calls = calls + 1;
  siglongjmp(back, 1);
}

// Writes there; whether the handler jumped out of a fault.
__attribute__((noinline)) bool faults(char* address) {
  if (sigsetjmp(back, 1) != 0) return true;
  *hide(address) = 1;
  return false;
}

FREEWAY_SCENARIO(Faults) {
  early_call();
  early_handler = jump_back;
  char* block = guarded_block(64, At::kEnd);
  for (int i = 0; i < argument; ++i) {
    require(faults(block + 64 + i), "a fault");
    require(last_address == block + 64 + i, "si_addr");
  }
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof(stats));
  require(calls == argument && stats.guard_faults == static_cast<uint64_t>(argument), "each is counted");
}
TEST(GuardEarly, TheHandlerThatWasThereHasEachFaultAfterItWasExplained) {
  const Outcome outcome = run_guarded("Faults", 10);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  size_t explained = 0;
  for (const std::string& line : outcome.reports()) explained += contains(line, "overflow: a write");
  EXPECT_EQ(explained, 10u) << outcome.err;
}
TEST(GuardEarly, OfVeryManyFaultsTheFirstAreExplained) {
  const Outcome outcome = run_guarded("Faults", 1000);
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_LT(outcome.reports().size(), 100u);
  EXPECT_TRUE(contains(outcome.err, "further faults are not explained"));
}

FREEWAY_SCENARIO(IsSent) {
  early_handler = return_from_signal;
  for (int i = 0; i < 5; ++i) raise(SIGSEGV);
  require(calls == 5, "each signal reaches the handler once");
}
TEST(GuardEarly, SentSignalsReachAHandlerThatReturns) {
  const Outcome outcome = run_guarded("IsSent");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(outcome.err, "");
}

}  // namespace
}  // namespace freeway::test
