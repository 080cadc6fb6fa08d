// SPDX-License-Identifier: MIT
//
// producer_consumer_test.cc: pairs of threads with a bounded ring between them, one only allocating, the other only
// freeing. Memory stays bounded by what is in the rings, however much goes through.
#include <gtest/gtest.h>

#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "stress_test.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {
namespace {

constexpr size_t kRing = 1024;

// A ring for one producer and one consumer.
class Ring {
 public:
  bool put(Parcel* parcel) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - head_.load(std::memory_order_acquire) == kRing) return false;
    slots_[tail % kRing] = parcel;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }
  Parcel* take() {
    const size_t head = head_.load(std::memory_order_relaxed);
    if (head == tail_.load(std::memory_order_acquire)) return nullptr;
    Parcel* parcel = slots_[head % kRing];
    head_.store(head + 1, std::memory_order_release);
    return parcel;
  }

 private:
  alignas(64) std::atomic<size_t> head_{0};
  alignas(64) std::atomic<size_t> tail_{0};
  Parcel* slots_[kRing];
};

void run_pairs(unsigned pairs, uint64_t parcels, size_t least, size_t most) {
  const uint64_t seed = test_seed();
  auto rings = std::make_unique<Ring[]>(pairs);
  std::atomic<unsigned> running{pairs};
  std::atomic<bool> damaged{false};
  const size_t before = anonymous_rss();
  std::vector<std::thread> threads;
  for (unsigned pair = 0; pair < pairs; ++pair) {
    threads.emplace_back([&, pair] {
      Random random(seed + pair);
      for (uint64_t i = 0; i < parcels && !damaged; ++i) {
        Parcel* parcel = make_parcel(least + random.below(most - least + 1), uint32_t(i));
        if (parcel == nullptr) {
          damaged = true;
          return;
        }
        while (!rings[pair].put(parcel) && !damaged) std::this_thread::yield();
      }
    });
    threads.emplace_back([&, pair] {
      for (uint64_t i = 0; i < parcels && !damaged;) {
        Parcel* parcel = rings[pair].take();
        if (parcel == nullptr) {
          std::this_thread::yield();
          continue;
        }
        if (!is_intact(parcel) || parcel->stamp != uint32_t(i)) damaged = true;
        free(parcel);
        ++i;
      }
      --running;
    });
  }
  size_t peak = 0;
  while (running > 0) {
    peak = std::max(peak, anonymous_rss());
    usleep(5000);
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_FALSE(damaged) << "FREEWAY_TEST_SEED=" << seed;
  const size_t live = pairs * kRing * most;
  if (on_engine("hmalloc") && least != most) return;  // 4 MiB a class: papers/hmalloc/tests/footprint_test.cc
  EXPECT_LE(peak, before + 2 * live + 32 * kMiB) << pairs * parcels * (least + most) / 2 / kMiB << " MiB went through";
}

TEST(ProducerConsumer, OnePairOfFixedSize) { run_pairs(1, 1000000, 64, 64); }
TEST(ProducerConsumer, OnePairOfMixedSizes) { run_pairs(1, 300000, 16, 2000); }
TEST(ProducerConsumer, EightPairsOfMixedSizes) {
  const char* engine = getenv("FREEWAY_TEST_ENGINE");
  if (engine != nullptr && std::string_view(engine) == "streamflow")
    GTEST_SKIP() << "Streamflow fills a page block of each class before it takes back what others freed: its bound is "
                    "in " "papers/streamflow/tests/space_test.cc";
  run_pairs(8, 40000, 16, 2000);
}
TEST(ProducerConsumer, TwoPairsOfLargeBlocks) { run_pairs(2, 10000, 20000, 60000); }

}  // namespace
}  // namespace freeway::test
