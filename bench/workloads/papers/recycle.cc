// SPDX-License-Identifier: MIT
//
// recycle: each thread allocates --rate blocks, frees them all, and so on: blocks that never leave their thread.
//   streamflow   Streamflow 2006, section 4.2.2 (Table 1, Fig. 3): 10^7 blocks a thread, 8 bytes, rate 1000
// The array of the blocks is malloc'ed: with 8 threads it makes the 8 large objects of Table 1. Unlike the original
// each block is stamped, and read before it is freed.
//
// One operation is one malloc and one free. --threads, --size (bytes, at least 8), --blocks (a thread), --rate (blocks
// between two rounds of frees), --seconds, --shrink (blocks).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, blocks, rate;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"streamflow", {.threads = 8, .size = 8, .blocks = 10'000'000, .rate = 1000}},
};
constexpr bench::Parameter<Plan> kParameters[] = {
    {"threads", &Plan::threads}, {"size", &Plan::size}, {"blocks", &Plan::blocks}, {"rate", &Plan::rate}};

template <class Blocks> bench::Done work(const bench::ThreadTeam& team, const Plan& plan, std::size_t thread) {
  const auto size = static_cast<std::size_t>(plan.size);
  const auto rate = static_cast<std::size_t>(plan.rate);
  auto** blocks = static_cast<void**>(Blocks::allocate_local(rate * sizeof(void*)));
  std::uint64_t checksum = 0;
  const long rounds = team.repeat((plan.blocks + plan.rate - 1) / plan.rate, [&](long round) {
    const std::uint64_t mark = (thread << 48) + (static_cast<std::uint64_t>(round) << 20);
    for (std::size_t i = 0; i < rate; ++i) bench::stamp(blocks[i] = Blocks::allocate_local(size), mark + i);
    for (std::size_t i = 0; i < rate; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      Blocks::free(blocks[i]);
    }
  });
  Blocks::free(blocks);
  return {rounds, checksum};
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  bench::MappedArray<bench::Padded<bench::Done>> results(team.size());
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) { results[t].value = work<Blocks>(team, plan, t); });
  const bench::Done all = bench::total_of(results);
  bench::report("recycle", static_cast<double>(all.count) * static_cast<double>(plan.rate), watch, all.checksum,
                bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.blocks = bench::scaled(argc, argv, plan.blocks);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
