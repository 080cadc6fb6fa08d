// SPDX-License-Identifier: MIT
//
// time_warp.h: a thread's way through an optimistic run, and how all threads agree on GVT.
//
// GVT by meeting: a thread that has executed enough, or has nothing left to do, asks for it; all stop executing and
// meet. Then nothing is on its way but what lies in inboxes. They empty them, which may send further anti-messages,
// until in one round nobody received anything: now the earliest pending event anywhere is GVT.
#ifndef FREEWAY_BENCH_SIMULATION_TIME_WARP_H
#define FREEWAY_BENCH_SIMULATION_TIME_WARP_H

#include <algorithm>
#include <atomic>
#include <thread>

#include "simulation/reduction_barrier.h"
#include "simulation/time_warp_executor.h"

namespace simulation {

template <class Model, class Faults = NoFaults> class alignas(128) TimeWarpThread {
 public:
  using Executor = TimeWarpExecutor<Model, Faults>;

  // What the threads of one run share.
  struct Meeting {
    explicit Meeting(std::uint32_t threads) : barrier(threads) {}
    ReductionBarrier barrier;
    std::atomic<bool> wanted = false;  // somebody asks for a new GVT
  };

  TimeWarpThread(World<Model>& world, std::uint32_t self, Meeting& meeting)
      : settings_(world.settings), self_(self), meeting_(meeting), executor_(world, self) {}

  // The whole run; all threads of the world must be in it at once.
  void run() {
    executor_.start();
    Time gvt = agree();
    std::uint64_t executed = 0;  // since GVT was agreed on
    int idle = 0;
    while (gvt < settings_.end) {
      const std::uint64_t received = executor_.receive();
      const std::uint64_t now = executor_.execute_before(bound(gvt), kBatch);
      executed += now;
      idle = received + now == 0 ? idle + 1 : 0;
      if (executed >= settings_.gvt_interval || idle >= kPatience)
        meeting_.wanted.store(true, std::memory_order_relaxed);
      else if (idle > 0) std::this_thread::yield();
      if (meeting_.wanted.load(std::memory_order_relaxed)) {
        gvt = agree();
        executor_.collect_before(std::min(gvt, settings_.end));
        executed = 0;
        idle = 0;
      }
    }
    executor_.finish();
  }

  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  std::uint64_t rounds() const { return rounds_; }

  // GVT. All threads of the world call it at once; afterwards nothing is on its way.
  Time agree() {
    meeting_.barrier.meet(self_);
    // Nobody can ask again before the last meeting of this round.
    if (self_ == 0) meeting_.wanted.store(false, std::memory_order_relaxed);
    while (true) {
      const std::uint64_t received = executor_.receive();
      const Share all = meeting_.barrier.meet(self_, {executor_.earliest(), received});
      if (all.count == 0) {
        ++rounds_;
        return all.earliest;
      }
    }
  }

 private:
  static constexpr std::uint64_t kBatch = 16;  // events between two looks at the inbox
  static constexpr int kPatience = 8;          // times that an idle thread lets others run before it asks for GVT

  Time bound(Time gvt) const { return gvt > kNever - settings_.window ? kNever : gvt + settings_.window; }

  const Settings& settings_;
  const std::uint32_t self_;
  Meeting& meeting_;
  Executor executor_;
  std::uint64_t rounds_ = 0;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_TIME_WARP_H
