// SPDX-License-Identifier: MIT
//
// producer_consumer: pairs of threads, one allocates, the other frees. No block is ever freed by the thread (or, on two
// CPUs, the CPU) that made it, so everything must find its way back.
//
// The blocks travel in a ring of batches for each pair; the waiting is by yield, so on one CPU it works too.
// One operation is one malloc and one free. --pairs (1), --size (bytes, 64), --batch (blocks, 64), --ring (batches,
// 64), --blocks (of all pairs, 12000000), --shrink.
#include <sched.h>

#include <atomic>
#include <memory>

#include "support/measure.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  std::size_t size;
  long batch, ring, batches;  // batches: of each pair
};

// Single producer, single consumer: `filled` is written by the producer only, `emptied` by the consumer only.
class Pair {
 public:
  explicit Pair(const Plan& plan) : plan_(plan), blocks_(static_cast<std::size_t>(plan.batch * plan.ring)) {}

  void produce(std::uint64_t salt) {
    for (long turn = 0; turn < plan_.batches; ++turn) {
      while (turn - emptied_.load(std::memory_order_acquire) >= plan_.ring) sched_yield();
      void** place = place_of(turn);
      for (long i = 0; i < plan_.batch; ++i) {
        place[i] = bench::must_malloc(plan_.size);
        bench::stamp(place[i], salt + static_cast<std::uint64_t>(turn * plan_.batch + i));
      }
      filled_.store(turn + 1, std::memory_order_release);
    }
  }

  std::uint64_t consume() {
    std::uint64_t sum = 0;
    for (long turn = 0; turn < plan_.batches; ++turn) {
      while (filled_.load(std::memory_order_acquire) <= turn) sched_yield();
      void** place = place_of(turn);
      for (long i = 0; i < plan_.batch; ++i) {
        sum += bench::stamp_of(place[i]);
        std::free(place[i]);
      }
      emptied_.store(turn + 1, std::memory_order_release);
    }
    return sum;
  }

 private:
  void** place_of(long turn) { return &blocks_[static_cast<std::size_t>((turn % plan_.ring) * plan_.batch)]; }

  const Plan& plan_;
  bench::MappedArray<void*> blocks_;
  alignas(128) std::atomic<long> filled_{0};
  alignas(128) std::atomic<long> emptied_{0};
};

}  // namespace

int main(int argc, char** argv) {
  const long pair_count = bench::number_argument(argc, argv, "pairs", 1);
  Plan plan{};
  plan.size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 64));
  plan.batch = bench::number_argument(argc, argv, "batch", 64);
  plan.ring = bench::number_argument(argc, argv, "ring", 64);
  const long blocks = bench::number_argument(argc, argv, "blocks", 12'000'000);
  plan.batches = bench::scaled(argc, argv, blocks / plan.batch / pair_count);
  const auto count = static_cast<std::size_t>(pair_count);
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::size_t i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(plan));
  bench::MappedArray<bench::Padded<std::uint64_t>> sums(count);
  bench::ThreadTeam team(2 * count);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t thread) {
    Pair& pair = *pairs[thread / 2];
    if (thread % 2 == 0) pair.produce(thread << 40);
    else sums[thread / 2].value = pair.consume();
  });
  std::uint64_t checksum = 0;
  for (const auto& sum : sums) checksum += sum.value;
  const double ops = static_cast<double>(plan.batches * plan.batch) * static_cast<double>(pair_count);
  bench::report("producer_consumer", ops, watch, checksum);
}
