// SPDX-License-Identifier: MIT
#include "guard/fault_signal.h"

#include <utility>

#include "guard/guarded.h"
#include "guard/handler_table.h"
#include "os/machine.h"
#include "os/report.h"
#include "os/signal_action.h"

namespace freeway::guard {
namespace {

constexpr u64 kIgnored = 1;                // SIG_IGN
constexpr u64 kNumberAlone = u64{1} << 63;  // in the table: the handler takes the signal's number and nothing else
constexpr unsigned kHandlers = 32;         // of a program: it has one or two
using Table = HandlerTable<Machine, kHandlers>;
constinit Table table;
constinit Atomic<u64> watching;

using Handler = void(int, siginfo_t*, void*);

void on_fault(u64 handler, int number, siginfo_t* info, void* context) {
  // Set without SA_SIGINFO, past us, the kernel leaves `info` as it finds it.
  const bool complete = are_from_kernel(info, context) && info->si_signo == number;
  if (complete && info->si_code > 0) {  // else somebody sent it
    const FaultContext where = fault_context(context);
    explain_fault(reinterpret_cast<uptr>(info->si_addr), where.pc, where.access);
  }
  if (handler != 0) return reinterpret_cast<Handler*>(handler & ~kNumberAlone)(number, info, context);
  // The signal once more, with what it said, if that is known: not each fault comes again by itself. Where the kernel
  // refuses (a filter), the process ends as well.
  const SignalAction standard;
  if (!signal_action(number, &standard, nullptr)) die();
  if (!(complete && send_again(number, info)) && !send_again(number, nullptr)) die();
}

template <unsigned kEntry>
void handler_entry(int number, siginfo_t* info, void* context) {
  on_fault(table.handler(kEntry), number, info, context);
}
void default_entry(int number, siginfo_t* info, void* context) { on_fault(0, number, info, context); }

template <unsigned... kEntry>
Handler* entry_in(std::integer_sequence<unsigned, kEntry...>, unsigned entry) {
  static constexpr Handler* kEntries[] = {handler_entry<kEntry>..., default_entry};
  return kEntries[entry];
}
constexpr unsigned kDefault = kHandlers, kNoEntry = kHandlers + 1;
u64 address_of(unsigned entry) {
  return reinterpret_cast<u64>(entry_in(std::make_integer_sequence<unsigned, kHandlers>(), entry));
}
unsigned entry_at(u64 address) {
  unsigned entry = 0;
  while (entry < kNoEntry && address_of(entry) != address) ++entry;
  return entry;
}

// Of a signal's action: what the kernel has where the program wants `action`, and the reverse.
struct Action {
  u64 handler, flags;
};

Action with_entry(Action action) {
  if (action.handler == kIgnored || action.handler >= kNumberAlone) return action;  // the latter is no address
  if (entry_at(action.handler) == kNoEntry) {
    const bool takes_all = (action.flags & SA_SIGINFO) != 0;
    const u64 handler = action.handler;
    const unsigned entry = handler == 0 ? kDefault : table.entry_of(handler | (takes_all ? 0 : kNumberAlone));
    if (handler != 0 && entry == Table::kNone) return action;
    action.handler = address_of(entry);
    if (handler == 0) action.flags |= SA_ONSTACK;
  }
  action.flags |= SA_SIGINFO;
  return action;
}

Action without_entry(Action action) {
  const unsigned entry = entry_at(action.handler);
  if (entry == kNoEntry) return action;
  const u64 handler = entry == kDefault ? 0 : table.handler(entry);
  if (handler == 0) return {0, action.flags & ~(SA_SIGINFO | SA_ONSTACK | SignalAction::kRestorer)};
  return {handler & ~kNumberAlone, (handler & kNumberAlone) != 0 ? action.flags & ~u64{SA_SIGINFO} : action.flags};
}

void apply(Action change(Action), struct sigaction& action) {
  const Action changed = change({reinterpret_cast<u64>(action.sa_sigaction), static_cast<u32>(action.sa_flags)});
  action.sa_sigaction = reinterpret_cast<Handler*>(changed.handler);
  action.sa_flags = static_cast<int>(changed.flags);
}

void watch(int number) {
  SignalAction seen;
  if (!signal_action(number, nullptr, &seen)) return;
  const auto exchange = [number](const SignalAction& next) {
    SignalAction found;
    return signal_action(number, &next, &found) ? found : next;
  };
  const auto changed = [](SignalAction action) {
    const Action with = with_entry({action.handler, action.flags});
    action.handler = with.handler;
    action.flags = with.flags;
    return action;
  };
  change_by_exchange(seen, exchange, changed);
}

}  // namespace

void watch_faults() {
  watching.store_relaxed(1);
  watch(SIGSEGV);
  watch(SIGBUS);
}

bool is_watched(int number) {
  return (number == SIGSEGV || number == SIGBUS) && watching.load_relaxed() != 0;
}

int exchange_action(int number, const struct sigaction* change, struct sigaction* old, SetAction* set) {
  struct sigaction action;
  if (change != nullptr) {
    action = *change;
    apply(with_entry, action);
  }
  const int result = set(number, change != nullptr ? &action : nullptr, old);
  if (result == 0 && old != nullptr) apply(without_entry, *old);
  return result;
}

}  // namespace freeway::guard
