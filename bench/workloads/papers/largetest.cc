// SPDX-License-Identifier: MIT
//
// largetest: small blocks with a large one between them: each thread allocates 100 small blocks and one large one and
// frees them all, over and over.
//   hmalloc         HMalloc 2020, section 4.2 (Fig. 11d): 100 × 64 B, then one of 64 KB, 1,000,000 times each thread
//   hmalloc-table1  as its Table 1 has it: 5000 times 100,000 blocks. Our reading: 64 KB after each 100 × 64 B, all of
//                   them shared out among the threads
// Unlike the original each block is stamped, and read before it is freed; the rest of the large block is not touched.
//
// One operation is one malloc and one free. --threads, --blocks (small ones before each large one), --groups (of these,
// with their large ones, before any is freed), --size, --large (bytes), --iterations (each thread), --share-out (1:
// groups are of all threads together), --seconds, --shrink (iterations).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, blocks, groups, size, large, iterations, share_out;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"hmalloc",
     {.threads = 16, .blocks = 100, .groups = 1, .size = 64, .large = 65'536, .iterations = 1'000'000, .share_out = 0}},
    {"hmalloc-table1",
     {.threads = 16, .blocks = 100, .groups = 1000, .size = 64, .large = 65'536, .iterations = 5000, .share_out = 1}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},       {"blocks", &Plan::blocks},
                                                  {"groups", &Plan::groups},         {"size", &Plan::size},
                                                  {"large", &Plan::large},           {"iterations", &Plan::iterations},
                                                  {"share-out", &Plan::share_out, 0}};

template <class Blocks>
bench::Done work(const bench::ThreadTeam& team, const Plan& plan, void** blocks, long first, long end) {
  const long in_group = plan.blocks + 1;
  const auto size_of = [&](long i) {
    return static_cast<std::size_t>(i % in_group == plan.blocks ? plan.large : plan.size);
  };
  std::uint64_t checksum = 0;
  const long done = team.repeat(plan.iterations, [&](long iteration) {
    for (long i = first * in_group; i < end * in_group; ++i)
      bench::stamp(blocks[i] = Blocks::allocate_local(size_of(i)), static_cast<std::uint64_t>(i ^ (iteration << 24)));
    for (long i = first * in_group; i < end * in_group; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      Blocks::free(blocks[i]);
    }
  });
  return {done * (end - first) * in_group, checksum};
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  const long groups = plan.groups * (plan.share_out != 0 ? 1 : plan.threads);
  bench::MappedArray<void*> blocks(static_cast<std::size_t>(groups * (plan.blocks + 1)));
  bench::MappedArray<bench::Padded<bench::Done>> results(team.size());
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    const auto first_of = [&](std::size_t thread) { return groups * static_cast<long>(thread) / plan.threads; };
    results[t].value = work<Blocks>(team, plan, blocks.begin(), first_of(t), first_of(t + 1));
  });
  const bench::Done all = bench::total_of(results);
  bench::report("largetest", static_cast<double>(all.count), watch, all.checksum, bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.iterations = bench::scaled(argc, argv, plan.iterations);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
