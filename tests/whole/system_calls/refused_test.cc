// SPDX-License-Identifier: MIT
//
// Every system call of the allocator fails in turn. refused_program.cc, whose path is in FREEWAY_REFUSED_PROGRAM, is
// started again and again, each time with another plan: the first, the second … call of each kind fails, or all from it
// on, or all of any kind from the n-th on; with ENOMEM, EAGAIN, and what kernels say that lack the call; all mappings
// above a length; everything that would be writable memory beyond a budget. Each time the program must get what it asks
// for or be told that it cannot have it, and once memory is back find everything as it should be.
//
//   program [--programs n] [--seed n]    about so many of the plans are tried, chosen at random; else all of them
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>
#include <initializer_list>
#include <string>
#include <vector>

#include "tests/support/proof.h"
#include "tests/support/random.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/system_calls/names.h"
#include "tests/whole/system_calls/plan.h"

namespace {
using namespace freeway_test;

struct Outcome {
  int status = -1;
  Report report = {};
  std::string said;  // on fd 2
};

struct Trial {
  Plan plan;
  const char* environment = nullptr;  // NAME=value
  bool short_tour = false;            // start-up, a few calls, exit
};

std::vector<std::string> arguments_of(const Trial& trial) {
  std::vector<std::string> arguments = {trial.short_tour ? "--short" : "--whole"};
  each_field(trial.plan, [&](const char* name, auto value) { arguments.push_back(name + std::to_string(value)); });
  return arguments;
}

std::string command_of(const Trial& trial) {
  std::string command = trial.environment != nullptr ? trial.environment + std::string(" ") : "";
  command += std::string("FREEWAY_ON_ERROR=report ") + std::getenv("FREEWAY_REFUSED_PROGRAM");
  for (const std::string& argument : arguments_of(trial)) command += " " + argument;
  return command;
}

int shared_fd(size_t bytes) {
  const int fd = ::memfd_create("report", MFD_CLOEXEC);
  require(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes)) == 0, "memfd_create");
  return fd;
}

Outcome run(const Trial& trial) {
  const char* const program = std::getenv("FREEWAY_REFUSED_PROGRAM");
  require(program != nullptr, "FREEWAY_REFUSED_PROGRAM is not set");
  std::vector<std::string> arguments = arguments_of(trial);
  std::vector<char*> argv = {const_cast<char*>(program)};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  Outcome outcome;
  do {
    const int report = shared_fd(sizeof(Report)), text = shared_fd(0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::dup2(report, kReportFd);
      ::dup2(text, 2);
      ::setenv("FREEWAY_ON_ERROR", "report", 1);
      if (trial.environment != nullptr) ::putenv(const_cast<char*>(trial.environment));
      ::execv(program, argv.data());
      ::_exit(126);
    }
    require(child > 0 && ::waitpid(child, &outcome.status, 0) == child, "fork");
    require(::pread(report, &outcome.report, sizeof(Report), 0) == sizeof(Report), "report");
    char said[4096];
    const ssize_t n = ::pread(text, said, sizeof said, 0);
    outcome.said.assign(said, n > 0 ? static_cast<size_t>(n) : 0);
    ::close(report);
    ::close(text);
  } while (WIFEXITED(outcome.status) && WEXITSTATUS(outcome.status) == kRunAgain);
  return outcome;
}

class Sweep {
 public:
  // `programs`: about how many; 0 = all plans.
  Sweep(uint64_t programs, uint64_t seed) : wanted_(programs), random_(seed) {}

  void run_all() {
    survey();
    if (wanted_ != 0) {
      counting_only_ = true;
      all_plans();
      share_ = static_cast<double>(wanted_) / plans_;
      counting_only_ = false;
    }
    all_plans();
  }

