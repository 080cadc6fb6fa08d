// SPDX-License-Identifier: MIT
//
// heap_churn: a pair of free and malloc where --live blocks (60000) of 16 to --largest bytes (64: all of 64) live, in a
// heap of the preloaded allocator's (Freeway's) and by malloc, in turns: the ratio is what a heap costs.
//
// --way random   one block after the other, which random numbers choose, is freed and replaced
//       halves   half of the blocks are freed, in random order, and then replaced
// --rounds (15), of each of both; --pairs (300000) a round. Figures: the least CPU time a pair of either, the median of
// the rounds' ratios, and the KiB by which each half of the program grew as its blocks were made.
#include <dlfcn.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/measure.h"

namespace {

template <class F> F* find(const char* name) {
  auto* const found = reinterpret_cast<F*>(dlsym(RTLD_DEFAULT, name));
  if (found == nullptr) bench::die(name);
  return found;
}

// One kind of blocks: all that live, and what their pairs took.
template <class Allocate> class Side {
 public:
  Side(std::size_t live, std::size_t largest, bool in_halves, Allocate allocate)
      : allocate_(allocate), in_halves_(in_halves), blocks_(live), sizes_(live), order_(live) {
    for (std::size_t i = 0; i < live; ++i) {
      order_[i] = i;
      sizes_[i] = largest <= 64 ? largest : random_.between(16, largest);
    }
    order_.shuffle(random_);
    const long before = bench::kib_of("/proc/self/smaps_rollup", "Rss:");
    for (std::size_t i = 0; i < live; ++i) replace(i);
    grown_ = bench::kib_of("/proc/self/smaps_rollup", "Rss:") - before;
  }
  // Nanoseconds a pair.
  double round(long pairs) {
    bench::Stopwatch working;
    working.start();
    if (in_halves_) {
      const std::size_t half = blocks_.size() / 2;
      for (long done = 0; done < pairs; done += static_cast<long>(half)) {
        for (std::size_t i = 0; i < half; ++i) release(order_[i]);
        for (std::size_t i = 0; i < half; ++i) replace(order_[i]);
      }
    } else {
      for (long done = 0; done < pairs; ++done) {
        const std::size_t i = random_.below(blocks_.size());
        release(i);
        replace(i);
      }
    }
    working.stop();
    const double each = bench::ns_each(working.cpu(), static_cast<double>(pairs));
    least_ = least_ == 0 ? each : std::min(least_, each);
    return each;
  }
  double least() const { return least_; }
  double grown() const { return static_cast<double>(grown_); }
  std::uint64_t checksum() const { return checksum_; }

 private:
  void replace(std::size_t i) { bench::stamp(blocks_[i] = allocate_(sizes_[i]), i); }
  void release(std::size_t i) {
    checksum_ += bench::stamp_of(blocks_[i]);
    std::free(blocks_[i]);
  }

  Allocate allocate_;
  bool in_halves_;
  bench::Random random_{1};
  bench::MappedArray<void*> blocks_;
  bench::MappedArray<std::size_t> sizes_, order_;
  long grown_ = 0;
  double least_ = 0;
  std::uint64_t checksum_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const auto live =
      static_cast<std::size_t>(bench::scaled(argc, argv, bench::number_argument(argc, argv, "live", 60000)));
  const auto largest = static_cast<std::size_t>(bench::number_argument(argc, argv, "largest", 64));
  const long rounds = bench::number_argument(argc, argv, "rounds", 15);
  const long pairs = bench::scaled(argc, argv, bench::number_argument(argc, argv, "pairs", 300000));
  const bool in_halves = std::string(bench::text_argument(argc, argv, "way", "random")) == "halves";
  auto* const heap_malloc = find<void*(void*, std::size_t)>("freeway_heap_malloc");
  void* const heap = find<void*(const void*, std::size_t)>("freeway_heap_new")(nullptr, 0);

  Side by_malloc(live, largest, in_halves, [](std::size_t bytes) { return bench::must_malloc(bytes); });
  Side in_heap(live, largest, in_halves, [=](std::size_t bytes) { return heap_malloc(heap, bytes); });
  bench::Stopwatch all;
  all.start();
  std::vector<double> ratios;
  for (long i = 0; i < rounds; ++i) {
    const double base = by_malloc.round(pairs);
    ratios.push_back(in_heap.round(pairs) / base);
  }
  all.stop();
  std::sort(ratios.begin(), ratios.end());
  bench::report("heap_churn", static_cast<double>(rounds) * static_cast<double>(pairs), all,
                by_malloc.checksum() + in_heap.checksum(),
                {{"malloc_ns", by_malloc.least()},
                 {"heap_ns", in_heap.least()},
                 {"ratio", ratios[ratios.size() / 2]},
                 {"malloc_kib", by_malloc.grown()},
                 {"heap_kib", in_heap.grown()}});
}
