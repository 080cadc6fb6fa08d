// SPDX-License-Identifier: MIT
//
// reports_test.cc: a fault is explained once, and whoever should read it may be gone. The handler that goes on was
// there before the library started (early_library.c).
#include <fcntl.h>
#include <sys/socket.h>

#include <csetjmp>
#include <csignal>

#include "guard_test.h"

extern "C" void (*early_handler)(int, siginfo_t*, void*);

namespace freeway::test {
namespace {

size_t explanations(const Outcome& outcome) {
  size_t count = 0;
  for (const std::string& line : outcome.reports()) count += contains(line, ": a write at ");
  return count;
}

sigjmp_buf back;
volatile sig_atomic_t pipe_signals = 0;
void jump_back(int, siginfo_t*, void*) { siglongjmp(back, 1); }
__attribute__((noinline)) void fault_at(char* address) {
  if (sigsetjmp(back, 1) == 0) {
    *hide(address) = 1;
    require(false, "a fault");
  }
}
FREEWAY_SCENARIO(FaultsAgain) {
  char* block = guarded_block(64, At::kEnd);
  early_handler = jump_back;
  for (int i = 0; i < 3; ++i) fault_at(block + 64);
  for (int i = 0; i < 3; ++i) fault_at(block + 64 + i % 2);
  free(block);
  fault_at(block + 64);  // the same place, but not the same fault
  freeway_stats_t stats;
  freeway_stats(&stats, sizeof(stats));
  require(stats.guard_faults == 7, "each is counted");
}
TEST(GuardReports, OfTheSameFaultInARowOneIsExplained) {
  const Outcome outcome = run_guarded("FaultsAgain");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
  EXPECT_EQ(explanations(outcome), 4u) << outcome.err;
}

enum Reader { kPipe, kSocket, kClosed };
void leave_nobody_to_read(long reader) {
  int ends[2];
  if (reader == kPipe) require(pipe(ends) == 0, "pipe");
  if (reader == kSocket) require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
  if (reader == kClosed) return static_cast<void>(close(2));
  close(ends[0]);
  require(dup2(ends[1], 2) == 2, "dup2");
}
FREEWAY_SCENARIO(FaultsUnread) {
  char* block = guarded_block(64, At::kEnd);
  early_handler = [](int number, siginfo_t*, void*) { signal(number, SIG_DFL); };
  leave_nobody_to_read(argument);
  *hide(block + 64) = 1;
}
TEST(GuardReports, WhereNobodyReadsThemTheProgramStillDiesOfItsFault) {
  for (long reader : {long{kPipe}, long{kSocket}, long{kClosed}})
    EXPECT_EQ(run_guarded("FaultsUnread", reader).signal, SIGSEGV) << reader;
}

void count_pipe_signal(int) { pipe_signals = pipe_signals + 1; }
bool is_in(int call(sigset_t*)) {
  sigset_t set;
  require(call(&set) == 0, "signal sets");
  return sigismember(&set, SIGPIPE) == 1;
}
int blocked(sigset_t* set) { return sigprocmask(SIG_BLOCK, nullptr, set); }
// argument: 0: SIGPIPE is not blocked; 1: it is; 2: it is, and one waits.
FREEWAY_SCENARIO(FaultsUnreadAndGoesOn) {
  char* block = guarded_block(64, At::kEnd);
  signal(SIGPIPE, count_pipe_signal);
  early_handler = jump_back;
  sigset_t pipe_signal;
  sigemptyset(&pipe_signal);
  sigaddset(&pipe_signal, SIGPIPE);
  if (argument > 0) sigprocmask(SIG_BLOCK, &pipe_signal, nullptr);
  if (argument == 2) raise(SIGPIPE);
  leave_nobody_to_read(kPipe);
  fault_at(block + 64);
  const bool is_waiting = is_in(sigpending), is_blocked = is_in(blocked);
  sigprocmask(SIG_UNBLOCK, &pipe_signal, nullptr);
  dprintf(1, "waiting %d blocked %d handled %d", is_waiting, is_blocked, pipe_signals);
}
TEST(GuardReports, WhereNobodyReadsThemNoSignalTellsTheProgram) {
  EXPECT_EQ(run_guarded("FaultsUnreadAndGoesOn", 0).out, "waiting 0 blocked 0 handled 0");
  EXPECT_EQ(run_guarded("FaultsUnreadAndGoesOn", 1).out, "waiting 0 blocked 1 handled 0");
  EXPECT_EQ(run_guarded("FaultsUnreadAndGoesOn", 2).out, "waiting 1 blocked 1 handled 1");
}

}  // namespace
}  // namespace freeway::test
