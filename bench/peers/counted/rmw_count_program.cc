// SPDX-License-Identifier: MIT
//
// rmw_count: atomic read-modify-write instructions a block, in a counted build of Freeway or of an engine
// (LD_PRELOAD=libfreeway-counted.so or libfreeway-<engine>-counted.so; under any other malloc it ends with status 2).
// Each thread reads its own count before and after; the first part of each run is not counted, the steady state is.
//
//   local_pair      malloc(64) + free by one thread, while there are two                      a pair
//   remote_free     64 B made by one thread and freed by another on another CPU, up to 32 batches of 256 behind: the
//                   instructions of both                                                      a block
//   random_replace  two threads, each with 1000 slots of 16 to 1024 B                         a replacement
//   larson          the same, but the slots go to a new thread 50 times                       a replacement
//   kib_pair        malloc + free of 2^i KiB, i in 0...7 at random                            a pair
//
// Not in the count: plain instructions without the lock prefix that one thread may use while it is alone (the program
// always has a second one), and what a thread does after its last statement. --blocks (of each part, 300000), --shrink.
#include <dlfcn.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "support/measure.h"

namespace {

using Counter = unsigned long (*)();
Counter counted_rmw;
std::atomic<unsigned long> total;
std::atomic<std::uint64_t> checksum;

// Adds what the calling thread counts while it lives.
class Counted {
 public:
  Counted() : before_(counted_rmw()) {}
  ~Counted() { total += counted_rmw() - before_; }

 private:
  unsigned long before_;
};

double taken(long blocks) { return static_cast<double>(total.exchange(0)) / static_cast<double>(blocks); }

// Binds the calling thread to the `index`-th CPU that it may use, so that "another thread" is another CPU as well.
void bind(int index) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) bench::die("sched_getaffinity");
  index %= CPU_COUNT(&allowed);
  int cpu = 0;
  while (!CPU_ISSET(cpu, &allowed) || index-- > 0) ++cpu;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one) != 0) bench::die("sched_setaffinity");
}

double local_pair(long blocks) {
  const auto pairs = [](long count) {
    for (long i = 0; i < count; ++i) {
      void* block = bench::must_malloc(64);
      bench::escape(block);
      std::free(block);
    }
  };
  pairs(1000);
  {
    const Counted counted;
    pairs(blocks);
  }
  return taken(blocks);
}

constexpr long kBatch = 256;
constexpr long kRing = 32;  // batches

// Single producer, single consumer: the producer alone writes `filled`, the consumer alone `emptied`.
struct Ring {
  alignas(128) std::atomic<long> filled{0};
  alignas(128) std::atomic<long> emptied{0};
  bench::MappedArray<void*> blocks{kBatch * kRing};
  void** batch(long turn) { return &blocks[static_cast<std::size_t>(turn % kRing * kBatch)]; }
};

void produce(Ring& ring, long from, long to) {
  for (long turn = from; turn < to; ++turn) {
    while (turn - ring.emptied.load(std::memory_order_acquire) >= kRing) sched_yield();
    for (long i = 0; i < kBatch; ++i) {
      ring.batch(turn)[i] = bench::must_malloc(64);
      bench::stamp(ring.batch(turn)[i], static_cast<std::uint64_t>(turn * kBatch + i));
    }
    ring.filled.store(turn + 1, std::memory_order_release);
  }
}

void consume(Ring& ring, long from, long to) {
  std::uint64_t sum = 0;
  for (long turn = from; turn < to; ++turn) {
    while (ring.filled.load(std::memory_order_acquire) <= turn) sched_yield();
    for (long i = 0; i < kBatch; ++i) {
      sum += bench::stamp_of(ring.batch(turn)[i]);
      std::free(ring.batch(turn)[i]);
    }
    ring.emptied.store(turn + 1, std::memory_order_release);
  }
  checksum += sum;
}

double remote_free(long blocks) {
  const long warm = 64;
  const long batches = warm + std::max(blocks / kBatch, kRing);
  Ring ring;
  const auto both = [&](int cpu, auto&& work) {
    return std::thread([&ring, cpu, work, batches] {
      bind(cpu);
      work(ring, 0, warm);
      const Counted counted;
      work(ring, warm, batches);
      // The maker lives until the last block is freed: those of a thread that has ended are another matter.
      while (ring.emptied.load(std::memory_order_acquire) < batches) sched_yield();
    });
  };
  std::thread producer = both(0, produce);
  std::thread consumer = both(1, consume);
  producer.join();
  consumer.join();
  return taken((batches - warm) * kBatch);
}

constexpr std::size_t kSlots = 1000;

void replace(void** slots, bench::Random& random, long steps) {
  std::uint64_t sum = 0;
  for (long i = 0; i < steps; ++i) {
    void*& block = slots[random.below(kSlots)];
    sum += bench::stamp_of(block);
    std::free(block);
    block = bench::must_malloc(random.between(16, 1024));
    bench::stamp(block, random.next());
  }
  checksum += sum;
}

// Two lanes of `generations` threads one after another; each thread but the first of a lane frees what others made.
double replacement(long blocks, long generations) {
  bench::MappedArray<void*> slots(2 * kSlots);
  const long steps = blocks / 2 / generations;
  const auto lane = [&](int index) {
    void** mine = &slots[static_cast<std::size_t>(index) * kSlots];
    bench::Random random(static_cast<std::uint64_t>(index) + 1);
    for (long generation = 0; generation < generations; ++generation)
      std::thread([&, generation] {
        bind(index);
        if (generation == 0) {
          for (std::size_t i = 0; i < kSlots; ++i) {
            mine[i] = bench::must_malloc(random.between(16, 1024));
            bench::stamp(mine[i], i);
          }
          replace(mine, random, steps);
        }
        const Counted counted;
        replace(mine, random, steps);
      }).join();
    for (std::size_t i = 0; i < kSlots; ++i) std::free(mine[i]);
  };
  std::thread one(lane, 0), two(lane, 1);
  one.join();
  two.join();
  return taken(steps * generations * 2);
}

double kib_pair(long blocks) {
  bench::Random random(11);
  const Counted counted;
  const unsigned long before = counted_rmw();
  for (long i = 0; i < blocks; ++i) {
    void* block = bench::must_malloc(std::size_t{1024} << random.below(8));
    bench::escape(block);
    std::free(block);
  }
  return static_cast<double>(counted_rmw() - before) / static_cast<double>(blocks);
}

}  // namespace

int main(int argc, char** argv) {
  counted_rmw = reinterpret_cast<Counter>(dlsym(RTLD_DEFAULT, "freeway_counted_rmw"));
  if (counted_rmw == nullptr) {
    std::fprintf(stderr, "rmw_count: the malloc in use counts nothing: preload a counted build\n");
    return 2;
  }
  const long blocks = bench::scaled(argc, argv, bench::number_argument(argc, argv, "blocks", 300'000));
  std::atomic<bool> ended{false};
  std::thread second([&] { ended.wait(false); });
  bench::Stopwatch watch;
  watch.start();
  const double pair = local_pair(blocks), remote = remote_free(blocks), random = replacement(blocks, 1),
               handed = replacement(blocks, 50), sized = kib_pair(blocks);
  watch.stop();
  ended = true;
  ended.notify_all();
  second.join();
  bench::report("rmw_count", static_cast<double>(blocks) * 5, watch, checksum,
                {{"local_pair", pair},
                 {"remote_free", remote},
                 {"random_replace", random},
                 {"larson", handed},
                 {"kib_pair", sized}});
}
