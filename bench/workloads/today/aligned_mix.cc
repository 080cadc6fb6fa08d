// SPDX-License-Identifier: MIT
//
// aligned_mix: random replacement of aligned blocks: alignments from 16 bytes to a page, as vector code, caches, I/O
// buffers and page-aligned tables ask for them, by posix_memalign, aligned_alloc and memalign in turns. One block in
// four is an ordinary one.
//
// One operation is one free and one allocation. --slots (5000), --steps (10^7), --most (largest alignment, bytes,
// 4096), --shrink. Sizes: 16 to 2048 bytes. misaligned: blocks that were not aligned as asked. That is a fault of the
// allocator (one that is measured here has it), but none of the work.
#include <bit>

#include "support/measure.h"

namespace {

void* allocate(std::size_t alignment, std::size_t size, std::uint64_t which, long& misaligned) {
  void* block = nullptr;
  if (which == 0) return bench::must_malloc(size);
  if (which == 1) {
    if (posix_memalign(&block, alignment, size) != 0) bench::die("posix_memalign");
  } else if (which == 2) {
    block = std::aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
  } else {
    block = memalign(alignment, size);
  }
  if (block == nullptr) bench::die("an aligned block");
  misaligned += reinterpret_cast<std::uintptr_t>(block) % alignment != 0 ? 1 : 0;
  return block;
}

}  // namespace

int main(int argc, char** argv) {
  const auto slots = static_cast<std::size_t>(bench::number_argument(argc, argv, "slots", 5000));
  const long steps = bench::scaled(argc, argv, bench::number_argument(argc, argv, "steps", 10'000'000));
  const auto most = static_cast<std::size_t>(bench::number_argument(argc, argv, "most", 4096));
  if (most < 16 || !std::has_single_bit(most)) {
    std::fprintf(stderr, "--most: a power of two, at least 16\n");
    return 2;
  }
  const auto alignments = static_cast<std::uint64_t>(std::countr_zero(most)) - 3;  // 16, 32, … most
  bench::MappedArray<void*> blocks(slots);
  bench::Random random(51);
  std::uint64_t checksum = 0;
  long misaligned = 0;
  bench::Stopwatch watch;
  watch.start();
  for (long step = 0; step < steps; ++step) {
    const std::uint64_t bits = random.next();
    void*& block = blocks[((bits & 0xffff'ffffu) * slots) >> 32];
    if (block != nullptr) {
      checksum += bench::stamp_of(block);
      std::free(block);
    }
    // Small alignments more often: each half as often as the one below it.
    const auto doublings = static_cast<std::uint64_t>(std::countr_zero(bits >> 50 | 0x2000)) % alignments;
    block = allocate(std::size_t{16} << doublings, 16 + (bits >> 36) % 2033, bits >> 34 & 3, misaligned);
    bench::stamp(block, bits);
  }
  for (void* block : blocks)
    if (block != nullptr) {
      checksum += bench::stamp_of(block);
      std::free(block);
    }
  watch.stop();
  bench::report("aligned_mix", static_cast<double>(steps), watch, checksum,
                {{"misaligned", static_cast<double>(misaligned)}});
}
