// SPDX-License-Identifier: MIT
//
// Runs the cases of a test program, each in a process of its own under the eyes of the first process, so that a hang
// is a failure with a report and not a stuck test run.
//
//   program                   all cases
//   program --only NAME       one case, supervised
//   program --case NAME       one case in this very process, not supervised: for a debugger
//   program --seconds N       how long each case goes on (cases that count things read it as a scale)
//   program --limit N         after so many seconds a case counts as hung
//   program --seed N          as does FREEWAY_TEST_SEED
//
// A case fails by a non-zero status or a fatal signal. A crashed case stops itself before it dies, so that its
// backtrace can be had.
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_CASE_RUNNER_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_CASE_RUNNER_H

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <string>

#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/hang_report.h"

namespace freeway_test {

struct Options {
  double seconds = 3;
  double limit = 0;
  uint64_t seed = 0;
};

struct Case {
  const char* name;
  void (*run)(const Options&);
};

inline double now_seconds() {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

// How long a case runs. Nothing is ever asserted about time.
class Deadline {
 public:
  explicit Deadline(double seconds) : end_(now_seconds() + seconds) {}
  bool passed() const { return now_seconds() >= end_; }
  double seconds_left() const { return end_ - now_seconds(); }

 private:
  double end_;
};

inline pid_t raw_getpid() { return static_cast<pid_t>(::syscall(SYS_getpid)); }
inline pid_t raw_gettid() { return static_cast<pid_t>(::syscall(SYS_gettid)); }

// The process whose crash the supervisor looks at; a forked child dies at once and its parent tells.
inline pid_t case_process = 0;

// Stops the supervised process and stays there, so that the supervisor can look; anywhere else dies of the signal.
inline void crash_handler(int signal, siginfo_t* info, void* context) {
  uint64_t ip = 0;
#if defined(__x86_64__)
  ip = static_cast<uint64_t>(static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#else
  (void)context;
#endif
  Line()
      .text("crash: process ")
      .number(static_cast<unsigned>(raw_getpid()))
      .text(", signal ")
      .number(static_cast<unsigned>(signal))
      .text(" at address ")
      .hex(reinterpret_cast<uintptr_t>(info->si_addr))
      .text(", instruction ")
      .hex(ip)
      .write_to(2);
  write_failure_context();
  if (raw_getpid() == case_process)
    for (;;) ::kill(case_process, SIGSTOP);
  ::signal(signal, SIG_DFL);
  ::raise(signal);
}

inline void install_crash_handler() {
  case_process = raw_getpid();
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE}) {
    struct sigaction action = {};
    action.sa_sigaction = crash_handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigaction(signal, &action, nullptr);
  }
}

// Waits for a child of the caller's; its wait status, or -1.
inline int wait_for(pid_t child) {
  int status = 0;
  pid_t got;
  do got = ::waitpid(child, &status, 0);
  while (got < 0 && errno == EINTR);
  return got == child ? status : -1;
}

// Fails the test unless `child`, as fork returned it, ends with exit status 0.
inline void require_child_success(pid_t child, const char* what) {
  require(child > 0, "no child process", static_cast<unsigned>(errno));
  const int status = wait_for(child);
  require(status == 0, what, static_cast<unsigned>(child), static_cast<unsigned>(status));
}

enum class Verdict { kPassed, kSkipped, kFailed };

inline Verdict supervise(const Case& test, const Options& options) {
  const std::string name = std::string("--case=") + test.name;
  const std::string seconds = "--seconds=" + std::to_string(options.seconds);
  const std::string seed = "--seed=" + std::to_string(options.seed);
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execl("/proc/self/exe", test.name, name.c_str(), seconds.c_str(), seed.c_str(), "--supervised",
            static_cast<char*>(nullptr));
    ::_exit(126);
  }
  if (child < 0) {
    std::perror("fork");
    return Verdict::kFailed;
  }
  ::setpgid(child, child);

