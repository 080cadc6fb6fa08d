// SPDX-License-Identifier: MIT
//
// phases: T threads that each allocate thousands of small blocks and then free them all, phase after phase, as a
// compiler does for each function or a server for each request. Magazines that hold a hundred blocks overflow all the
// time here.
//
// One operation is one malloc and one free. --threads (2), --blocks (a phase, 3000), --phases (of all threads, 20000),
// --min, --max (bytes, 16 and 256), --order alternate|in|reversed|shuffled (of the frees; alternate: every other phase
// frees in reverse), --shrink.
#include <thread>

#include "support/measure.h"

namespace {

struct alignas(128) Sum {
  std::uint64_t checksum = 0;
};

enum class Order { kAlternate, kIn, kReversed, kShuffled };

struct Plan {
  std::size_t blocks;
  long phases;  // of each thread
  std::uint64_t min, max;
  Order order;
};

std::uint64_t drop(void* block) {
  const std::uint64_t value = bench::stamp_of(block);
  std::free(block);
  return value;
}

std::uint64_t work(const Plan& plan, std::uint64_t seed) {
  bench::Random random(seed);
  bench::MappedArray<void*> held(plan.blocks);
  // The same for all phases: to draw one for each would take longer than the frees.
  bench::MappedArray<std::uint32_t> turn(plan.order == Order::kShuffled ? plan.blocks : 0);
  for (std::size_t i = 0; i < turn.size(); ++i) turn[i] = static_cast<std::uint32_t>(i);
  turn.shuffle(random);
  std::uint64_t checksum = 0;
  for (long phase = 0; phase < plan.phases; ++phase) {
    for (auto& block : held) {
      const std::uint64_t bits = random.next();
      block = bench::must_malloc(plan.min + (bits >> 40) % (plan.max - plan.min + 1));
      bench::stamp(block, bits);
    }
    const bool reversed = plan.order == Order::kReversed || (plan.order == Order::kAlternate && (phase & 1) != 0);
    if (plan.order == Order::kShuffled)
      for (const std::uint32_t i : turn) checksum += drop(held[i]);
    else if (reversed)
      for (std::size_t i = plan.blocks; i > 0; --i) checksum += drop(held[i - 1]);
    else
      for (void* block : held) checksum += drop(block);
  }
  return checksum;
}

Order read_order(int argc, char** argv) {
  const char* order = bench::text_argument(argc, argv, "order", "alternate");
  if (std::strcmp(order, "alternate") == 0) return Order::kAlternate;
  if (std::strcmp(order, "in") == 0) return Order::kIn;
  if (std::strcmp(order, "reversed") == 0) return Order::kReversed;
  if (std::strcmp(order, "shuffled") == 0) return Order::kShuffled;
  std::fprintf(stderr, "--order: alternate, in, reversed or shuffled\n");
  std::exit(2);
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 2);
  const long all_phases = bench::number_argument(argc, argv, "phases", 20'000);
  const Plan plan = {static_cast<std::size_t>(bench::number_argument(argc, argv, "blocks", 3000)),
                     bench::scaled(argc, argv, all_phases / threads),
                     static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 16)),
                     static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 256)),
                     read_order(argc, argv)};
  bench::MappedArray<Sum> sums(static_cast<std::size_t>(threads));
  bench::Stopwatch watch;
  watch.start();
  {
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
      workers.emplace_back([&, t] { sums[t].checksum = work(plan, t + 1); });
    for (auto& worker : workers) worker.join();
  }
  watch.stop();
  std::uint64_t checksum = 0;
  for (const Sum& sum : sums) checksum += sum.checksum;
  bench::report("phases", static_cast<double>(plan.phases * threads) * static_cast<double>(plan.blocks), watch,
                checksum);
}
