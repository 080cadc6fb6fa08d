// SPDX-License-Identifier: MIT
//
// short_threads: ten thousand threads, a few at a time, each allocating blocks of mixed sizes, freeing most and leaving
// the rest to the next thread. What a thread's start and end cost the allocator, and whether memory grows with the
// number of threads that ever lived.
//
// One operation is one malloc and one free. --threads (at a time, 2), --lives (threads in all, 10000),
// --blocks (each thread, 300), --shrink. Sizes: 16 bytes to 32 KiB, each doubling equally often.
#include <thread>

#include "support/measure.h"

namespace {

struct alignas(128) Lane {
  void** inherited;  // what the last thread of this lane left: `left` blocks
  std::uint64_t checksum = 0;
};

constexpr std::size_t kLeftTo = 8;  // one block in eight goes to the next thread

std::size_t mixed_size(std::uint64_t bits) {
  const std::size_t base = std::size_t{16} << (bits % 11);
  return base + ((bits >> 32) & (base - 1));
}

void live(Lane& lane, std::uint64_t seed, std::size_t blocks, void** held) {
  bench::Random random(seed);
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::uint64_t bits = random.next();
    bench::stamp(held[i] = bench::must_malloc(mixed_size(bits)), bits);
  }
  for (std::size_t i = 0; i < blocks; ++i) {
    void*& gone = i % kLeftTo == 0 ? lane.inherited[i / kLeftTo] : held[i];
    if (gone != nullptr) {
      lane.checksum += bench::stamp_of(gone);
      std::free(gone);
    }
    gone = i % kLeftTo == 0 ? held[i] : nullptr;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto threads = static_cast<std::size_t>(bench::number_argument(argc, argv, "threads", 2));
  const auto blocks = static_cast<std::size_t>(bench::number_argument(argc, argv, "blocks", 300));
  const long all_lives = bench::number_argument(argc, argv, "lives", 10'000);
  const auto lives = static_cast<std::size_t>(bench::scaled(argc, argv, all_lives));
  const std::size_t left = blocks / kLeftTo + 1;
  bench::MappedArray<void*> inherited(threads * left);
  bench::MappedArray<void*> held(threads * blocks);
  bench::MappedArray<Lane> lanes(threads);
  for (std::size_t t = 0; t < threads; ++t) lanes[t].inherited = &inherited[t * left];
  const std::size_t rounds = lives / threads > 0 ? lives / threads : 1;
  bench::Stopwatch watch;
  watch.start();
  for (std::size_t round = 0; round < rounds; ++round) {
    std::vector<std::thread> alive;
    for (std::size_t t = 0; t < threads; ++t)
      alive.emplace_back(live, std::ref(lanes[t]), round * threads + t, blocks, &held[t * blocks]);
    for (auto& thread : alive) thread.join();
  }
  watch.stop();
  std::uint64_t checksum = 0;
  for (const Lane& lane : lanes) checksum += lane.checksum;
  for (void* block : inherited)
    if (block != nullptr) {
      checksum += bench::stamp_of(block);
      std::free(block);
    }
  const double ops = static_cast<double>(rounds * threads) * static_cast<double>(blocks);
  bench::report("short_threads", ops, watch, checksum,
                {{"us_each_thread", watch.cpu() * 1e6 / static_cast<double>(rounds * threads)}});
}
