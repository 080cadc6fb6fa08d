// SPDX-License-Identifier: MIT
//
// phases: T threads that each allocate thousands of small blocks and then free them all, phase after phase, as a compiler
// does for each function or a server for each request. Magazines that hold a hundred blocks overflow all the time here.
//
// One operation is one malloc and one free. --threads (2), --blocks (a phase, 3000), --phases (of all threads, 20000),
// --shrink. Sizes: 16 to 256 bytes. Every other phase frees in reverse.
#include <thread>

#include "support/measure.h"

namespace {

struct alignas(128) Sum {
  std::uint64_t checksum = 0;
};

std::uint64_t work(std::uint64_t seed, std::size_t blocks, long phases) {
  bench::Random random(seed);
  bench::MappedArray<void*> held(blocks);
  std::uint64_t checksum = 0;
  for (long phase = 0; phase < phases; ++phase) {
    for (auto& block : held) {
      const std::uint64_t bits = random.next();
      block = bench::must_malloc(16 + (bits >> 56) % 241);
      bench::stamp(block, bits);
    }
    for (std::size_t i = 0; i < blocks; ++i) {
      void* block = held[(phase & 1) != 0 ? blocks - 1 - i : i];
      checksum += bench::stamp_of(block);
      std::free(block);
    }
  }
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  const long threads = bench::number_argument(argc, argv, "threads", 2);
  const auto blocks = static_cast<std::size_t>(bench::number_argument(argc, argv, "blocks", 3000));
  const long phases = bench::scaled(argc, argv, bench::number_argument(argc, argv, "phases", 20000) / threads);
  bench::MappedArray<Sum> sums(static_cast<std::size_t>(threads));
  bench::Stopwatch watch;
  watch.start();
  {
    std::vector<std::thread> workers;
    for (std::size_t t = 0; t < static_cast<std::size_t>(threads); ++t)
      workers.emplace_back([&, t] { sums[t].checksum = work(t + 1, blocks, phases); });
    for (auto& worker : workers) worker.join();
  }
  watch.stop();
  std::uint64_t checksum = 0;
  for (const Sum& sum : sums) checksum += sum.checksum;
  bench::report("phases", static_cast<double>(phases * threads) * static_cast<double>(blocks), watch, checksum);
}
