// SPDX-License-Identifier: MIT
//
// producer_consumer: one thread allocates, another frees. No block is ever freed by the thread (or, on two CPUs, the
// CPU) that made it, so everything must find its way back.
//
// The blocks travel in a ring of batches; the waiting is by yield, so on one CPU it works too.
// One operation is one malloc and one free. --size (bytes, 64), --batch (blocks, 64), --ring (batches, 64), --shrink.
#include <sched.h>

#include <atomic>
#include <thread>

#include "support/measure.h"

namespace {

// Single producer, single consumer: `filled` is written by the producer only, `emptied` by the consumer only.
struct Ring {
  alignas(128) std::atomic<long> filled{0};
  alignas(128) std::atomic<long> emptied{0};
};

}  // namespace

int main(int argc, char** argv) {
  const auto size = static_cast<std::size_t>(bench::number_argument(argc, argv, "size", 64));
  const long batch = bench::number_argument(argc, argv, "batch", 64);
  const long ring_size = bench::number_argument(argc, argv, "ring", 64);
  const long batches = bench::scaled(argc, argv, 12'000'000 / batch);
  bench::MappedArray<void*> blocks(static_cast<std::size_t>(batch * ring_size));
  Ring ring;
  std::uint64_t checksum = 0;
  bench::Stopwatch watch;
  watch.start();
  std::thread producer([&] {
    for (long turn = 0; turn < batches; ++turn) {
      while (turn - ring.emptied.load(std::memory_order_acquire) >= ring_size) sched_yield();
      void** place = &blocks[static_cast<std::size_t>((turn % ring_size) * batch)];
      for (long i = 0; i < batch; ++i) {
        place[i] = bench::must_malloc(size);
        bench::stamp(place[i], static_cast<std::uint64_t>(turn * batch + i));
      }
      ring.filled.store(turn + 1, std::memory_order_release);
    }
  });
  std::thread consumer([&] {
    std::uint64_t sum = 0;
    for (long turn = 0; turn < batches; ++turn) {
      while (ring.filled.load(std::memory_order_acquire) <= turn) sched_yield();
      void** place = &blocks[static_cast<std::size_t>((turn % ring_size) * batch)];
      for (long i = 0; i < batch; ++i) {
        sum += bench::stamp_of(place[i]);
        std::free(place[i]);
      }
      ring.emptied.store(turn + 1, std::memory_order_release);
    }
    checksum = sum;
  });
  producer.join();
  consumer.join();
  watch.stop();
  bench::report("producer_consumer", static_cast<double>(batches) * static_cast<double>(batch), watch, checksum);
}
