// SPDX-License-Identifier: MIT
//
// one_cpu: runs a program with all its threads and children on one CPU, under a scheduler that is out to do harm: every
// few dozen to few hundred microseconds it stops threads wherever they are, keeps some of them stopped, often all but
// one, and lets others go on. (This is what the chaos mode of the debugger rr does; it needs counters that many virtual
// machines do not have.) The program is not changed in any way: it is held with ptrace from outside.
//
//     one_cpu program arguments...
//
// Ends as the program ends; 77 where ptrace is refused. FREEWAY_TEST_SEED repeats the choices, if not their moments.
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <utility>
#include <vector>

#include "tests/support/cpu_affinity.h"
#include "tests/support/proof.h"
#include "tests/support/random.h"

namespace {

using freeway::test::Random;

constexpr int kSkipped = 77;
constexpr long kOptions = PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;

struct Thread {
  bool stopped = false;    // by ptrace; else it runs, or waits in the kernel
  bool held = false;       // is to stay stopped
  bool asked = false;      // to stop
  bool listening = false;  // stopped by a signal such as SIGSTOP: it goes on when its program says so
  int signal = 0;          // to be delivered when it goes on
};

class Scheduler {
 public:
  Scheduler(pid_t program, std::uint64_t seed) : program_(program), random_(seed) { threads_[program] = {}; }

  // Runs until all threads and children are gone; the program's wait status.
  int run() {
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    while (!threads_.empty()) {
      choose();
      const timespec end = after(30'000 + static_cast<long>(random_.below(random_.chance(10) ? 2'000'000 : 300'000)));
      for (;;) {
        serve();
        timespec left;
        if (threads_.empty() || !until(end, &left)) break;
        sigtimedwait(&child, nullptr, &left);  // a thread has something to say, or time is up
      }
    }
    return status_;
  }
  std::uint64_t preemptions() const { return preemptions_; }
  std::size_t most_threads() const { return most_; }

 private:
  static timespec after(long ns) {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    now.tv_nsec += ns;
    now.tv_sec += now.tv_nsec / 1'000'000'000;
    now.tv_nsec %= 1'000'000'000;
    return now;
  }
  static bool until(const timespec& end, timespec* left) {
    const timespec now = after(0);
    const long long ns = (end.tv_sec - now.tv_sec) * 1'000'000'000LL + end.tv_nsec - now.tv_nsec;
    if (ns <= 0) return false;
    *left = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    return true;
  }

  // Who may run until the next choice: now and then everybody, else one, or each with even chances.
  void choose() {
    const std::uint64_t kind = random_.below(4);
    const std::size_t chosen = random_.below(threads_.size());
    std::size_t i = 0;
    for (auto& [tid, thread] : threads_) {
      thread.held = kind == 0 ? false : kind == 1 ? random_.chance(50) : i != chosen;
      ++i;
      if (thread.held && !thread.stopped && !thread.asked) thread.asked = ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0;
      else if (!thread.held && thread.stopped && !thread.listening) go_on(tid, thread);
    }
  }

  void go_on(pid_t tid, Thread& thread) {
    thread.stopped = false;
    ptrace(PTRACE_CONT, tid, 0, thread.signal);
    thread.signal = 0;
  }

  // Deals with everything that threads have to say now.
  void serve() {
    int status;
    while (const pid_t tid = waitpid(-1, &status, WNOHANG | __WALL)) {
      if (tid < 0) {
        if (errno == ECHILD) threads_.clear();
        return;
      }
      if (WIFEXITED(status) || WIFSIGNALED(status)) {
        if (tid == program_) status_ = status;
        threads_.erase(tid);
      } else if (WIFSTOPPED(status)) {
        stopped(tid, status);
      }
    }
  }

  void stopped(pid_t tid, int status) {
    Thread& thread = threads_[tid];  // a new one, if it is not there
    if (threads_.size() > most_) most_ = threads_.size();
    const int event = status >> 16, signal = WSTOPSIG(status);
    thread.stopped = true;
    thread.listening = false;
    if (event == PTRACE_EVENT_STOP) {
      const bool preempted = std::exchange(thread.asked, false);
      if (signal == SIGSTOP || signal == SIGTSTP || signal == SIGTTIN || signal == SIGTTOU) {
        thread.listening = true;
        ptrace(PTRACE_LISTEN, tid, 0, 0);
        return;
      }
      if (preempted) ++preemptions_;  // else it has just begun
    } else if (event == 0) {
      thread.signal = signal;  // on its way to a handler
    }
    if (!thread.held) go_on(tid, thread);
  }

  const pid_t program_;
  Random random_;
  std::map<pid_t, Thread> threads_;
  int status_ = 0;
  std::uint64_t preemptions_ = 0;
  std::size_t most_ = 0;
};

}  // namespace

int main(int, char** argv) {
  if (argv[1] == nullptr) {
    std::fputs("usage: one_cpu program arguments...\n", stderr);
    return 2;
  }
  const std::uint64_t seed = freeway::test::test_seed();
  sigset_t child_signal;
  sigemptyset(&child_signal);
  sigaddset(&child_signal, SIGCHLD);
  sigset_t before;
  sigprocmask(SIG_BLOCK, &child_signal, &before);

  int ready[2];
  if (pipe(ready) != 0) return 1;
  const std::vector<int> cpus = freeway_test::usable_cpus();
  const int cpu = cpus[Random(seed).below(cpus.size())];
  const pid_t program = fork();
  if (program == 0) {
    char go;
    close(ready[1]);
    if (!freeway_test::stay_on(cpu) || read(ready[0], &go, 1) != 1) _exit(kSkipped);
    close(ready[0]);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    execvp(argv[1], argv + 1);
    std::perror(argv[1]);
    _exit(127);
  }
  if (ptrace(PTRACE_SEIZE, program, 0, kOptions) != 0) {
    std::perror("one_cpu: ptrace");
    kill(program, SIGKILL);
    return kSkipped;
  }
  if (write(ready[1], "g", 1) != 1) return 1;
  close(ready[0]);
  close(ready[1]);

  Scheduler scheduler(program, seed);
  const int status = scheduler.run();
  std::printf("one_cpu: CPU %d, %llu preemptions, up to %zu threads\n", cpu,
              static_cast<unsigned long long>(scheduler.preemptions()), scheduler.most_threads());
  std::fflush(stdout);
  if (WIFSIGNALED(status)) {
    std::printf("one_cpu: the program ended by signal %d\n", WTERMSIG(status));
    return 128 + WTERMSIG(status);
  }
  if (WEXITSTATUS(status) == 0) {
    freeway::test::proof("machines", "one CPU, random preemption", "preemptions", scheduler.preemptions());
    freeway::test::proof("machines", "one CPU, random preemption", "programs", 1);
    if (scheduler.preemptions() < 20) {
      std::puts("one_cpu: that is too few to have shown anything");
      return 1;
    }
  }
  return WEXITSTATUS(status);
}
