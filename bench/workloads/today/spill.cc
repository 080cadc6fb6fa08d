// SPDX-License-Identifier: MIT
//
// spill: allocate 10^6 blocks of one size, then free them all, in the order of allocation, reversed or shuffled, for
// several rounds. Nothing fits into a thread's cache: the path between cache and shared heap is what is measured.
//
// One operation is one malloc and one free; alloc_ns and free_ns tell them apart (CPU time, ns each).
// --size (bytes, 64), --order in|reversed|shuffled, --count (10^6), --rounds (6), --shrink.
#include <algorithm>

#include "support/measure.h"

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 64));
  const auto count = static_cast<std::size_t>(bench::scaled(argc, argv, 1'000'000));
  const long rounds = bench::number_argument(argc, argv, "rounds", 6);
  const char* order = bench::text_argument(argc, argv, "order", "in");
  bench::MappedArray<void*> blocks(count);
  bench::MappedArray<std::uint32_t> turn(count);
  for (std::size_t i = 0; i < count; ++i) turn[i] = static_cast<std::uint32_t>(i);
  bench::Random random(count);
  if (std::strcmp(order, "reversed") == 0) {
    std::reverse(turn.begin(), turn.end());
  } else if (std::strcmp(order, "shuffled") == 0) {
    turn.shuffle(random);
  } else if (std::strcmp(order, "in") != 0) {
    std::fprintf(stderr, "--order: in, reversed or shuffled\n");
    return 2;
  }
  std::uint64_t checksum = 0;
  bench::Stopwatch allocating;
  bench::Stopwatch freeing;
  bench::Stopwatch both;
  for (long round = 0; round < rounds; ++round) {
    both.start();
    allocating.start();
    for (std::size_t i = 0; i < count; ++i) {
      blocks[i] = bench::must_malloc(size);
      bench::stamp(blocks[i], i ^ static_cast<std::uint64_t>(round));
    }
    allocating.stop();
    freeing.start();
    for (const std::uint32_t i : turn) std::free(blocks[i]);
    freeing.stop();
    both.stop();
  }
  // Once more, untimed: reading the blocks inside the rounds would warm the cache for the frees.
  for (std::size_t i = 0; i < count; ++i) bench::stamp(blocks[i] = bench::must_malloc(size), i);
  for (const std::uint32_t i : turn) {
    checksum = checksum * 31 + bench::stamp_of(blocks[i]);
    std::free(blocks[i]);
  }
  const double ops = static_cast<double>(rounds) * static_cast<double>(count);
  bench::report("spill", ops, both, checksum,
                {{"alloc_ns", bench::ns_each(allocating.cpu(), ops)}, {"free_ns", bench::ns_each(freeing.cpu(), ops)}});
}
