// SPDX-License-Identifier: MIT
//
// mmicro: many threads that each allocate 64 blocks of one size and free them in the order in which they came, for
// ever. What all together get done is counted; no thread starts or ends meanwhile. Dice and Garthwaite 2002, section 4:
//   lfmalloc         `mmicro 64 :10000 200` (Table 2): 64 threads, 10,000 ms, 200 bytes
//   lfmalloc-table3  `mmicro T :10000 64` (Table 3; Fig. 1d and 1e name no size): 1, 16 and 256 threads, 64 bytes
// Of Table 2 it prints pairs a second, ns a pair (CPUs times time by pairs: `processor_ns`), user CPU per cent of all
// CPUs, context switches a second and what the heap grew to; cycles, snoops and misses need counters of the processor,
// which a program cannot count on having. The paper's runs last --seconds 10; without it a million rounds are shared
// out.
//
// One operation is one malloc and one free (a pair). --threads, --size (bytes, at least 8), --blocks (a round),
// --rounds (of all threads), --seconds, --shrink (rounds).
#include <unistd.h>

#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, blocks, rounds, paper_milliseconds;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"lfmalloc", {.threads = 64, .size = 200, .blocks = 64, .rounds = 1'000'000, .paper_milliseconds = 10'000}},
    {"lfmalloc-table3", {.threads = 256, .size = 64, .blocks = 64, .rounds = 1'000'000, .paper_milliseconds = 10'000}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"size", &Plan::size},
                                                  {"blocks", &Plan::blocks},
                                                  {"rounds", &Plan::rounds},
                                                  {"paper-milliseconds", &Plan::paper_milliseconds}};

template <class Blocks>
bench::Done work(const bench::ThreadTeam& team, const Plan& plan, void** blocks, long first, long end) {
  const auto size = static_cast<std::size_t>(plan.size);
  std::uint64_t checksum = 0;
  // Rounds are numbered over all threads, so that the checksum is the same for any number of them.
  const long rounds = team.repeat(end - first, [&](long round) {
    const auto mark = static_cast<std::uint64_t>((first + round) * plan.blocks);
    for (long i = 0; i < plan.blocks; ++i)
      bench::stamp(blocks[i] = Blocks::allocate_local(size), mark + static_cast<std::uint64_t>(i));
    for (long i = 0; i < plan.blocks; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      Blocks::free(blocks[i]);
    }
  });
  return {rounds, checksum};
}

rusage usage_now() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage;
}
double user_seconds(const rusage& usage) {
  return static_cast<double>(usage.ru_utime.tv_sec) + 1e-6 * static_cast<double>(usage.ru_utime.tv_usec);
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  const auto round = static_cast<std::size_t>(plan.blocks);
  bench::MappedArray<void*> blocks(team.size() * round);
  bench::MappedArray<bench::Padded<bench::Done>> results(team.size());
  const bench::HeapGrowth heap;
  const rusage before = usage_now();
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    const auto first_of = [&](std::size_t thread) { return plan.rounds * static_cast<long>(thread) / plan.threads; };
    results[t].value = work<Blocks>(team, plan, &blocks[t * round], first_of(t), first_of(t + 1));
  });
  const rusage after = usage_now();
  const bench::Done all = bench::total_of(results);
  const double pairs = static_cast<double>(all.count) * static_cast<double>(plan.blocks);
  const double wall = watch.wall();
  const auto cpus = static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const auto switches = static_cast<double>(after.ru_nvcsw - before.ru_nvcsw + after.ru_nivcsw - before.ru_nivcsw);
  const auto extras = bench::profile_extras<Blocks>(
      {{"pairs_per_second", pairs / wall},
       {"processor_ns", bench::ns_each(wall * cpus, pairs)},
       {"user_percent", 100 * (user_seconds(after) - user_seconds(before)) / (wall * cpus)},
       {"switches_per_second", switches / wall},
       {"heap_kib", heap.kib()}});
  bench::report("mmicro", pairs, watch, all.checksum, extras);
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.rounds = bench::scaled(argc, argv, plan.rounds);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
