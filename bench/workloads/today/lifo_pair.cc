// SPDX-License-Identifier: MIT
//
// lifo_pair: malloc and free of one block at a time, the shortest way through an allocator.
//
// One operation is one malloc and one free. --size (bytes, 32), --shrink.
#include "support/measure.h"

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 32));
  const long pairs = bench::scaled(argc, argv, 60'000'000);
  std::uint64_t checksum = 0;
  bench::Stopwatch watch;
  watch.start();
  for (long i = 0; i < pairs; ++i) {
    void* block = bench::must_malloc(size);
    bench::stamp(block, static_cast<std::uint64_t>(i));
    checksum += bench::stamp_of(block);
    std::free(block);
  }
  watch.stop();
  bench::report("lifo_pair", static_cast<double>(pairs), watch, checksum);
}