  const double start = now_seconds();
  int status = 0;
  const char* trouble = nullptr;
  for (;;) {
    const pid_t got = ::waitpid(child, &status, WUNTRACED | WNOHANG);
    if (got == child && !WIFSTOPPED(status)) break;
    if (got == child) trouble = "crashed";
    if (now_seconds() - start > options.limit) trouble = "hang: no end within the time limit";
    if (trouble != nullptr) {
      std::fprintf(stderr, "%s: %s\n", test.name, trouble);
      report_process_group(child);
      ::kill(-child, SIGKILL);
      ::waitpid(child, &status, 0);
      break;
    }
    const timespec pause{0, 10'000'000};
    ::nanosleep(&pause, nullptr);
  }
  ::kill(-child, SIGKILL);  // senders, tracers and grandchildren that it left behind

  const double took = now_seconds() - start;
  Verdict verdict = Verdict::kFailed;
  if (trouble == nullptr && WIFEXITED(status)) {
    if (WEXITSTATUS(status) == 0) verdict = Verdict::kPassed;
    if (WEXITSTATUS(status) == kSkipStatus) verdict = Verdict::kSkipped;
  }
  if (verdict == Verdict::kFailed && trouble == nullptr)
    std::fprintf(stderr, "%s: %s %d\n", test.name, WIFEXITED(status) ? "exit status" : "killed by signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
  std::printf("[%s] %s (%.1f s)\n",
              verdict == Verdict::kPassed    ? "  ok  "
              : verdict == Verdict::kSkipped ? " skip "
                                             : "FAILED",
              test.name, took);
  std::fflush(stdout);
  return verdict;
}

// The value of `--name=value` or `--name value`, or null if argument i is another option.
inline const char* option_value(int argc, char** argv, int& i, const char* name) {
  const size_t length = std::strlen(name);
  if (std::strncmp(argv[i], name, length) != 0) return nullptr;
  if (argv[i][length] == '=') return argv[i] + length + 1;
  return argv[i][length] == '\0' && i + 1 < argc ? argv[++i] : nullptr;
}

inline int run_cases(int argc, char** argv, std::initializer_list<Case> cases) {
  Options options;
  const char* only = nullptr;
  const char* direct = nullptr;
  bool supervised = false;
  if (const char* seed = std::getenv("FREEWAY_TEST_SEED")) options.seed = std::strtoull(seed, nullptr, 0);
  for (int i = 1; i < argc; i++) {
    if (const char* v = option_value(argc, argv, i, "--seconds")) options.seconds = std::atof(v);
    else if (const char* l = option_value(argc, argv, i, "--limit")) options.limit = std::atof(l);
    else if (const char* s = option_value(argc, argv, i, "--seed")) options.seed = std::strtoull(s, nullptr, 0);
    else if (const char* o = option_value(argc, argv, i, "--only")) only = o;
    else if (const char* c = option_value(argc, argv, i, "--case")) direct = c;
    else if (std::strcmp(argv[i], "--supervised") == 0) supervised = true;
    else {
      std::fprintf(stderr, "unknown option %s; see signal/support/case_runner.h\n", argv[i]);
      return 2;
    }
  }
  if (options.seed == 0) options.seed = static_cast<uint64_t>(now_seconds() * 1e6) | 1;
  if (options.limit == 0) options.limit = 240 + 10 * options.seconds;

  if (direct != nullptr) {
    for (const Case& test : cases)
      if (std::strcmp(test.name, direct) == 0) {
        if (supervised) install_crash_handler();
        test.run(options);
        return 0;
      }
    std::fprintf(stderr, "no case called %s\n", direct);
    return 2;
  }

  const char* mode = std::getenv("FREEWAY_RSEQ");
  std::printf("seed %llu  FREEWAY_RSEQ=%s\n", static_cast<unsigned long long>(options.seed), mode ? mode : "(not set)");
  int passed = 0, failed = 0;
  for (const Case& test : cases) {
    if (only != nullptr && std::strcmp(test.name, only) != 0) continue;
    const Verdict verdict = supervise(test, options);
    passed += verdict == Verdict::kPassed;
    failed += verdict == Verdict::kFailed;
  }
  return failed > 0 ? 1 : passed > 0 ? 0 : kSkipStatus;
}

}  // namespace freeway_test
#endif
