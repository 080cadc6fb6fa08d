// SPDX-License-Identifier: MIT
// signals.cc: sigaction and signal in front of the C library's, for what is said of SIGSEGV and SIGBUS while blocks are
// guarded (guard/fault_signal.h). All else passes through.
//
// Words     next: the C library's functions; 0 -> address (plain stores; everybody who comes early finds the same)
// Progress  wait-free but for the first call, which asks the loader; the constructor makes one when blocks are guarded
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "guard/fault_signal.h"
#include "os/dynamic_linker.h"
#include "os/machine.h"

namespace {

using freeway::u64;
using SetHandler = sighandler_t(int, sighandler_t);
using freeway::guard::SetAction;

constinit freeway::Atomic<u64> next_sigaction, next_signal;

template <class Function>
Function* next(freeway::Atomic<u64>& word, const char* name) {
  u64 address = word.load_relaxed();
  if (FREEWAY_UNLIKELY(address == 0)) {
    address = reinterpret_cast<u64>(freeway::dynamic_linker::find(RTLD_NEXT, name));
    word.store_relaxed(address);
  }
  return reinterpret_cast<Function*>(address);
}

template <class Result>
Result none(Result failed) {
  errno = ENOSYS;
  return failed;
}

// For handlers that set handlers, and children of forks: they may not wait for the loader.
__attribute__((constructor)) void find_early() {
  next<SetAction>(next_sigaction, "sigaction");
  next<SetHandler>(next_signal, "signal");
}

}  // namespace

extern "C" {

FREEWAY_EXPORT int sigaction(int number, const struct sigaction* change, struct sigaction* old) noexcept {
  auto* set = next<SetAction>(next_sigaction, "sigaction");
  if (set == nullptr) return none(-1);
  if (FREEWAY_LIKELY(!freeway::guard::is_watched(number))) return set(number, change, old);
  return freeway::guard::exchange_action(number, change, old, set);
}

// As BSD's, which is what the C libraries have under this name: the handler stays, and calls are restarted.
FREEWAY_EXPORT sighandler_t signal(int number, sighandler_t handler) noexcept {
  auto* set = next<SetHandler>(next_signal, "signal");
  if (set == nullptr) return none(SIG_ERR);
  if (FREEWAY_LIKELY(!freeway::guard::is_watched(number)) || handler == SIG_ERR) return set(number, handler);
  struct sigaction change = {}, old;
  change.sa_handler = handler;
  change.sa_flags = SA_RESTART;
  const u64 mask = u64{1} << (number - 1);
  memcpy(&change.sa_mask, &mask, sizeof(mask));
  return sigaction(number, &change, &old) == 0 ? old.sa_handler : SIG_ERR;
}
}
