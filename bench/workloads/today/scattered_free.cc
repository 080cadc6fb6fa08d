// SPDX-License-Identifier: MIT
//
// scattered_free: a heap of 10^6 small blocks of which a random tenth is freed and allocated again, over and over: what
// a program with a big long-lived heap does. Consecutive frees hit different superblocks, nothing becomes empty.
//
// One operation is one free and one malloc; free_ns and alloc_ns tell them apart (CPU ns each).
// --size (bytes, 48), --count (10^6), --rounds (40), --shrink.
#include "support/measure.h"

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 48));
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 1'000'000));
  const long rounds = bench::number_argument(argc, argv, "rounds", 40);
  const std::size_t part = count / 10 > 0 ? count / 10 : 1;
  bench::MappedArray<void*> blocks(count);
  bench::Random random(5);
  for (auto& block : blocks) bench::stamp(block = bench::must_malloc(size), random.next());
  bench::Stopwatch freeing;
  bench::Stopwatch allocating;
  bench::Stopwatch both;
  std::uint64_t checksum = 0;
  for (long round = 0; round < rounds; ++round) {
    // Brings a random part to the front, outside the timed part.
    for (std::size_t i = 0; i < part; ++i) std::swap(blocks[i], blocks[i + random.below(count - i)]);
    for (std::size_t i = 0; i < part; ++i) checksum += bench::stamp_of(blocks[i]);
    both.start();
    freeing.start();
    for (std::size_t i = 0; i < part; ++i) std::free(blocks[i]);
    freeing.stop();
    allocating.start();
    for (std::size_t i = 0; i < part; ++i) bench::escape(blocks[i] = bench::must_malloc(size));
    allocating.stop();
    both.stop();
    for (std::size_t i = 0; i < part; ++i) bench::stamp(blocks[i], random.next());
  }
  for (void* block : blocks) checksum += bench::stamp_of(block);
  const double ops = static_cast<double>(rounds) * static_cast<double>(part);
  bench::report("scattered_free", ops, both, checksum,
                {{"free_ns", bench::ns_each(freeing.cpu(), ops)}, {"alloc_ns", bench::ns_each(allocating.cpu(), ops)}});
}
