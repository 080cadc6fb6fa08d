// SPDX-License-Identifier: MIT
//
// SignalSender: a process of its own that sends signals to chosen threads at random moments. Coming from another
// process on another CPU the signals fall on any instruction, which a timer of the process itself does not promise.
//
// The sender is forked in start(), which must come before the threads; what it shares with them is one mapping of
// atomic words. It dies with the test (PR_SET_PDEATHSIG).
#ifndef FREEWAY_TESTS_SIGNAL_SUPPORT_SIGNAL_SENDER_H
#define FREEWAY_TESTS_SIGNAL_SUPPORT_SIGNAL_SENDER_H

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <initializer_list>

#include "tests/support/random.h"
#include "tests/whole/signal/support/case_runner.h"
#include "tests/whole/signal/support/failure.h"
#include "tests/whole/signal/support/shared_memory.h"

namespace freeway_test {

class SignalSender {
 public:
  static constexpr size_t kMostTargets = 64;

  // Sends bursts of up to all of `signals` to one thread, a few microseconds apart; the gap between bursts is drawn
  // anew each time between the two bounds, in microseconds.
  void start(uint64_t seed, std::initializer_list<int> signals, unsigned gap_low_us, unsigned gap_high_us) {
    shared_ = share<Shared>();
    const pid_t target = raw_getpid();
    sender_ = ::fork();
    require(sender_ >= 0, "no process for the sender");
    if (sender_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::prctl(PR_SET_TIMERSLACK, 1);
      send_for_ever(target, Random(seed), signals, gap_low_us, gap_high_us);
    }
  }
  // A thread enters with its tid and leaves with 0 before it ends. Without a sender nothing happens.
  void set_target(size_t slot, pid_t tid) {
    if (shared_ != nullptr) shared_->target[slot].store(tid, std::memory_order_release);
  }
  uint64_t sent() const { return shared_->sent.load(std::memory_order_relaxed); }
  void stop() {
    if (sender_ <= 0) return;
    ::kill(sender_, SIGKILL);
    int status;
    ::waitpid(sender_, &status, 0);
    sender_ = -1;
  }

 private:
  struct Shared {
    std::atomic<pid_t> target[kMostTargets] = {};
    std::atomic<uint64_t> sent{0};
  };

  static void wait_us(uint64_t us) {
    if (us >= 60) {
      const timespec pause{0, static_cast<long>(us) * 1000};
      ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
    } else {
      const double end = now_seconds() + static_cast<double>(us) * 1e-6;
      while (now_seconds() < end) {}
    }
  }

  [[noreturn]] void send_for_ever(pid_t process, Random random, std::initializer_list<int> signals, unsigned gap_low_us,
                                  unsigned gap_high_us) {
    for (;;) {
      wait_us(random.between(gap_low_us, gap_high_us));
      pid_t tid = 0;
      const size_t start = random.below(kMostTargets);
      for (size_t i = 0; i < kMostTargets && tid == 0; i++)
        tid = shared_->target[(start + i) % kMostTargets].load(std::memory_order_acquire);
      if (tid == 0) continue;
      for (const int signal : signals) {
        if (signals.size() > 1 && random.one_in(3)) continue;
        if (::syscall(SYS_tgkill, process, tid, signal) == 0) shared_->sent.fetch_add(1, std::memory_order_relaxed);
        if (signals.size() > 1) wait_us(random.below(20));
      }
    }
  }

  Shared* shared_ = nullptr;
  pid_t sender_ = -1;
};

}  // namespace freeway_test
#endif
