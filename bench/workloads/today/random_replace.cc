// SPDX-License-Identifier: MIT
//
// random_replace: T threads, each with its own slots; each step frees the block in a random slot and puts one of a
// random size there. The steady state of a long-running program.
//
// The steps are shared out over the threads, so with few slots (whose blocks fit into the CPU's cache, whoever runs) 256
// threads on 2 CPUs do what 2 threads do: the ratio of the two times is what oversubscription costs.
// The threads start together once all exist: else the first would be done before the last is made.
// One operation is one free and one malloc. --threads (1), --steps (of all threads, 40000000), --slots (each thread,
// 10000), --min, --max (bytes, 16 and 1024), --shrink.
#include <barrier>
#include <thread>

#include "support/measure.h"

namespace {

struct alignas(128) Lane {
  std::uint64_t checksum = 0;
};

void replace(Lane& lane, unsigned id, std::size_t slots, long steps, std::uint64_t min, std::uint64_t max) {
  bench::Random random(id + 1);
  bench::MappedArray<void*> blocks(slots);
  for (auto& block : blocks) bench::stamp(block = bench::must_malloc(random.between(min, max)), random.next());
  std::uint64_t checksum = 0;
  for (long i = 0; i < steps; ++i) {
    const std::uint64_t bits = random.next();
    void*& block = blocks[((bits & 0xffff'ffffu) * slots) >> 32];
    checksum += bench::stamp_of(block);
    std::free(block);
    block = bench::must_malloc(min + (((bits >> 32) * (max - min + 1)) >> 32));
    bench::stamp(block, bits);
  }
  for (void* block : blocks) {
    checksum += bench::stamp_of(block);
    std::free(block);
  }
  lane.checksum = checksum;
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 1);
  const long slots = bench::number_argument(argc, argv, "slots", 10'000);
  const long steps = bench::scaled(argc, argv, bench::number_argument(argc, argv, "steps", 40'000'000) / threads);
  const auto min = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 16));
  const auto max = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 1024));
  bench::MappedArray<Lane> lanes(static_cast<std::size_t>(threads));
  std::barrier ready(threads + 1);
  bench::Stopwatch watch;
  {
    std::vector<std::thread> workers;
    for (long t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        ready.arrive_and_wait();
        replace(lanes[static_cast<std::size_t>(t)], static_cast<unsigned>(t), static_cast<std::size_t>(slots), steps,
                min, max);
      });
    watch.start();
    ready.arrive_and_wait();
    for (auto& worker : workers) worker.join();
    watch.stop();
  }
  std::uint64_t checksum = 0;
  for (const Lane& lane : lanes) checksum += lane.checksum;
  bench::report("random_replace", static_cast<double>(steps) * static_cast<double>(threads), watch, checksum);
}
