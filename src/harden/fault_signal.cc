// SPDX-License-Identifier: MIT
#include "harden/fault_signal.h"

#include "harden/guarded.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/signal_action.h"

namespace freeway::guard {
namespace {

constexpr u64 kIgnored = 1;  // SIG_IGN
constinit Atomic<u64> started, before_segv, before_bus;

using Handler = void(int, siginfo_t*, void*);

Atomic<u64>& before(int number) { return number == SIGSEGV ? before_segv : before_bus; }

void on_fault(int number, siginfo_t* info, void* context) {
  // A program that found this handler may call it with the signal's number alone.
  const bool complete = are_from_kernel(info, context) && info->si_signo == number;
  if (complete && info->si_code > 0) {  // else a thread or process sent it
    const FaultContext where = fault_context(context);
    explain_fault(reinterpret_cast<uptr>(info->si_addr), where.pc, where.access);
  }
  if (const u64 handler = before(number).load_relaxed(); handler != 0)
    return reinterpret_cast<Handler*>(handler)(number, info, context);
  // Sends the signal once more, with its facts, if they are known: not each fault comes again by itself. If the kernel
  // refuses (a filter), the process ends as well.
  const SignalAction standard;
  if (!signal_action(number, &standard, nullptr)) die();
  if (!(complete && send_again(number, info)) && !send_again(number, nullptr)) die();
}

void watch(int number) {
  SignalAction seen;
  if (!signal_action(number, nullptr, &seen) || seen.handler == kIgnored) return;
  before(number).store_relaxed(seen.handler);
  SignalAction next = seen, found;
  next.handler = reinterpret_cast<u64>(&on_fault);
  next.flags |= static_cast<u64>(SA_SIGINFO | (seen.handler == 0 ? SA_ONSTACK : 0));
  // A handler that another thread sets meanwhile is the program's last word, and is put back.
  while (signal_action(number, &next, &found) && !(found == seen)) {
    seen = next;
    next = found;
  }
}

}  // namespace

void watch_faults() {
  if (started.exchange_relaxed(1) != 0) return;
  watch(SIGSEGV);
  watch(SIGBUS);
}

}  // namespace freeway::guard
