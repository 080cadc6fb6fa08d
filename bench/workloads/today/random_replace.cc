// SPDX-License-Identifier: MIT
//
// random_replace: T threads, each with its own slots; each step frees the block in a random slot and puts one of a
// random size there. The steady state of a long-running program. Sizes are uniform, or as real programs ask for them
// (measured_sizes.h).
//
// The steps are shared out over the threads, so with few slots (whose blocks fit into the CPU's cache, whoever runs)
// 256 threads on 2 CPUs do what 2 threads do: the ratio of the two times is what oversubscription costs.
// The threads start together once all exist: else the first would be done before the last is made.
// One operation is one free and one malloc. --threads (1), --steps (of all threads, 40000000), --slots (each thread,
// 10000), --min, --max (bytes, 16 and 1024), --sizes uniform|python3|g++|redis|git|sqlite (uniform: from min to max),
// --shrink.
#include <barrier>
#include <thread>

#include "support/measure.h"
#include "today/measured_sizes.h"

namespace {

struct alignas(128) Lane {
  std::uint64_t checksum = 0;
};

// A block holds its stamp, so it has at least 8 bytes.
constexpr std::size_t kLeast = 8;

class UniformSizes {
 public:
  UniformSizes(std::uint64_t min, std::uint64_t max) : min_(min), max_(max) {}
  // From the high half of `bits`: the low one chose the slot.
  std::size_t next(std::uint64_t bits, bench::Random&) const {
    return min_ + (((bits >> 32) * (max_ - min_ + 1)) >> 32);
  }

 private:
  std::uint64_t min_, max_;
};

class MeasuredSizes {
 public:
  explicit MeasuredSizes(std::span<const bench::SizeRow> rows) : sampler_(rows) {}
  std::size_t next(std::uint64_t, bench::Random& random) const {
    const std::size_t size = sampler_.draw(random.next());
    return size < kLeast ? kLeast : size;
  }

 private:
  bench::SizeSampler sampler_;
};

template <class Sizes> void replace(Lane& lane, unsigned id, std::size_t slots, long steps, const Sizes& sizes) {
  bench::Random random(id + 1);
  bench::MappedArray<void*> blocks(slots);
  for (auto& block : blocks) {
    const std::uint64_t bits = random.next();
    block = bench::must_malloc(sizes.next(bits, random));
    bench::stamp(block, bits);
  }
  std::uint64_t checksum = 0;
  for (long i = 0; i < steps; ++i) {
    const std::uint64_t bits = random.next();
    void*& block = blocks[((bits & 0xffff'ffffu) * slots) >> 32];
    checksum += bench::stamp_of(block);
    std::free(block);
    block = bench::must_malloc(sizes.next(bits, random));
    bench::stamp(block, bits);
  }
  for (void* block : blocks) {
    checksum += bench::stamp_of(block);
    std::free(block);
  }
  lane.checksum = checksum;
}

template <class Sizes> void run(std::size_t threads, std::size_t slots, long steps, const Sizes& sizes) {
  bench::MappedArray<Lane> lanes(threads);
  std::barrier ready(static_cast<std::ptrdiff_t>(threads) + 1);
  bench::Stopwatch watch;
  {
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < threads; ++t)
      workers.emplace_back([&, t] {
        ready.arrive_and_wait();
        replace(lanes[t], static_cast<unsigned>(t), slots, steps, sizes);
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

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 1));
  const auto slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 10'000));
  const long all_steps = bench::number_argument(argc, argv, "steps", 40'000'000);
  const long steps = bench::scaled(argc, argv, all_steps / static_cast<long>(threads));
  const auto min = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 16));
  const auto max = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 1024));
  const char* sizes = bench::text_argument(argc, argv, "sizes", "uniform");
  if (std::strcmp(sizes, "uniform") == 0) {
    run(threads, slots, steps, UniformSizes(min, max));
    return 0;
  }
  for (const bench::NamedSizes& measured : bench::kMeasuredSizes)
    if (std::strcmp(sizes, measured.name) == 0) {
      run(threads, slots, steps, MeasuredSizes(measured.rows));
      return 0;
    }
  std::fprintf(stderr, "--sizes: uniform, python3, g++, redis, git or sqlite\n");
  return 2;
}
