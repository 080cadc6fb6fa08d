// SPDX-License-Identifier: MIT
//
// after_burst: memory that a program used once and then sleeps on.
//
//   peak_kib                   anonymous memory when all blocks are there, over that at the start
//   freed_kib, soon_kib, late_kib   the same when all are freed, and 1.5 and 10 seconds later
// One operation is one malloc and one free. --size (bytes, 64), --mib (256), --threads (1).
#include <thread>

#include "support/measure.h"
#include "support/memory_use.h"

namespace {

template <class F> void in_threads(std::size_t threads, F&& f) {
  std::vector<std::thread> all;
  for (std::size_t t = 1; t < threads; ++t) all.emplace_back(f, t);
  f(0);
  for (std::thread& thread : all) thread.join();
}

void sleep_ms(long ms) {
  timespec rest{ms / 1000, ms % 1000 * 1'000'000};
  while (nanosleep(&rest, &rest) != 0) {}
}

}  // namespace

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 64));
  const auto bytes = static_cast<std::size_t>(bench::number_argument(argc, argv, "mib", 256)) << 20;
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 1));
  const std::size_t each = bytes / size / threads;
  bench::MappedArray<char*> blocks(each * threads);
  for (char*& block : blocks) block = nullptr;  // the array itself is resident from here on
  const long start = bench::rollup_kib("Anonymous:");
  const auto more = [start] { return static_cast<double>(bench::rollup_kib("Anonymous:") - start); };
  bench::Stopwatch working;
  working.start();
  in_threads(threads, [&](std::size_t t) {
    for (std::size_t i = t * each; i < (t + 1) * each; ++i) {
      blocks[i] = static_cast<char*>(bench::must_malloc(size));
      std::memset(blocks[i], static_cast<int>(i), size);
    }
  });
  const double peak = more();
  std::atomic<std::uint64_t> checksum{0};
  in_threads(threads, [&](std::size_t t) {
    std::uint64_t sum = 0;
    for (std::size_t i = t * each; i < (t + 1) * each; ++i) {
      sum += static_cast<unsigned char>(blocks[i][size - 1]);
      std::free(blocks[i]);
    }
    checksum += sum;
  });
  working.stop();
  const double freed = more();
  sleep_ms(1500);
  const double soon = more();
  sleep_ms(8500);
  bench::report("after_burst", static_cast<double>(each * threads), working, checksum,
                {{"peak_kib", peak}, {"freed_kib", freed}, {"soon_kib", soon}, {"late_kib", more()}});
}
