// SPDX-License-Identifier: MIT
//
// burst_idle: a program that works in bursts and sleeps between them, as a desktop's or a phone's does. Each burst
// allocates some 140 MiB of mixed sizes, writes to it, frees all but one block in twenty (which the next burst frees),
// and sleeps. What stays resident while nothing happens, and what CPU time the allocator takes for that, is what is
// measured.
//
//   rss_over_live        at the ends of the idle times, over the bytes still live: median
//   idle_rss_kib         anonymous memory at the ends of the idle times: median
//   idle_rss_first_kib   the same right after the frees, before sleeping: median
//   idle_cpu_ms          CPU time of the process in all idle times together
// One operation is one malloc and one free; the time is the bursts'. --bursts (8), --blocks (a burst, 60000), --idle
// (milliseconds, 150), --shrink (divides blocks and idle).
#include <algorithm>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

struct Held {
  char* block;
  std::uint32_t size;
  std::uint64_t value;
};

constexpr std::size_t kKept = 20;  // one in so many stays until after the next burst

// 16 bytes to 16 KiB, each doubling equally often.
std::uint32_t mixed_size(std::uint64_t bits) {
  const std::uint32_t base = 16u << (bits % 10);
  return base + (static_cast<std::uint32_t>(bits >> 32) & (base - 1));
}

std::uint64_t drop(Held& held) {
  if (held.block == nullptr) return 0;
  const std::uint64_t value = bench::stamp_of(held.block) ^ static_cast<unsigned char>(held.block[held.size - 1]);
  std::free(held.block);
  held.block = nullptr;
  return value;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void sleep_ms(long ms) {
  timespec rest{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&rest, &rest) != 0) {}
}

}  // namespace

int main(int argc, char** argv) {
  const long bursts = bench::number_argument(argc, argv, "bursts", 8);
  const auto blocks =
      static_cast<std::size_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "blocks", 60'000)));
  const long idle_ms = bench::scaled(argc, argv, bench::number_argument(argc, argv, "idle", 150));
  bench::MappedArray<Held> held(blocks);
  bench::MappedArray<Held> kept(blocks / kKept + 1);
  bench::Random random(21);
  // A few numbers each; taken before anything is measured.
  std::vector<double> ratios, before, after;
  for (auto* list : {&ratios, &before, &after}) list->reserve(static_cast<std::size_t>(bursts));
  const long empty_kib = bench::rollup_kib("Anonymous:");
  bench::Stopwatch working, idling;
  std::uint64_t checksum = 0;
  for (long burst = 0; burst < bursts; ++burst) {
    working.start();
    for (Held& one : held) {
      const std::uint64_t bits = random.next();
      one = {nullptr, mixed_size(bits), bits};
      one.block = static_cast<char*>(bench::must_malloc(one.size));
      std::memset(one.block, static_cast<int>(bits >> 8), one.size);
      bench::stamp(one.block, bits);
    }
    for (Held& old : kept) checksum += drop(old);
    double live = 0;
    for (std::size_t i = 0; i < blocks; ++i)
      if (i % kKept == 0) {
        kept[i / kKept] = held[i];
        live += held[i].size;
      } else {
        checksum += drop(held[i]);
      }
    working.stop();
    before.push_back(static_cast<double>(bench::rollup_kib("Anonymous:") - empty_kib));
    idling.start();
    sleep_ms(idle_ms);
    idling.stop();
    after.push_back(static_cast<double>(bench::rollup_kib("Anonymous:") - empty_kib));
    ratios.push_back(after.back() * 1024 / live);
  }
  for (Held& old : kept) checksum += drop(old);
  bench::report("burst_idle", static_cast<double>(bursts) * static_cast<double>(blocks), working, checksum,
                {{"rss_over_live", median(ratios)},
                 {"idle_rss_kib", median(after)},
                 {"idle_rss_first_kib", median(before)},
                 {"idle_cpu_ms", idling.cpu() * 1e3}});
}
