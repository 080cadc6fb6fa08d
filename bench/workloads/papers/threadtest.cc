// SPDX-License-Identifier: MIT
//
// threadtest: each thread allocates many blocks of one size and then frees them in the order in which they came, round
// after round. From the Hoard distribution (Berger et al., ASPLOS 2000), as three papers use it:
//   michael   Michael 2004, section 4.1 (Table 1, Fig. 8b): 100 rounds of 100,000 blocks of 8 bytes, each thread
//   lfmalloc  Dice and Garthwaite 2002, Fig. 1b and section 4.3: prints no parameters. 65,536 blocks of 56 bytes shared
//             out among the threads need what it prints as peak heap (4.98 to 5.9 MB) when all threads hold theirs at
//             once, which takes as many CPUs
//   hmalloc   HMalloc 2020, section 4.1 (Fig. 11a): 100,000/N blocks of 64 bytes each of N threads, 5000 rounds
// Unlike the original each block is stamped, and read before it is freed.
//
// One operation is one malloc and one free. --threads, --size (bytes, at least 8), --blocks (a round), --share-out (1:
// all threads together make so many, 0: each does), --rounds, --idle-thread (1: a thread is started and ended first),
// --seconds, --shrink (rounds).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, blocks, share_out, rounds, idle_thread;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"michael", {.threads = 16, .size = 8, .blocks = 100'000, .share_out = 0, .rounds = 100, .idle_thread = 1}},
    {"lfmalloc", {.threads = 16, .size = 56, .blocks = 65'536, .share_out = 1, .rounds = 1000, .idle_thread = 0}},
    {"hmalloc", {.threads = 16, .size = 64, .blocks = 100'000, .share_out = 1, .rounds = 5000, .idle_thread = 0}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads}, {"size", &Plan::size},
                                                  {"blocks", &Plan::blocks},   {"share-out", &Plan::share_out, 0},
                                                  {"rounds", &Plan::rounds},   {"idle-thread", &Plan::idle_thread, 0}};

struct Done {
  long rounds = 0;
  std::uint64_t checksum = 0;
};

// Stamps depend on the block's number among all threads' blocks and on the round: with --share-out the checksum is the
// same for any number of threads.
template <class Blocks>
Done work(const bench::ThreadTeam& team, const Plan& plan, void** blocks, std::size_t first, std::size_t end) {
  const auto size = static_cast<std::size_t>(plan.size);
  std::uint64_t checksum = 0;
  const long rounds = team.repeat(plan.rounds, [&](long round) {
    for (std::size_t i = first; i < end; ++i)
      bench::stamp(blocks[i] = Blocks::allocate_local(size), i ^ (static_cast<std::uint64_t>(round) << 32));
    for (std::size_t i = first; i < end; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      Blocks::free(blocks[i]);
    }
  });
  return {rounds, checksum};
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  const auto threads = static_cast<std::size_t>(plan.threads);
  const auto all_blocks = static_cast<std::size_t>(plan.blocks * (plan.share_out != 0 ? 1 : plan.threads));
  bench::MappedArray<void*> blocks(all_blocks);
  bench::MappedArray<bench::Padded<Done>> results(threads);
  bench::ThreadTeam team(threads, seconds);
  const bench::HeapGrowth heap;
  bench::Stopwatch watch;
  const auto first_of = [&](std::size_t t) { return all_blocks * t / threads; };
  team.run(watch, [&](std::size_t t) {
    results[t].value = work<Blocks>(team, plan, blocks.begin(), first_of(t), first_of(t + 1));
  });
  double ops = 0;
  std::uint64_t checksum = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    ops += static_cast<double>(results[t].value.rounds) * static_cast<double>(first_of(t + 1) - first_of(t));
    checksum += results[t].value.checksum;
  }
  bench::report("threadtest", ops, watch, checksum, bench::profile_extras<Blocks>({{"heap_kib", heap.kib()}}));
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.rounds = bench::scaled(argc, argv, plan.rounds);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
