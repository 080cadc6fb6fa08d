// SPDX-License-Identifier: MIT
//
// chains_test.cc: handlers of SIGSEGV that are set by whatever function there is, ours in front of the C library's or
// not, and that call the one before them or put it back: the same are called, in the same order, as without
// FREEWAY_GUARD.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <thread>
#include <utility>

#include "guard_test.h"

extern "C" {
// glibc's, which its headers no longer have, or only for some.
sighandler_t bsd_signal(int, sighandler_t);
sighandler_t freeway_test_sysv_signal(int, sighandler_t) __asm__("__sysv_signal");
sighandler_t freeway_test_sigset(int, sighandler_t) __asm__("sigset");
int freeway_test_sigaction(int, const struct sigaction*, struct sigaction*) __asm__("__sigaction")
    __attribute__((weak));  // not musl's
}

namespace freeway::test {
namespace {

// A handler, and whether it is known to take all that a handler gets.
struct Known {
  uintptr_t address;  // 0: the default
  bool takes_all;
};
using Whole = void(int, siginfo_t*, void*);
template <class Function>
uintptr_t address_of(Function* function) {
  return reinterpret_cast<uintptr_t>(function);
}

Known by_sigaction(int set(int, const struct sigaction*, struct sigaction*), Known handler) {
  struct sigaction change = {}, old;
  change.sa_sigaction = reinterpret_cast<Whole*>(handler.address);
  change.sa_flags = handler.takes_all ? SA_SIGINFO : 0;
  require(set(SIGSEGV, &change, &old) == 0, "sigaction");
  return {address_of(old.sa_sigaction), (old.sa_flags & SA_SIGINFO) != 0};
}
Known by_signal(sighandler_t set(int, sighandler_t), Known handler) {
  const sighandler_t old = set(SIGSEGV, reinterpret_cast<sighandler_t>(handler.address));
  require(old != SIG_ERR, "signal");
  return {address_of(old), false};
}
// The kernel's own, with what the C library has its handlers return to.
Known by_system_call(Known handler) {
  unsigned long change[4] = {}, old[4] = {};
  signal(SIGUSR1, [](int) {});
  syscall(SYS_rt_sigaction, SIGUSR1, nullptr, change, 8);
  constexpr unsigned long kRestorer = 0x04000000;
  change[0] = handler.address;
  change[1] = (change[1] & kRestorer) | (handler.takes_all ? SA_SIGINFO : 0);
  require(syscall(SYS_rt_sigaction, SIGSEGV, change, old, 8) == 0, "rt_sigaction");
  return {old[0], (old[1] & SA_SIGINFO) != 0};
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
// Changes a flag of whatever handler there is.
void interrupt_calls() { require(siginterrupt(SIGSEGV, 1) == 0, "siginterrupt"); }
#pragma GCC diagnostic pop

enum Way { kSigaction, kSignal, kSysv, kRaw, kBsd, kSigset, kUnderlined, kWays };
Known set_by(int way, Known handler) {
  if (way == kSigaction) return by_sigaction(sigaction, handler);
  if (way == kUnderlined && &freeway_test_sigaction != nullptr) return by_sigaction(freeway_test_sigaction, handler);
  if (way == kSignal) return by_signal(signal, handler);
  if (way == kSysv) return by_signal(freeway_test_sysv_signal, handler);
  if (way == kBsd) return by_signal(bsd_signal, handler);
  if (way == kSigset) return by_signal(freeway_test_sigset, handler);
  return by_system_call(handler);
}

constexpr int kHandlers = 3, kMost = 12;
Known before[kHandlers];
char* trace;  // which handlers were called: shared with the parent

template <int I>
void handler(int number, siginfo_t* info, void* context) {
  const size_t length = strlen(trace);
  trace[length] = 'a' + I;
  if (length > kMost) _exit(9);
  const Known next = before[I];
  if (next.address == 0)
    signal(number, SIG_DFL);
  else if (next.takes_all)
    reinterpret_cast<Whole*>(next.address)(number, info, context);
  else
    reinterpret_cast<sighandler_t>(next.address)(number);
}
constexpr Whole* kHandler[] = {handler<0>, handler<1>, handler<2>};

// Sets three handlers, puts the second one back if that is wanted, and faults.
void fault(const int (&ways)[kHandlers], int put_back) {
  for (int i = 0; i < kHandlers; ++i) {
    const bool takes_all = ways[i] == kSigaction || ways[i] == kRaw;
    before[i] = set_by(ways[i], {address_of(kHandler[i]), takes_all});
  }
  if (put_back < kWays) set_by(put_back, before[kHandlers - 1]);
  char* page = static_cast<char*>(mmap(nullptr, page_bytes(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  *hide(page) = 1;
  _exit(8);
}

FREEWAY_SCENARIO(Chains) {
  trace = static_cast<char*>(mmap(nullptr, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  free(hide(malloc(10)));
  const int put_back = static_cast<int>(argument);
  for (int number = 0; number < kWays * kWays * kWays; ++number) {
    const int ways[] = {number % kWays, number / kWays % kWays, number / kWays / kWays};
    memset(trace, 0, kMost + 3);
    const pid_t child = fork();
    if (child == 0) fault(ways, put_back);
    int status = 0;
    require(waitpid(child, &status, 0) == child, "waitpid");
    dprintf(1, "%d %d %d: %s, status %x\n", ways[0], ways[1], ways[2], trace, status & 0xff7f);
  }
}
TEST(GuardChains, AreWhatTheyAreWithoutUs) {
  for (long put_back : {long{kSigaction}, long{kSysv}, long{kRaw}, long{kBsd}, long{kSigset}, long{kWays}}) {
    const Outcome without = run_scenario("Chains", put_back, {"FREEWAY_GUARD=0"});
    const Outcome with = run_guarded("Chains", put_back);
    EXPECT_TRUE(without.succeeded()) << without.err;
    EXPECT_TRUE(contains(without.out, put_back == kWays ? "0 0 0: cba, " : "0 0 0: ba, ")) << without.out;
    EXPECT_EQ(with.out, without.out) << put_back;
    EXPECT_EQ(with.err, "") << put_back;
  }
}

FREEWAY_SCENARIO(SetsByOtherWays) {
  char* block = guarded_block(64, At::kEnd);
  set_by(static_cast<int>(argument), {address_of<void(int)>([](int) { _exit(7); }), false});
  interrupt_calls();
  *hide(block + 64) = 1;
}
TEST(GuardChains, StrictCsSignalHasItsFaultsExplained) {
  for (long way : {long{kSigaction}, long{kSignal}, long{kSysv}}) {
    const Outcome outcome = run_guarded("SetsByOtherWays", way);
    EXPECT_EQ(outcome.exit_status, 7);
    EXPECT_TRUE(contains(outcome.err, "overflow: a write at ")) << way << outcome.err;
  }
}
TEST(GuardChains, AHandlerThatIsSetPastUsHasTheFaultAlone) {
  for (long way : {long{kRaw}, long{kUnderlined}, long{kBsd}, long{kSigset}}) {
    const Outcome outcome = run_guarded("SetsByOtherWays", way);
    EXPECT_EQ(outcome.exit_status, 7) << way;
    EXPECT_EQ(outcome.err, "") << way;
  }
}

volatile int called = -1;
template <int I>
void numbered(int) {
  called = I;
}
template <int... I>
sighandler_t numbered_handler(std::integer_sequence<int, I...>, int i) {
  static constexpr sighandler_t kAll[] = {numbered<I>...};
  return kAll[i];
}
constexpr int kMany = 100;
sighandler_t many(int i) { return numbered_handler(std::make_integer_sequence<int, kMany>(), i); }

FREEWAY_SCENARIO(HasManyHandlers) {
  free(hide(malloc(10)));
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < kMany; ++i) {
      const int last = (i + kMany - 1) % kMany;
      require(signal(SIGSEGV, many(i)) == (round == 0 && i == 0 ? SIG_DFL : many(last)), "the one before");
      raise(SIGSEGV);
      require(called == i, "the one that was set");
    }
}
TEST(GuardChains, AProgramMayHaveMoreHandlersThanWeHavePlaces) {
  const Outcome outcome = run_guarded("HasManyHandlers");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

// Two kinds of action, each with its own handler, flag and mask.
void set_kind(int kind) {
  struct sigaction action = {}, old;
  action.sa_handler = kind == 0 ? numbered<0> : numbered<1>;
  action.sa_flags = kind == 0 ? SA_ONSTACK : SA_NODEFER;
  sigaddset(&action.sa_mask, kind == 0 ? SIGUSR1 : SIGUSR2);
  require(sigaction(SIGSEGV, &action, &old) == 0, "sigaction");
  const bool is_first = old.sa_handler == numbered<0>;
  constexpr int kFlags = SA_ONSTACK | SA_NODEFER | SA_SIGINFO;
  require(is_first || old.sa_handler == numbered<1>, "a handler of the program");
  require((old.sa_flags & kFlags) == (is_first ? SA_ONSTACK : SA_NODEFER), "with its flags");
  require(sigismember(&old.sa_mask, SIGUSR1) == is_first && sigismember(&old.sa_mask, SIGUSR2) != is_first, "its mask");
}
FREEWAY_SCENARIO(SetsAtTheSameTime) {
  signal(SIGSEGV, numbered<0>);
  struct sigaction action = {};
  action.sa_handler = numbered<0>;
  action.sa_flags = SA_ONSTACK;
  sigaddset(&action.sa_mask, SIGUSR1);
  sigaction(SIGSEGV, &action, nullptr);
  const auto work = [](int kind) {
    for (int i = 0; i < 100'000; ++i) set_kind((i + kind) % 2);
  };
  std::thread other(work, 1);
  work(0);
  other.join();
}
TEST(GuardChains, HandlersThatThreadsSetAtTheSameTimeKeepTheirFlags) {
  const Outcome outcome = run_guarded("SetsAtTheSameTime");
  EXPECT_TRUE(outcome.succeeded()) << outcome.err;
}

}  // namespace
}  // namespace freeway::test
