// SPDX-License-Identifier: MIT
//
// active_false: does the allocator give two threads parts of one cache line? Each thread allocates a small block,
// writes every byte of it many times and frees it, over and over. From the Hoard distribution, as two papers use it:
//   michael   Michael 2004, section 4.1 (Fig. 8c): 10,000 pairs a thread of 8 bytes, 1,000 writes to each byte
//   hmalloc   HMalloc 2020, section 4.4 (Fig. 11g): 200,000 pairs a thread of 8 bytes, 20,000 writes to each byte
//
// One operation is one malloc, the writes and one free. --threads, --size (bytes), --pairs (a thread), --writes (to
// each byte), --idle-thread (1: a thread is started and ended first), --seconds, --shrink (pairs).
#include "papers/routes.h"
#include "papers/writes.h"
#include "support/plan.h"
#include "support/thread_team.h"

namespace {

struct Plan {
  long threads, size, pairs, writes, idle_thread;
};
constexpr bench::Preset<Plan> kPresets[] = {
    {"michael", {.threads = 16, .size = 8, .pairs = 10'000, .writes = 1'000, .idle_thread = 1}},
    {"hmalloc", {.threads = 16, .size = 8, .pairs = 200'000, .writes = 20'000, .idle_thread = 0}},
};
constexpr bench::Parameter<Plan> kParameters[] = {{"threads", &Plan::threads},
                                                  {"size", &Plan::size},
                                                  {"pairs", &Plan::pairs},
                                                  {"writes", &Plan::writes},
                                                  {"idle-thread", &Plan::idle_thread, 0}};

template <class Blocks> void measure(const Plan& plan, double seconds) {
  if (plan.idle_thread != 0) bench::start_and_end_idle_thread();
  const auto size = static_cast<std::size_t>(plan.size);
  bench::ThreadTeam team(static_cast<std::size_t>(plan.threads), seconds);
  bench::MappedArray<bench::Padded<bench::Done>> results(team.size());
  bench::Stopwatch watch;
  team.run(watch, [&](std::size_t t) {
    std::uint64_t checksum = 0;
    const long done = team.repeat(plan.pairs, [&](long pair) {
      void* block = Blocks::allocate_local(size);
      checksum += bench::write_bytes(block, size, plan.writes, bench::mark_of(t, pair));
      Blocks::free(block);
    });
    results[t].value = {done, checksum};
  });
  const bench::Done all = bench::total_of(results);
  bench::report("active_false", static_cast<double>(all.count), watch, all.checksum, bench::profile_extras<Blocks>());
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan = bench::plan_argument(argc, argv, kPresets, kParameters);
  plan.pairs = bench::scaled(argc, argv, plan.pairs);
  const double seconds = bench::seconds_argument(argc, argv);
  bench::with_routes(argc, argv, [&](auto blocks) { measure<decltype(blocks)>(plan, seconds); });
}
