// SPDX-License-Identifier: MIT
//
// profile.h: what a program asks of malloc, counted: the figures that papers print of their benchmarks (Streamflow
// 2006, Table 1), so that a program written anew can be compared with them.
//
// A program takes its blocks through one of two classes, as a template argument: Malloc, which is malloc and free, or
// Counted, chosen by --profile, which puts a header before each block that says who allocated it. What is counted is
// not timed: a run under --profile measures nothing.
#ifndef FREEWAY_BENCH_SUPPORT_PROFILE_H
#define FREEWAY_BENCH_SUPPORT_PROFILE_H

#include <sched.h>

#include <atomic>
#include <initializer_list>

#include "support/measure.h"

namespace bench {

// What malloc and free are in a measured run.
struct Malloc {
  static constexpr bool kCounts = false;
  // A block that any thread may free.
  static void* allocate(std::size_t size) { return must_malloc(size); }
  // A block that only the calling thread will free ("local memory" in HMalloc 2020): the same to malloc.
  static void* allocate_local(std::size_t size) { return must_malloc(size); }
  static void free(void* block) { std::free(block); }
};

namespace profile {

// From here up Streamflow's Table 1 counts an object as large.
inline constexpr std::size_t kLarge = 2048;
inline constexpr std::uint32_t kMaxThreads = 1u << 20;

struct Counts {
  std::uint64_t small = 0, small_bytes = 0, large = 0;
  std::uint64_t local = 0;  // of both: blocks that the program says only their own thread will free
  std::uint64_t frees = 0;
  std::uint64_t remote = 0;     // freed by another thread than the one that allocated the block
  std::uint64_t after_end = 0;  // of those: freed when the thread that allocated it had ended

  void add(const Counts& other) {
    small += other.small;
    small_bytes += other.small_bytes;
    large += other.large;
    local += other.local;
    frees += other.frees;
    remote += other.remote;
    after_end += other.after_end;
  }
};

inline std::atomic<bool> ended[kMaxThreads];  // by a thread's number; pages that nobody needs are never touched
inline std::atomic<std::uint32_t> threads_so_far{0};
inline std::atomic<std::uint32_t> threads_alive{0};
inline std::atomic_flag totals_lock;
inline Counts totals;

inline void add_to_totals(Counts& counts) {
  while (totals_lock.test_and_set(std::memory_order_acquire)) sched_yield();
  totals.add(counts);
  counts = {};
  totals_lock.clear(std::memory_order_release);
}

// The calling thread: its number and its counts, which it hands in when it ends.
class Self {
 public:
  Self() : number(threads_so_far.fetch_add(1)) {
    if (number >= kMaxThreads) {
      std::fprintf(stderr, "--profile: more than %u threads\n", kMaxThreads);
      std::exit(2);
    }
    threads_alive.fetch_add(1);
  }
  ~Self() {
    add_to_totals(counts);
    ended[number].store(true);
    threads_alive.fetch_sub(1);
  }
  const std::uint32_t number;
  Counts counts;
};

inline Self& self() {
  thread_local Self self;
  return self;
}

// All counts. Waits until every other thread that counted has ended: call it when they are about to.
inline Counts total() {
  add_to_totals(self().counts);
  while (threads_alive.load() > 1) sched_yield();
  return totals;
}

}  // namespace profile

struct Counted {
  static constexpr bool kCounts = true;

  static void* allocate(std::size_t size) { return counted(size, false); }
  static void* allocate_local(std::size_t size) { return counted(size, true); }

  static void free(void* block) {
    Header* header = static_cast<Header*>(block) - 1;
    profile::Self& self = profile::self();
    ++self.counts.frees;
    if (header->thread != self.number) {
      if (header->local) {
        std::fputs("--profile: a local block was freed by another thread\n", stderr);
        std::abort();
      }
      ++self.counts.remote;
      if (profile::ended[header->thread].load(std::memory_order_relaxed)) ++self.counts.after_end;
    }
    std::free(header);
  }

 private:
  struct alignas(16) Header {
    std::uint32_t thread;
    bool local;
  };

  static void* counted(std::size_t size, bool local) {
    auto* header = static_cast<Header*>(must_malloc(sizeof(Header) + size));
    profile::Self& self = profile::self();
    *header = {self.number, local};
    if (local) ++self.counts.local;
    if (size >= profile::kLarge) {
      ++self.counts.large;
    } else {
      ++self.counts.small;
      self.counts.small_bytes += size;
    }
    return header + 1;
  }
};

// `extras` and, under --profile, the profile. Shares are in per cent: local ones of all objects, others of all frees.
template <class Blocks> std::vector<Extra> profile_extras(std::vector<Extra> extras = {}) {
  if constexpr (!Blocks::kCounts) return extras;
  const profile::Counts all = profile::total();
  const auto number = [](std::uint64_t count) { return static_cast<double>(count); };
  const auto part = [&](double one, std::uint64_t of) { return of == 0 ? 0.0 : one / number(of); };
  const std::initializer_list<Extra> counted = {{"objects_small", number(all.small)},
                                                {"objects_large", number(all.large)},
                                                {"mean_size", part(number(all.small_bytes), all.small)},
                                                {"local_percent", part(100 * number(all.local), all.small + all.large)},
                                                {"frees", number(all.frees)},
                                                {"remote_percent", part(100 * number(all.remote), all.frees)},
                                                {"after_end_percent", part(100 * number(all.after_end), all.frees)}};
  extras.insert(extras.end(), counted);
  return extras;
}

inline bool flag_argument(int argc, char** argv, const char* name) {
  for (int i = 1; i < argc; ++i)
    if (argv[i][0] == '-' && argv[i][1] == '-' && std::strcmp(argv[i] + 2, name) == 0) return true;
  return false;
}

// Calls run(Malloc{}) or, under --profile, run(Counted{}).
template <class Run> void with_blocks(int argc, char** argv, Run run) {
  if (flag_argument(argc, argv, "profile")) run(Counted{});
  else run(Malloc{});
}

}  // namespace bench

#endif  // FREEWAY_BENCH_SUPPORT_PROFILE_H
