// SPDX-License-Identifier: MIT
#include "guard/fault_signal.h"

#include "guard/guarded.h"
#include "os/process.h"
#include "os/report.h"
#include "os/signal_action.h"

namespace freeway::guard {
namespace {

constexpr u64 kNumberAlone = u64{1} << 63;
constexpr int kSignals[] = {SIGSEGV, SIGBUS};
constinit Atomic<u64> kept[2];
constinit Atomic<u64> watching;  // the process number; 0: nothing is watched

using Handler = void(int, siginfo_t*, void*);

Atomic<u64>& kept_of(int number) { return kept[number == SIGBUS]; }

void on_fault(int number, siginfo_t* info, void* context) {
  const bool is_fault = info->si_code > 0;  // else somebody sent it
  if (is_fault) {
    const FaultContext where = fault_context(context);
    explain_fault(reinterpret_cast<uptr>(info->si_addr), where.pc, where.access);
  }
  if (const u64 handler = kept_of(number).load_relaxed() & ~kNumberAlone)
    return reinterpret_cast<Handler*>(handler)(number, info, context);
  // The signal once more, with what it said: not each fault comes again by itself. Where the kernel refuses (a filter), the
  // process ends as well.
  const SignalAction standard;
  if (!signal_action(number, &standard, nullptr) || !send_again(number, *info)) die();
}

constexpr u64 word_of(u64 handler, bool takes_info) {
  return handler | (handler != 0 && !takes_info ? kNumberAlone : 0);
}

u64 own_handler() { return reinterpret_cast<u64>(&on_fault); }

}  // namespace

void watch_faults() {
  if (watching.load_relaxed() != 0) return;
  for (const int number : kSignals) {
    SignalAction action;
    if (!signal_action(number, nullptr, &action)) return;
    if (action.handler == 1 || action.handler == own_handler()) continue;
    kept_of(number).store_relaxed(word_of(action.handler, (action.flags & SA_SIGINFO) != 0));
    if (action.handler == 0) action.flags = SA_ONSTACK;
    action.flags |= SA_SIGINFO;
    action.handler = own_handler();
    signal_action(number, &action, nullptr);
  }
  watching.store_relaxed(process::id());
}

bool is_watched(int number) {
  return (number == SIGSEGV || number == SIGBUS) && watching.load_relaxed() != 0;
}

int exchange_action(int number, const struct sigaction* change, struct sigaction* old, SetAction* set) {
  Atomic<u64>& word = kept_of(number);
  u64 previous = word.load_relaxed();
  struct sigaction action, before;
  const bool is_ours = change != nullptr && change->sa_handler != SIG_IGN && process::id() == watching.load_relaxed();
  if (is_ours) {
    action = *change;
    const u64 handler = reinterpret_cast<u64>(change->sa_sigaction);
    previous = word.exchange_relaxed(word_of(handler, (change->sa_flags & SA_SIGINFO) != 0));
    action.sa_flags |= SA_SIGINFO | (handler == 0 ? SA_ONSTACK : 0);
    action.sa_sigaction = on_fault;
  }
  const int result = set(number, is_ours ? &action : change, &before);
  if (result != 0) {
    if (is_ours) word.store_relaxed(previous);
    return result;
  }
  if (old == nullptr) return 0;
  *old = before;
  if (before.sa_sigaction != on_fault) return 0;
  old->sa_sigaction = reinterpret_cast<Handler*>(previous & ~kNumberAlone);
  if ((previous & kNumberAlone) != 0) old->sa_flags &= ~SA_SIGINFO;
  if (previous == 0) old->sa_flags = 0;
  return 0;
}

}  // namespace freeway::guard
