// SPDX-License-Identifier: MIT
//
// rss_after_free: what stays resident when a random 90 % of the blocks is freed, and after malloc_trim(0), as multiples
// of the bytes that are still live. `bound` is the same multiple for the distinct pages under live blocks: no allocator
// that cannot move blocks gets below the bound of its own layout. `trim_over_bound` is how close it came.
//
// One operation is one free; the time is the trim's. --count (2*10^6), --min, --max (bytes, 16 and 512), --shrink.
#include <algorithm>

#include "support/measure.h"
#include "support/memory_use.h"

int main(int argc, char** argv) {
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 2'000'000));
  const auto min = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 16));
  const auto max = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 512));
  struct Held {
    char* block;
    std::size_t size;
  };
  bench::MappedArray<Held> held(count);
  const std::size_t kept = count / 10 > 0 ? count / 10 : 1;
  bench::MappedArray<std::uintptr_t> pages(kept * (max / 4096 + 2));
  bench::Random random(9);
  const long before_kib = bench::rollup_kib("Anonymous:");
  for (Held& one : held) {
    one.size = random.between(min, max);
    one.block = static_cast<char*>(bench::must_malloc(one.size));
    std::memset(one.block, 1, one.size);
    bench::escape(one.block);
  }
  const long full_kib = bench::rollup_kib("Anonymous:") - before_kib;
  held.shuffle(random);
  for (std::size_t i = kept; i < count; ++i) std::free(held[i].block);
  const long freed_kib = bench::rollup_kib("Anonymous:") - before_kib;
  bench::Stopwatch trimming;
  trimming.start();
  bench::trim_all();
  trimming.stop();
  const long trimmed_kib = bench::rollup_kib("Anonymous:") - before_kib;

  std::uint64_t live = 0;
  std::size_t used = 0;
  std::uint64_t checksum = 0;
  for (std::size_t i = 0; i < kept; ++i) {
    live += held[i].size;
    for (std::size_t at = 0; at < held[i].size; ++at) checksum += static_cast<unsigned char>(held[i].block[at]);
    const auto first = reinterpret_cast<std::uintptr_t>(held[i].block);
    for (std::uintptr_t page = first / 4096; page <= (first + held[i].size - 1) / 4096; ++page) pages[used++] = page;
  }
  std::sort(pages.begin(), pages.begin() + used);
  const auto distinct = std::unique(pages.begin(), pages.begin() + used) - pages.begin();
  const auto live_kib = static_cast<double>(live) / 1024;
  const double bound = static_cast<double>(distinct) * 4 / live_kib;
  const double after_trim = static_cast<double>(trimmed_kib) / live_kib;
  bench::report("rss_after_free", static_cast<double>(count - kept), trimming, checksum,
                {{"full_kib", static_cast<double>(full_kib)},
                 {"live_kib", live_kib},
                 {"rss_over_live", static_cast<double>(freed_kib) / live_kib},
                 {"rss_over_live_after_trim", after_trim},
                 {"bound", bound},
                 {"trim_over_bound", after_trim / bound},
                 {"trim_ms", trimming.wall() * 1e3}});
}
