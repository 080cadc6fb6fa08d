// SPDX-License-Identifier: MIT
//
// linux_scalability: each thread allocates blocks of one size and frees them, in a tight loop. The malloc-test of Lever
// and Boreham ("malloc() Performance in a Multithreaded Linux Environment", FREENIX 2000), as three papers use it:
//   michael   Michael 2004, section 4.1 (Table 1, Fig. 8a): 10 million malloc/free pairs of 8 bytes a thread
//   lfmalloc  Dice and Garthwaite 2002, Fig. 1c: prints no parameters; those of the original program: 512 B, 1 million
//             pairs
//   hmalloc   HMalloc 2020, section 4.1 (Fig. 11b): 512 bytes, 1 million blocks a thread, all allocated, then all freed
// Unlike the originals each block is stamped, so that its first bytes are written and read.
//
// One operation is one malloc and one free. --threads, --size (bytes, at least 8), --blocks (a thread), --keep (1: all
// are allocated before any is freed), --idle-thread (1: a thread is started and ended first), --seconds, --shrink
// (blocks).
#include "papers/routes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, blocks, keep, idle_thread;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"michael", {.threads = 16, .size = 8, .blocks = 10'000'000, .keep = 0, .idle_thread = 1}},
    {"lfmalloc", {.threads = 16, .size = 512, .blocks = 1'000'000, .keep = 0, .idle_thread = 0}},
    {"hmalloc", {.threads = 16, .size = 512, .blocks = 1'000'000, .keep = 1, .idle_thread = 0}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"size", &Plan::size},
                                                  {"blocks", &Plan::blocks},
                                                  {"keep", &Plan::keep, 0},
                                                  {"idle-thread", &Plan::idle_thread, 0}};

// The stamp of a thread's i-th block.
std::uint64_t mark(std::size_t thread, long i) { return (thread << 48) ^ static_cast<std::uint64_t>(i); }

template <class Blocks> bench::Done pairs(const bench::ThreadTeam& team, const Plan& plan, std::size_t thread) {
  const auto size = static_cast<std::size_t>(plan.size);
  std::uint64_t checksum = 0;
  const long done = team.repeat(plan.blocks, [&](long i) {
    void* block = Blocks::allocate_local(size);
    bench::stamp(block, mark(thread, i));
    checksum += bench::stamp_of(block);
    Blocks::free(block);
  });
  return {done, checksum};
}

template <class Blocks>
bench::Done all_then_all(const bench::ThreadTeam& team, const Plan& plan, std::size_t thread, void** blocks) {
  const auto size = static_cast<std::size_t>(plan.size);
  std::uint64_t checksum = 0;
  const long rounds = team.repeat(1, [&](long round) {
    for (long i = 0; i < plan.blocks; ++i)
      bench::stamp(blocks[i] = Blocks::allocate_local(size), mark(thread, i + round));
    for (long i = 0; i < plan.blocks; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      Blocks::free(blocks[i]);
    }
  });
  return {rounds * plan.blocks, checksum};
}

template <class Blocks> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  const auto threads = static_cast<std::size_t>(plan.threads);
  const std::size_t kept = plan.keep != 0 ? static_cast<std::size_t>(plan.blocks) : 0;
  bench::MappedArray<void*> blocks(threads * kept);
  bench::MappedArray<bench::Padded<bench::Done>> results(threads);
  bench::ThreadTeam team(threads, seconds);
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    results[t].value =
        kept != 0 ? all_then_all<Blocks>(team, plan, t, &blocks[t * kept]) : pairs<Blocks>(team, plan, t);
  });
  const bench::Done all = bench::total_of(results);
  bench::report("linux_scalability", static_cast<double>(all.count), watch, all.checksum,
                bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.blocks = bench::scaled(argc, argv, plan.blocks);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
