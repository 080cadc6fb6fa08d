// SPDX-License-Identifier: MIT
//
// batch: allocate 32 blocks, then free them in the order in which they came, over and over.
//
// One operation is one malloc and one free. --size (bytes, 32), --count (blocks a batch, 32), --shrink.
#include "support/measure.h"

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 32));
  const auto count = static_cast<std::size_t>(bench::number_argument(argc, argv, "count", 32));
  const long batches = bench::scaled(argc, argv, 40'000'000 / static_cast<long>(count));
  bench::MappedArray<void*> blocks(count);
  std::uint64_t checksum = 0;
  bench::Stopwatch watch;
  watch.start();
  for (long batch = 0; batch < batches; ++batch) {
    for (std::size_t i = 0; i < count; ++i) {
      blocks[i] = bench::must_malloc(size);
      bench::stamp(blocks[i], static_cast<std::uint64_t>(batch) ^ i);
    }
    for (std::size_t i = 0; i < count; ++i) {
      checksum += bench::stamp_of(blocks[i]);
      std::free(blocks[i]);
    }
  }
  watch.stop();
  bench::report("batch", static_cast<double>(batches) * static_cast<double>(count), watch, checksum);
}
