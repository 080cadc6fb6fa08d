// SPDX-License-Identifier: MIT
//
// rounds: T threads, each with 1,000 blocks of 8 to 16,000 bytes, spread evenly. A round chooses 100 of them at random,
// frees these one after the other, and then allocates as many new ones. Few blocks of each of many classes, and the
// larger ones too large for a cache to hold many.
//
// One operation is one free and one malloc. --threads (1), --slots (each thread, 1000), --replaced (a round, 100),
// --rounds (of all threads, 100000), --min, --max (bytes, 8 and 16000), --shrink.
#include "support/measure.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  std::size_t slots, replaced;
  long rounds;  // of each thread
  std::uint64_t min, max;
};

void put(void*& slot, const Plan& plan, bench::Random& random) {
  slot = bench::must_malloc(random.between(plan.min, plan.max));
  bench::stamp(slot, random.next());
}

std::uint64_t drop(void*& slot) {
  const std::uint64_t value = bench::stamp_of(slot);
  std::free(slot);
  slot = nullptr;
  return value;
}

std::uint64_t work(const Plan& plan, std::uint64_t seed) {
  bench::Random random(seed);
  bench::MappedArray<void*> blocks(plan.slots);
  for (auto& block : blocks) put(block, plan, random);
  std::uint64_t checksum = 0;
  for (long round = 0; round < plan.rounds; ++round) {
    // The chosen ones come to the front: no slot is chosen twice.
    for (std::size_t i = 0; i < plan.replaced; ++i) {
      std::swap(blocks[i], blocks[i + random.below(plan.slots - i)]);
      checksum += drop(blocks[i]);
    }
    for (std::size_t i = 0; i < plan.replaced; ++i) put(blocks[i], plan, random);
  }
  for (auto& block : blocks) checksum += drop(block);
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 1);
  const long all_rounds = bench::number_argument(argc, argv, "rounds", 100'000);
  const Plan plan = {static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 1000)),
                     static_cast<std::size_t>(bench::number_argument(argc, argv, "replaced", 100)),
                     bench::scaled(argc, argv, all_rounds / threads),
                     static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 8)),
                     static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 16'000))};
  if (plan.replaced > plan.slots || plan.min < 8 || plan.min > plan.max) {
    std::fprintf(stderr, "--replaced: at most --slots; --min: from 8 to --max\n");
    return 2;
  }
  const auto team_size = static_cast<std::size_t>(threads);
  bench::MappedArray<bench::Padded<std::uint64_t>> sums(team_size);
  bench::ThreadTeam team(team_size);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) { sums[t].value = work(plan, t + 1); });
  std::uint64_t checksum = 0;
  for (const auto& sum : sums) checksum += sum.value;
  const double ops = static_cast<double>(threads * plan.rounds) * static_cast<double>(plan.replaced);
  bench::report("rounds", ops, watch, checksum);
}
