// SPDX-License-Identifier: MIT
//
// shbench: each thread allocates 1000 blocks of random sizes and frees them one after the other, over and over. After
// the description of SHbench in one paper (the original, MicroQuill's, does more):
//   hmalloc         HMalloc 2020, section 4.1 (Fig. 11c): 1000 blocks of 1 byte to 1 KB, 2,000,000/N times each of N
//                   threads
//   hmalloc-table1  the same as its Table 1 has it: 200,000 times
//
// One operation is one malloc and one free. --threads, --blocks (a time), --min, --max (bytes), --iterations (of all
// threads), --seconds, --shrink (iterations).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, blocks, min, max, iterations;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"hmalloc", {.threads = 16, .blocks = 1000, .min = 1, .max = 1024, .iterations = 2'000'000}},
    {"hmalloc-table1", {.threads = 16, .blocks = 1000, .min = 1, .max = 1024, .iterations = 200'000}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"blocks", &Plan::blocks},
                                                  {"min", &Plan::min},
                                                  {"max", &Plan::max},
                                                  {"iterations", &Plan::iterations}};

// An iteration's sizes and stamps come from its number, so that the checksum is the same for any number of threads. A
// block's stamp is one byte, since there are blocks of one byte.
template <class Blocks>
bench::Done work(const bench::ThreadTeam& team, const Plan& plan, void** blocks, long first, long end) {
  const auto spread = static_cast<std::uint64_t>(plan.max - plan.min + 1);
  const auto min = static_cast<std::uint64_t>(plan.min);
  std::uint64_t checksum = 0;
  const long done = team.repeat(end - first, [&](long iteration) {
    bench::Random random(static_cast<std::uint64_t>(first + iteration) + 1);
    random.next();  // the first number of neighbouring seeds is alike
    for (long i = 0; i < plan.blocks; ++i) {
      const std::uint64_t bits = random.next();
      blocks[i] = Blocks::allocate_local(min + (((bits >> 32) * spread) >> 32));
      bench::stamp_as<unsigned char>(blocks[i], bits);
    }
    for (long i = 0; i < plan.blocks; ++i) {
      checksum = checksum + bench::stamp_of_as<unsigned char>(blocks[i]) * static_cast<std::uint64_t>(i + 1);
      Blocks::free(blocks[i]);
    }
  });
  return {done, checksum};
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  const auto held = static_cast<std::size_t>(plan.blocks);
  bench::MappedArray<void*> blocks(team.size() * held);
  bench::MappedArray<bench::Padded<bench::Done>> results(team.size());
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    const auto share = [&](std::size_t thread) { return plan.iterations * static_cast<long>(thread) / plan.threads; };
    results[t].value = work<Blocks>(team, plan, &blocks[t * held], share(t), share(t + 1));
  });
  const bench::Done all = bench::total_of(results);
  bench::report("shbench", static_cast<double>(all.count) * static_cast<double>(plan.blocks), watch, all.checksum,
                bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.iterations = bench::scaled(argc, argv, plan.iterations);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