  int finish() {
    for (size_t number = 0; number < kMostNumbers; number++)
      if (refused_[number] != 0)
        freeway::test::proof("system calls", name_of(number), "calls refused", refused_[number]);
    freeway::test::proof("system calls", "all", "programs", programs_);
    freeway::test::proof("system calls", "all", "answers that there is no memory", failures_);
    require(programs_ > 5 && failures_ > 0, "hardly anything was tried", programs_);
    std::printf("%llu of %llu programs failed\n", static_cast<unsigned long long>(failed_),
                static_cast<unsigned long long>(programs_));
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void all_plans() {
    each_call_in_turn();
    all_from_each_call_on();
    calls_that_do_not_exist();
    little_address_space();
    little_memory();
    at_exit();
  }

  // What the program does while nothing fails.
  void survey() {
    const Outcome whole = run({});
    if (WIFEXITED(whole.status) && WEXITSTATUS(whole.status) == kSkipStatus) skip("no seccomp filters here");
    judge({}, whole);
    survey_ = whole.report;
    require(survey_.failures == 0 && survey_.made[kBeyond] == 0, "a call failed though none was refused",
            survey_.failures);
    for (size_t number = 0; number < kMostNumbers; number++)
      if (survey_.made[number] != 0) std::printf("  %4u %s\n", survey_.made[number], name_of(number));
  }

  void each_call_in_turn() {
    for (size_t number = 0; number < kMostNumbers; number++) {
      // Lines of figures are all alike.
      const uint64_t most = is_write(number) ? std::min(survey_.made[number], 2u) : survey_.made[number];
      for (uint64_t k = 1; k <= most; k++)
        for (const int error : {ENOMEM, EAGAIN})
          for (const uint64_t last : {k, kForever})
            attempt({.plan = {.number = static_cast<int64_t>(number), .first = k, .last = last, .error = error}},
                    k == 1 && last == kForever ? 6 : 1);
    }
  }
  void all_from_each_call_on() {
    for (uint64_t n = 1; n <= survey_.calls_of_tour; n++)
      for (const int error : {ENOMEM, EAGAIN})
        attempt({.plan = {.first = n, .last = kForever, .error = error}}, n == 1 ? kAlways : 1);
  }
  // What kernels answer that are old, or built without, and sandboxes.
  void calls_that_do_not_exist() {
    for (size_t number = 0; number < kMostNumbers; number++)
      if (survey_.made[number] != 0 && may_be_absent(number))
        for (const int error : {ENOSYS, EINVAL, EPERM})
          attempt({.plan = {.number = static_cast<int64_t>(number), .first = 1, .last = kForever, .error = error}});
  }
  void little_address_space() {
    for (uint64_t longest = 64 << 10; longest <= uint64_t{32} << 30; longest *= 2)
      attempt({.plan = {.longest_map = longest}});
    // And one thing more fails: now with further arenas instead of the one big one.
    for (uint64_t n = 10; n <= survey_.calls_of_tour; n++)
      attempt({.plan = {.first = n, .last = n, .longest_map = 4 << 20}});
  }
  void little_memory() {
    for (uint64_t budget = 64 << 10; budget <= 1 << 30; budget += budget / 4) attempt({.plan = {.budget = budget}});
  }
  void at_exit() {
    constexpr const char* kEnvironments[] = {"FREEWAY_STATS=1", "FREEWAY_STATS=json:/dev/null"};
    for (const char* environment : kEnvironments)
      for (const int64_t number : {SYS_write, SYS_openat, SYS_close, SYS_fstat, SYS_fcntl, SYS_mmap, SYS_mprotect})
        for (uint64_t k = 1; k <= 3; k++)
          for (const uint64_t last : {k, kForever})
            attempt({{.number = number, .first = k, .last = last, .error = EAGAIN}, environment, true});
  }

  static constexpr double kAlways = 0;

  // `weight`: how much likelier than others the plan is to be tried.
  void attempt(const Trial& trial, double weight = 1) {
    if (counting_only_) plans_ += weight;
    else if (weight == kAlways || static_cast<double>(random_.below(1 << 20)) < weight * share_ * (1 << 20))
      judge(trial, run(trial));
  }

  void judge(const Trial& trial, const Outcome& outcome) {
    programs_++;
    failures_ += outcome.report.failures;
    for (size_t number = 0; number < kMostNumbers; number++) refused_[number] += outcome.report.refused[number];
    const char* trouble = nullptr;
    if (outcome.status != 0) trouble = "did not end well";
    // What the C and C++ libraries keep for themselves is all that is live in the end.
    else if (survey_.calls != 0 && outcome.report.live_blocks > survey_.live_blocks)
      trouble = "blocks are live in the end";
    // A further arena is 1 GiB. Where the call that was refused left no window (src/os/window.h), the first one is 64
    // GiB, and the reservation for metadata 8 GiB; and where what lies badly cannot be unmapped, half as much is tried
    // beside it.
    else if (survey_.calls != 0 &&
             outcome.report.address_space > survey_.address_space + (uint64_t{2 * (64 + 8)} << 30))
      trouble = "address space was lost";
    if (trouble == nullptr) return;
    failed_++;
    if (failed_ > 30) return;
    std::printf("FAILED: %s (status %x)\n  %s\n%s\n", trouble, static_cast<unsigned>(outcome.status),
                command_of(trial).c_str(), outcome.said.c_str());
    std::fflush(stdout);
  }

  uint64_t wanted_;
  double share_ = 1, plans_ = 0;
  bool counting_only_ = false;
  Random random_;
  Report survey_ = {};
  uint64_t refused_[kMostNumbers] = {};
  uint64_t programs_ = 0, failed_ = 0, failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  uint64_t programs = 0, seed = static_cast<uint64_t>(::time(nullptr));
  if (const char* given = std::getenv("FREEWAY_TEST_SEED")) seed = std::strtoull(given, nullptr, 0);
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--programs") == 0) programs = std::strtoull(argv[i + 1], nullptr, 0);
    if (std::strcmp(argv[i], "--seed") == 0) seed = std::strtoull(argv[i + 1], nullptr, 0);
  }
  const char* mode = std::getenv("FREEWAY_RSEQ");
  std::printf("seed %llu  FREEWAY_RSEQ=%s\n", static_cast<unsigned long long>(seed), mode ? mode : "(not set)");
  Sweep sweep(programs, seed);
  sweep.run_all();
  return sweep.finish();
}
