// SPDX-License-Identifier: MIT
#include "attend.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "report.h"

namespace freeway_command {
namespace {

volatile sig_atomic_t attended = 0;  // the child

// What the terminal sends (it is the kernel's), it sends to the program, too.
void pass_on(int signal, siginfo_t* info, void*) {
  if (attended > 0 && info->si_code <= 0) kill(attended, signal);
}

int gate[2] = {-1, -1};  // a pipe; the child waits for its end

// While it lives, this process leaves its signals to the program.
class SignalsOfTheProgram {
 public:
  SignalsOfTheProgram() {
    for (std::size_t i = 0; i < kCount; ++i) {
      sigaddset(&blocked_, kSignals[i]);
      struct sigaction action{};
      action.sa_flags = SA_RESTART;
      if (kSignals[i] == SIGINT || kSignals[i] == SIGQUIT) {
        action.sa_handler = SIG_IGN;
      } else {
        action.sa_sigaction = pass_on;
        action.sa_flags |= SA_SIGINFO;
      }
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
    }
    struct sigaction plain{};
    plain.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &plain, &child_before_);  // ignored, it would take the exit status away
    sigprocmask(SIG_BLOCK, &blocked_, &mask_);   // until there is a child to pass them on to
  }
  // In the child: as if this command had not been there.
  void restore() const {
    for (std::size_t i = 0; i < kCount; ++i) sigaction(kSignals[i], &before_[i], nullptr);
    sigaction(SIGCHLD, &child_before_, nullptr);
    unblock();
  }
  void unblock() const { sigprocmask(SIG_SETMASK, &mask_, nullptr); }

 private:
  static constexpr int kSignals[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM};
  static constexpr std::size_t kCount = sizeof(kSignals) / sizeof(kSignals[0]);
  struct sigaction before_[kCount] = {}, child_before_ = {};
  sigset_t blocked_ = {}, mask_ = {};
};

}  // namespace

int become(const std::string& path, char** argv) {
  execvp(path.c_str(), argv);
  return fail(errno == ENOENT ? kNotFound : kNotExecutable, "cannot execute " + path + ": " + std::strerror(errno));
}

Ended attend(const std::string& path, char** argv, const std::function<void(pid_t)>& meanwhile) {
  const SignalsOfTheProgram signals;
  Ended program;
  program.pid = fork();
  if (program.pid == 0) {
    signals.restore();
    close(gate[1]);
    char nothing = 0;
    while (gate[0] >= 0 && read(gate[0], &nothing, 1) < 0 && errno == EINTR) {}
    _exit(become(path, argv));
  }
  attended = program.pid;
  signals.unblock();
  if (program.pid > 0 && meanwhile) meanwhile(program.pid);
  while (program.pid > 0 && waitpid(program.pid, &program.status, 0) < 0 && errno == EINTR) {}
  attended = 0;
  return program;
}

void hold_next() {
  if (pipe2(gate, O_CLOEXEC) != 0) gate[0] = gate[1] = -1;
}
void let_begin() {
  for (int& end : gate)
    if (end >= 0) close(std::exchange(end, -1));
}

void pass_no_more() { attended = 0; }

bool has_ended(pid_t child) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) return true;
  // Of a child that this command traces (last_look.h) its stops are told, too.
  return info.si_pid == child &&
         (info.si_code == CLD_EXITED || info.si_code == CLD_KILLED || info.si_code == CLD_DUMPED);
}

int end_like(const Ended& program) {
  if (!WIFSIGNALED(program.status)) return WEXITSTATUS(program.status);
  const rlimit none{};
  setrlimit(RLIMIT_CORE, &none);  // the program left its own
  signal(WTERMSIG(program.status), SIG_DFL);
  raise(WTERMSIG(program.status));
  return 128 + WTERMSIG(program.status);
}

}  // namespace freeway_command
