// SPDX-License-Identifier: MIT
//
// large_blocks: blocks of 1 to 64 MiB over and over, a few alive at a time, each written once in every page. An
// allocator that gives them back to the kernel at once pays a page fault for every page every time.
//
// One operation is one malloc and one free. --slots (4), --steps (100), --min, --max (KiB, 1024 and 65536), --shrink.
#include "support/measure.h"

int main(int argc, char** argv) {
  const auto slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 4));
  const long steps = bench::scaled(argc, argv, bench::number_argument(argc, argv, "steps", 100));
  const auto min = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "min", 1024));
  const auto max = static_cast<std::uint64_t>(bench::number_argument(argc, argv, "max", 65536));
  constexpr std::size_t kPage = 4096;
  struct Slot {
    char* block;
    std::size_t size;
  };
  bench::MappedArray<Slot> held(slots);
  bench::Random random(1);
  std::uint64_t checksum = 0;
  auto drop = [&checksum](Slot& slot) {
    if (slot.block == nullptr) return;
    checksum += bench::stamp_of(slot.block) + static_cast<unsigned char>(slot.block[(slot.size - 1) / kPage * kPage]);
    std::free(slot.block);
  };
  bench::Stopwatch watch;
  watch.start();
  for (long step = 0; step < steps; ++step) {
    Slot& slot = held[random.below(slots)];
    drop(slot);
    slot.size = random.between(min, max) * 1024;
    slot.block = static_cast<char*>(bench::must_malloc(slot.size));
    for (std::size_t at = 0; at < slot.size; at += kPage) slot.block[at] = static_cast<char>(at / kPage);
    bench::escape(slot.block);
    bench::stamp(slot.block, static_cast<std::uint64_t>(step));
  }
  for (Slot& slot : held) drop(slot);
  watch.stop();
  bench::report("large_blocks", static_cast<double>(steps), watch, checksum,
                {{"us_each", watch.cpu() * 1e6 / static_cast<double>(steps)}});
}
