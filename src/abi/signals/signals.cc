// SPDX-License-Identifier: MIT
// signals.cc: sigaction and signal in front of the C library's, for what is said of SIGSEGV and SIGBUS while blocks are
// guarded (guard/fault_signal.h). All else passes through.
//
// Words     next: the C library's functions; 0 -> address (plain stores; everybody who comes early finds the same).
//           Where it cannot be asked for yet (in resolvers), or nobody has one, the kernel is called
// Progress  wait-free but for the first call, which asks the loader; the constructor makes one when blocks are guarded
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "guard/fault_signal.h"
#include "os/dynamic_linker.h"
#include "os/machine.h"
#include "os/options.h"
#include "os/signal_action.h"

namespace {

using freeway::u64;
using SetHandler = sighandler_t(int, sighandler_t);
using freeway::guard::SetAction;

// SetAction by the kernel.
int set_by_kernel(int number, const struct sigaction* change, struct sigaction* old) {
  freeway::SignalAction wanted, before;
  if (change != nullptr) {
    wanted.handler = reinterpret_cast<u64>(change->sa_sigaction);
    wanted.flags = static_cast<freeway::u32>(change->sa_flags);
    memcpy(&wanted.mask, &change->sa_mask, sizeof(wanted.mask));
  }
  if (!freeway::signal_action(number, change != nullptr ? &wanted : nullptr, &before)) {
    errno = EINVAL;
    return -1;
  }
  if (old == nullptr) return 0;
  *old = {};
  old->sa_sigaction = reinterpret_cast<void (*)(int, siginfo_t*, void*)>(before.handler);
  old->sa_flags = static_cast<int>(before.flags & ~freeway::SignalAction::kRestorer);
  memcpy(&old->sa_mask, &before.mask, sizeof(before.mask));
  return 0;
}

// One of the C library's functions, by name; null: there is none, or not yet.
template <class Function>
class Next {
 public:
  explicit constexpr Next(const char* name) : name_(name) {}
  Function* get() {
    u64 address = address_.load_relaxed();
    if (FREEWAY_UNLIKELY(address == 0) && freeway::dynamic_linker::is_available() && freeway::options_available()) {
      address = reinterpret_cast<u64>(freeway::dynamic_linker::find(RTLD_NEXT, name_));
      address_.store_relaxed(address);
    }
    return reinterpret_cast<Function*>(address);
  }

 private:
  const char* name_;
  freeway::Atomic<u64> address_;
};
constinit Next<SetAction> next_sigaction("sigaction");
constinit Next<SetHandler> next_signal("signal"), next_sysv_signal("__sysv_signal");

// For handlers that set handlers, and children of forks: they may not wait for the loader.
__attribute__((constructor)) void find_early() {
  if (freeway::option_text("GUARD") == nullptr) return;
  next_sigaction.get();
  next_signal.get();
  next_sysv_signal.get();
}

int set_action(int number, const struct sigaction* change, struct sigaction* old) {
  SetAction* set = next_sigaction.get();
  if (FREEWAY_UNLIKELY(set == nullptr)) set = set_by_kernel;
  if (FREEWAY_LIKELY(!freeway::guard::is_watched(number))) return set(number, change, old);
  return freeway::guard::exchange_action(number, change, old, set);
}

sighandler_t set_handler(int number, sighandler_t handler, Next<SetHandler>& next, int flags, u64 mask) {
  SetHandler* set = next.get();
  const bool is_as_it_is = !freeway::guard::is_watched(number) || handler == SIG_ERR;
  if (FREEWAY_LIKELY(set != nullptr && is_as_it_is)) return set(number, handler);
  struct sigaction change = {}, old;
  change.sa_handler = handler;
  change.sa_flags = flags;
  memcpy(&change.sa_mask, &mask, sizeof(mask));
  return set_action(number, &change, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // namespace

extern "C" {

FREEWAY_EXPORT int sigaction(int number, const struct sigaction* change, struct sigaction* old) noexcept {
  return set_action(number, change, old);
}

// As BSD's, which is what the C libraries have under this name: the handler stays, and calls are restarted.
FREEWAY_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  return set_handler(number, handler, next_signal, SA_RESTART, u64{1} << (static_cast<unsigned>(number - 1) % 64));
}

// What glibc's header makes of `signal` in programs in strict ISO C: System V's, once only, and nothing is blocked.
FREEWAY_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) noexcept {
  return set_handler(number, handler, next_sysv_signal, static_cast<int>(SA_RESETHAND | SA_NODEFER), 0);
}
}
