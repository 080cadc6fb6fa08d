// SPDX-License-Identifier: MIT
#include "last_look.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <utility>

#include "attend.h"
#include "process.h"

namespace freeway_command {
namespace {

// What a person or a supervisor ends programs with.
constexpr int kEnding[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
// Wakes the watcher; it does nothing else.
constexpr int kWake = SIGCONT;

bool has_bit(pid_t process, const char* set, int signal) {
  const std::string mask = thread_status(process, process, set);
  return (std::strtoull(mask.c_str(), nullptr, 16) >> (signal - 1) & 1) != 0;
}

bool would_end(pid_t process, int signal) {
  for (const int each : kEnding)
    if (signal == each) return !has_bit(process, "SigCgt", signal) && !has_bit(process, "SigIgn", signal);
  return false;
}

void* number(int value) { return reinterpret_cast<void*>(static_cast<std::intptr_t>(value)); }

}  // namespace

LastLook::LastLook(pid_t child, std::function<void(int)> look) : child_(child), look_(std::move(look)) {
  struct sigaction action{};
  action.sa_handler = [](int) {};  // without SA_RESTART: waiting ends
  sigaction(kWake, &action, nullptr);
  watcher_ = std::thread([this] {
    watch();
    left_ = true;
  });
}

LastLook::~LastLook() {
  if (watcher_.joinable()) watcher_.join();
}

// Whom a thread traces, the kernel lets go when it ends.
void LastLook::let_go() {
  leave_ = true;
  while (!left_) {  // it may have been about to wait
    pthread_kill(watcher_.native_handle(), kWake);
    usleep(1000);
  }
  if (watcher_.joinable()) watcher_.join();
}

// The child is stopped. Whether to go on watching it.
bool LastLook::take_stop(int status) {
  const int signal = status & 0xff, event = status >> 8;
  if (event == PTRACE_EVENT_STOP) {  // with a stopping signal all of it is stopped, and stays so
    const bool stopped = signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU;
    ptrace(stopped ? PTRACE_LISTEN : PTRACE_CONT, child_, nullptr, nullptr);
    return true;
  }
  if (would_end(child_, signal)) {
    pass_no_more();  // it has this one, and another one could end it in the middle
    look_(signal);
    ptrace(PTRACE_DETACH, child_, nullptr, number(signal));  // unless `look` did
    return false;
  }
  ptrace(PTRACE_CONT, child_, nullptr, number(signal));
  return true;
}

void LastLook::watch() {
  const bool seized = ptrace(PTRACE_SEIZE, child_, nullptr, nullptr) == 0;
  let_begin();
  if (!seized) return;
  const auto child = static_cast<id_t>(child_);
  while (!leave_) {
    siginfo_t info{};
    if (waitid(P_PID, child, &info, WSTOPPED | WEXITED | WNOWAIT | __WALL) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    // Its end is for the thread that waits for it.
    if (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED) return;
    if (waitid(P_PID, child, &info, WSTOPPED | WNOHANG | __WALL) != 0 || info.si_pid != child_) continue;
    if (!take_stop(info.si_status)) return;
  }
}

}  // namespace freeway_command
