// SPDX-License-Identifier: MIT
//
// thread_team.h: N threads that start together, and the time from that start until the last of them has finished.
//
// Threads are created before the clock starts and joined after it stops: neither belongs to what is measured. The work
// is fixed, or ends after --seconds (the form of papers that count what is done in a fixed time).
#ifndef FREEWAY_BENCH_SUPPORT_THREAD_TEAM_H
#define FREEWAY_BENCH_SUPPORT_THREAD_TEAM_H

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>
#include <utility>
#include <vector>

#include "support/measure.h"

namespace bench {

// A libc may leave out synchronisation until the first thread is created. Michael (2004, footnote 4) ends one thread
// before he measures, so that nobody does.
inline void start_and_end_idle_thread() {
  std::thread([] {}).join();
}

// --seconds: 0 without; parts of a second are allowed.
inline double seconds_argument(int argc, char** argv) {
  const char* text = text_argument(argc, argv, "seconds", "0");
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 0 && seconds < 1e6)) {
    std::fprintf(stderr, "--seconds wants a number of seconds, not '%s'\n", text);
    std::exit(2);
  }
  return seconds;
}

inline void sleep_seconds(double seconds) {
  timespec rest{static_cast<time_t>(seconds), 0};
  rest.tv_nsec = static_cast<long>((seconds - static_cast<double>(rest.tv_sec)) * 1e9);
  while (nanosleep(&rest, &rest) != 0) {}
}

// What one thread writes to, apart from the others': two lines, because processors fetch them in pairs.
template <class T> struct alignas(128) Padded {
  T value{};
};

// What a thread has done, where there is one thing to count; the program says what.
struct Done {
  long count = 0;
  std::uint64_t checksum = 0;
};

// What all threads have done together.
inline Done total_of(MappedArray<Padded<Done>>& threads) {
  Done all;
  for (const auto& one : threads) {
    all.count += one.value.count;
    all.checksum += one.value.checksum;
  }
  return all;
}

class ThreadTeam {
 public:
  // With seconds > 0 the threads are told to stop after so long (running() becomes false).
  explicit ThreadTeam(std::size_t threads, double seconds = 0)
      : threads_(threads), seconds_(seconds), finish_(threads), cpu_(threads) {}

  std::size_t size() const { return threads_; }
  bool timed() const { return seconds_ > 0; }
  bool running() const { return !stop_.load(std::memory_order_relaxed); }

  // turn(0), turn(1), …: `count` of them, or as many as fit into --seconds. Returns how many there were.
  template <class Turn> long repeat(long count, Turn turn) const {
    long done = 0;
    if (timed())
      for (; running(); ++done) turn(done);
    else
      for (; done < count; ++done) turn(done);
    return done;
  }

  // Runs body(t), t = 0 … size() - 1, each in a thread of its own; returns when all have finished. `watch` runs from
  // the moment when all are let go to the moment when the last one is done.
  template <class Body> void run(Stopwatch& watch, Body body) {
    std::latch ready(static_cast<std::ptrdiff_t>(threads_));
    std::latch done(static_cast<std::ptrdiff_t>(threads_));
    std::latch gate(1);
    stop_.store(false, std::memory_order_relaxed);
    double start = 0;
    std::vector<std::thread> members;
    members.reserve(threads_);
    for (std::size_t t = 0; t < threads_; ++t)
      members.emplace_back([&, t] {
        ready.count_down();
        gate.wait();
        body(t);
        finish_[t].value = clock_seconds(CLOCK_MONOTONIC) - start;
        cpu_[t].value = clock_seconds(CLOCK_THREAD_CPUTIME_ID);
        done.count_down();
      });
    ready.wait();
    start = clock_seconds(CLOCK_MONOTONIC);
    watch.start();
    gate.count_down();
    if (timed()) {
      sleep_seconds(seconds_);
      stop_.store(true, std::memory_order_relaxed);
    }
    done.wait();
    watch.stop();
    for (std::thread& member : members) member.join();
  }

  // When the first and the last thread were done, seconds after the start; what each used, in CPU seconds.
  double first_finish() const { return ends().first; }
  double last_finish() const { return ends().second; }
  double finish(std::size_t t) const { return finish_[t].value; }
  double cpu(std::size_t t) const { return cpu_[t].value; }

 private:
  std::pair<double, double> ends() const {
    double first = finish_[0].value, last = first;
    for (const auto& one : finish_) {
      first = std::min(first, one.value);
      last = std::max(last, one.value);
    }
    return {first, last};
  }

  const std::size_t threads_;
  const double seconds_;
  alignas(128) std::atomic<bool> stop_{false};
  alignas(128) std::vector<Padded<double>> finish_;
  std::vector<Padded<double>> cpu_;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_THREAD_TEAM_H
