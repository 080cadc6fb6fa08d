// SPDX-License-Identifier: MIT
//
// tails: how long single calls take. Busy threads replace blocks at random, each call timed by the processor's counter,
// while other threads trim, fork, are held in the middle of a call, come and go (disturbances.h).
//
//   malloc_max_us, free_max_us         the longest call of all
//   malloc_p9999_us, free_p9999_us     one in ten thousand took longer; malloc_p50_us: one in two
//   nothing_max_us, nothing_p9999_us   the same of intervals in which nothing is done: what of the others is the
//                                      kernel's
//   trims, forks, holds, deaths        how often others did their part
// One operation is one malloc or one free. --threads (2), --calls (10^7, of each thread), --disturb (trim,fork,hold,die
// or none), --trim-mib (16: what is freed before each trim), --fifo 1: SCHED_FIFO for the busy threads, where permitted
// and there are CPUs left for the others (fifo says), --shrink. Sizes: 16 to 1024 bytes, one in a hundred up to 100
// KiB.
#include <sched.h>

#include "single_calls/disturbances.h"
#include "single_calls/latencies.h"
#include "support/measure.h"
#include "support/thread_team.h"

namespace {

constexpr std::size_t kSlots = 1000;

struct Busy {
  bench::Latencies mallocs, frees, nothing;
  std::uint64_t checksum = 0;
  bool fifo = false;
};

bool run_first_in_first_out() {
  const sched_param priority = {1};
  return sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
}

struct Slot {
  void* block;
  std::uint64_t value;
};

// One replacement: two timed calls, and an interval of nothing.
void replace(Slot& slot, bench::Random& random, Busy& mine) {
  const std::size_t size = random.below(100) == 0 ? random.between(1024, 100 * 1024) : random.between(16, 1024);
  if (slot.block != nullptr) mine.checksum += bench::stamp_of(slot.block) ^ slot.value;
  const std::uint64_t t0 = bench::ticks();
  std::free(slot.block);
  const std::uint64_t t1 = bench::ticks();
  slot.block = bench::must_malloc(size);
  const std::uint64_t t2 = bench::ticks();
  const std::uint64_t t3 = bench::ticks();
  mine.frees.add(t1 - t0);
  mine.mallocs.add(t2 - t1);
  mine.nothing.add(t3 - t2);
  slot.value = random.next();
  bench::stamp(slot.block, slot.value);
  mine.checksum += slot.value;
}

void work(long replacements, std::uint64_t seed, bool fifo, Busy& mine) {
  if (fifo) mine.fifo = run_first_in_first_out();
  bench::MappedArray<Slot> slots(kSlots);
  bench::Random random(seed);
  for (long i = 0; i < replacements; ++i) replace(slots[random.below(kSlots)], random, mine);
  for (const Slot& slot : slots) std::free(slot.block);
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 2));
  const long calls = bench::scaled(argc, argv, bench::number_argument(argc, argv, "calls", 10'000'000));
  const char* disturb = bench::text_argument(argc, argv, "disturb", "trim,fork,hold,die");
  const long trim_mib = bench::scaled(argc, argv, bench::number_argument(argc, argv, "trim-mib", 16));
  const bool fifo =
      *bench::text_argument(argc, argv, "fifo", "0") == '1' && std::thread::hardware_concurrency() > threads;
  bench::MappedArray<bench::Padded<Busy>> busy(threads);
  bench::start_and_end_idle_thread();
  const bench::TickLength tick;
  bench::Disturbances others(disturb, static_cast<std::size_t>(trim_mib) << 20);
  bench::Stopwatch watch;
  bench::ThreadTeam(threads).run(watch, [&](std::size_t t) { work(calls / 2, t + 1, fifo, busy[t].value); });
  others.end();
  Busy all;
  for (auto& each : busy) {
    all.mallocs.add(each.value.mallocs);
    all.frees.add(each.value.frees);
    all.nothing.add(each.value.nothing);
    all.checksum += each.value.checksum;
    all.fifo |= each.value.fifo;
  }
  const double us = tick.us();
  const auto in_us = [us](std::uint64_t duration) { return static_cast<double>(duration) * us; };
  bench::report("tails", static_cast<double>(threads) * static_cast<double>(calls / 2 * 2), watch, all.checksum,
                {{"malloc_max_us", in_us(all.mallocs.longest())},
                 {"malloc_p9999_us", in_us(all.mallocs.quantile(0.9999))},
                 {"malloc_p50_us", in_us(all.mallocs.quantile(0.5))},
                 {"free_max_us", in_us(all.frees.longest())},
                 {"free_p9999_us", in_us(all.frees.quantile(0.9999))},
                 {"nothing_max_us", in_us(all.nothing.longest())},
                 {"nothing_p9999_us", in_us(all.nothing.quantile(0.9999))},
                 {"fifo", all.fifo ? 1.0 : 0.0},
                 {"trims", static_cast<double>(others.trims())},
                 {"forks", static_cast<double>(others.forks())},
                 {"holds", static_cast<double>(others.holds())},
                 {"deaths", static_cast<double>(others.deaths())}});
}
