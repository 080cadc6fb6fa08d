// SPDX-License-Identifier: MIT
//
// ReductionBarrier: all threads meet, and all learn the earliest of their times and the sum of their counts. Waiting
// threads sleep (std::barrier yields a few times and then waits on a futex), so there may be many more than CPUs.
#ifndef FREEWAY_BENCH_SIMULATION_REDUCTION_BARRIER_H
#define FREEWAY_BENCH_SIMULATION_REDUCTION_BARRIER_H

#include <algorithm>
#include <barrier>
#include <cstdint>

#include "simulation/event.h"
#include "support/measure.h"

namespace simulation {

// What a thread brings to a meeting, and what all take away.
struct Share {
  Time earliest = kNever;
  std::uint64_t count = 0;
};

class ReductionBarrier {
 public:
  explicit ReductionBarrier(std::uint32_t threads)
      : shares_(threads), barrier_(static_cast<std::ptrdiff_t>(threads), Reduce{this}) {}

  // Returns when every thread has called it. What a thread did before, all see after.
  Share meet(std::uint32_t thread, const Share& share = {}) {
    shares_[thread].share = share;
    barrier_.arrive_and_wait();
    return result_;  // stays until all threads have met again, so until this one has read it
  }

 private:
  struct Reduce {
    ReductionBarrier* all;
    void operator()() noexcept {
      all->result_ = {};
      for (const Slot& slot : all->shares_) {
        all->result_.earliest = std::min(all->result_.earliest, slot.share.earliest);
        all->result_.count += slot.share.count;
      }
    }
  };
  struct alignas(128) Slot {
    Share share;
  };

  bench::MappedArray<Slot> shares_;
  Share result_;
  std::barrier<Reduce> barrier_;
};

}  // namespace simulation

#endif  // FREEWAY_BENCH_SIMULATION_REDUCTION_BARRIER_H
