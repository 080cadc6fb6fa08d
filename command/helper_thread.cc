// SPDX-License-Identifier: MIT
#include "helper_thread.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>

#include "background/bare_thread.h"
#include "process.h"

namespace freeway_command {
namespace {

constexpr std::uint64_t kItsSignal = std::uint64_t{1} << (freeway::bare_thread::kSignal - 1);
// All signals are blocked in it but those that cannot be, and, while it waits for it, its own.
constexpr std::uint64_t kBlocked = ~(std::uint64_t{1} << (SIGKILL - 1) | std::uint64_t{1} << (SIGSTOP - 1));

std::uint64_t signals(pid_t process, pid_t thread, const char* field) {
  return std::strtoull(thread_status(process, thread, field).c_str(), nullptr, 16);
}

}  // namespace

// A thread of that name that could not take the signal would end its process: so its mask is looked at, too, and that
// it is confined.
pid_t helper_of(pid_t process) {
  for (const pid_t thread : threads_of(process))
    if (thread != process && thread_status(process, thread, "Name") == "freeway" &&
        thread_status(process, thread, "Seccomp") == "2" &&
        (signals(process, thread, "SigBlk") | kItsSignal) == kBlocked)
      return thread;
  return 0;
}

int order_trim(pid_t process, pid_t helper, std::size_t keep) {
  siginfo_t info{};
  info.si_signo = freeway::bare_thread::kSignal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_ptr = reinterpret_cast<void*>(keep * 2 + 1);
  return syscall(SYS_rt_tgsigqueueinfo, process, helper, info.si_signo, &info) == 0 ? 0 : errno;
}

bool is_done(pid_t process, pid_t helper) {
  return (signals(process, helper, "SigPnd") & kItsSignal) == 0 &&
         (signals(process, helper, "SigBlk") & kItsSignal) == 0;
}

bool has_order(pid_t process, pid_t helper) { return (signals(process, helper, "SigPnd") & kItsSignal) != 0; }

}  // namespace freeway_command
