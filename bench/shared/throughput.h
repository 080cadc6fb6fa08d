// SPDX-License-Identifier: MIT
//
// throughput.h: the work that processes do in a heap that they share.
//
//   PROGRAM --work pairs|mixed [--processes N] [--operations N] [--shrink N]
//
// pairs: a block of 64 bytes is allocated, written to, and freed. mixed: each process has 1024 blocks of 16 to 1024
// bytes, one in 256 up to 32 KiB; one of them, at random, is freed and another one allocated. An operation is one of
// each; `operations` is for all processes together. The memory is there before the clock runs: each process does a part
// of its work before. Prints operations a second (wall time from the common start until the last has ended) and CPU
// time an operation, as JSON.
//
// Heap: allocate(bytes) -> address or null, release(address); kOneProcess: it is one process's, and threads work
// instead.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <thread>
#include <vector>

#include "support/measure.h"

namespace bench {

struct Start {
  std::atomic<long> ready;
  std::atomic<bool> go;
  std::atomic<double> cpu_s;  // of all together
};

template <class Heap> class Throughput {
 public:
  Throughput(int argc, char** argv)
      : mixed_(std::string_view(text_argument(argc, argv, "work", "pairs")) == "mixed"),
        processes_(number_argument(argc, argv, "processes", 1)),
        each_(scaled(argc, argv, number_argument(argc, argv, "operations", 4000000)) / processes_),
        start_(*new(mapped(sizeof(Start))) Start{}) {}

  int run() {
    std::vector<std::thread> threads;
    std::vector<pid_t> children;
    for (long i = 0; i < processes_; ++i) {
      if constexpr (Heap::kOneProcess) {
        threads.emplace_back([this, i] { work(i); });
      } else {
        children.push_back(fork());
        if (children.back() < 0) return std::perror("fork"), 1;
        if (children.back() == 0) work(i), _exit(0);
      }
    }
    while (start_.ready < processes_) sched_yield();
    const double begin = seconds(CLOCK_MONOTONIC);
    start_.go = true;
    for (auto& thread : threads) thread.join();
    bool right = true;
    for (const pid_t child : children) {
      int status = 0;
      right = waitpid(child, &status, 0) == child && status == 0 && right;
    }
    const double took = seconds(CLOCK_MONOTONIC) - begin, operations = static_cast<double>(each_ * processes_);
    std::printf("{\"work\": \"%s\", \"processes\": %ld, \"operations_per_s\": %.0f, \"cpu_ns\": %.1f}\n",
                mixed_ ? "mixed" : "pairs", processes_, operations / took, start_.cpu_s / operations * 1e9);
    return right ? 0 : 1;
  }

 private:
  static constexpr long kBlocks = 1024;

  static void* mapped(std::size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::perror("mmap"), std::exit(1);
    return memory;
  }
  static double seconds(clockid_t clock) {
    timespec now;
    clock_gettime(clock, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
  }

  // The first bytes of a block say whose it is: nobody else may have written there.
  void* allocate(std::uint64_t stamp, std::size_t bytes) {
    void* block = heap_.allocate(bytes);
    if (block == nullptr) std::fputs("no memory\n", stderr), _exit(1);
    std::memcpy(block, &stamp, sizeof(stamp));
    return block;
  }
  void release(std::uint64_t stamp, void* block) {
    std::uint64_t found;
    std::memcpy(&found, block, sizeof(found));
    if (found != stamp) std::fputs("a block is somebody else's, too\n", stderr), _exit(1);
    heap_.release(block);
  }

  void work(long number) {
    const auto stamp = static_cast<std::uint64_t>(number) << 32;
    std::uint64_t state = stamp + 1;
    const auto random = [&state] {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      return state;
    };
    const auto size = [&random]() -> std::size_t {
      const std::uint64_t r = random();
      return (r & 0xff) == 0 ? 16 + (r >> 8) % 32752 : 16 + (r >> 8) % 1009;
    };
    std::vector<void*> blocks(kBlocks);
    if (mixed_)
      for (long i = 0; i < kBlocks; ++i) blocks[i] = allocate(stamp + i, size());
    const auto operate = [&](long count) {
      for (long n = 0; n < count; ++n) {
        if (mixed_) {
          const long i = static_cast<long>(random() >> 20) % kBlocks;
          release(stamp + i, blocks[i]);
          blocks[i] = allocate(stamp + i, size());
        } else {
          release(stamp, allocate(stamp, 64));
        }
      }
    };
    operate(each_ / 8);
    ++start_.ready;
    while (!start_.go) sched_yield();
    const double begin = seconds(CLOCK_THREAD_CPUTIME_ID);
    operate(each_);
    start_.cpu_s += seconds(CLOCK_THREAD_CPUTIME_ID) - begin;
    if (mixed_)
      for (long i = 0; i < kBlocks; ++i) release(stamp + i, blocks[i]);
  }

  bool mixed_;
  long processes_, each_;
  Start& start_;
  Heap heap_;
};

}  // namespace bench
