// SPDX-License-Identifier: MIT
//
// disturbances.h: what happens to an allocator in a process that lives: each a thread that goes on until it is told to
// end, and counts how often it did its part.
#ifndef FREEWAY_BENCH_SINGLE_CALLS_DISTURBANCES_H
#define FREEWAY_BENCH_SINGLE_CALLS_DISTURBANCES_H

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "support/measure.h"
#include "support/memory_use.h"
#include "support/thread_team.h"

namespace bench {

class Disturbances {
 public:
  // `names`: trim, fork, hold and die, with commas; `trim_bytes`: what the first has freed each time.
  Disturbances(const char* names, std::size_t trim_bytes) : trim_bytes_(trim_bytes) {
    if (has(names, "trim")) threads_.emplace_back([this] { until_ended([this] { trim(); }, trims_); });
    if (has(names, "fork")) threads_.emplace_back([this] { until_ended([] { fork_once(); }, forks_); });
    if (has(names, "hold")) threads_.emplace_back([this] { hold(); });
    if (has(names, "die")) threads_.emplace_back([this] { until_ended([] { live_and_die(); }, deaths_); });
  }
  void end() {
    ended_ = true;
    for (std::thread& each : threads_) each.join();
    threads_.clear();
  }
  long trims() const { return trims_; }
  long forks() const { return forks_; }
  long holds() const { return holds_; }
  long deaths() const { return deaths_; }

 private:
  static bool has(const char* names, const char* name) {
    const std::size_t length = std::strlen(name);
    for (const char* at = names; (at = std::strstr(at, name)) != nullptr; at += length)
      if ((at == names || at[-1] == ',') && (at[length] == ',' || at[length] == 0)) return true;
    return false;
  }
  template <class F> void until_ended(F f, std::atomic<long>& count) {
    do {
      f();
      ++count;
      sleep_seconds(0.002);
    } while (!ended_);
  }

  // Blocks of all small sizes, touched and freed, and then given back.
  void trim() {
    constexpr std::size_t kLeast = 64, kMost = 32'000;
    std::vector<void*> blocks;
    blocks.reserve(trim_bytes_ / (kMost / 2) + 1);
    Random random(5);
    for (std::size_t had = 0; had < trim_bytes_ && !ended_;) {
      const std::size_t size = random.between(kLeast, kMost);
      blocks.push_back(must_malloc(size));
      std::memset(blocks.back(), 1, size);
      had += size;
    }
    for (void* block : blocks) std::free(block);
    trim_all();
  }

  static void fork_once() {
    const pid_t child = fork();
    if (child < 0) die("fork");
    if (child == 0) {
      for (int i = 0; i < 100; ++i) {
        void* block = must_malloc(100 + static_cast<std::size_t>(i) * 20);
        escape(block);
        std::free(block);
      }
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }

  static void live_and_die() {
    std::thread([] {
      void* blocks[200];
      for (std::size_t i = 0; i < 200; ++i) escape(blocks[i] = must_malloc(16 + i * 8));
      for (void* block : blocks) std::free(block);
    }).join();
  }

  // A thread that allocates all the time is stopped wherever it is, for 5 ms: a handler waits.
  void hold() {
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) {
      const int saved = errno;
      sleep_seconds(0.005);
      errno = saved;
    };
    sigaction(SIGUSR1, &action, &before);
    std::thread held([this] {
      Random random(7);
      void* blocks[64] = {};
      while (!ended_) {
        void*& block = blocks[random.below(64)];
        std::free(block);
        escape(block = must_malloc(random.between(16, 4000)));
      }
      for (void* block : blocks) std::free(block);
    });
    while (!ended_) {
      sleep_seconds(0.007);
      pthread_kill(held.native_handle(), SIGUSR1);
      ++holds_;
    }
    held.join();
    sigaction(SIGUSR1, &before, nullptr);
  }

  const std::size_t trim_bytes_;
  std::atomic<bool> ended_{false};
  std::atomic<long> trims_{0}, forks_{0}, holds_{0}, deaths_{0};
  std::vector<std::thread> threads_;
};

}  // namespace bench

#endif  // FREEWAY_BENCH_SINGLE_CALLS_DISTURBANCES_H
