// SPDX-License-Identifier: MIT
//
// remote_free_test.cc: more threads than processors send each other blocks through lock-free mailboxes; whoever gets
// one checks every byte and frees it. Nothing may be lost: what was made equals what was freed.
#include <freeway/freeway.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "stress_test.h"
#include "tests/support/engine_under_test.h"

namespace freeway::test {
namespace {

uint64_t total_parcels() { return number_from_environment("FREEWAY_TEST_STEPS", 600000); }

// `to_others`: how many in a hundred parcels are freed by another thread than the one that made them.
void exchange_parcels(unsigned threads, unsigned to_others) {
  const uint64_t seed = test_seed();
  auto mailboxes = std::make_unique<ParcelStack[]>(threads);
  std::atomic<long> made{0}, freed{0}, damaged{0}, refused{0};
  std::vector<std::thread> workers;
  for (unsigned self = 0; self < threads; ++self) {
    workers.emplace_back([&, self] {
      Random random(seed + self);
      long own_made = 0, own_freed = 0;
      for (uint64_t i = total_parcels() / threads; i > 0; --i) {
        Parcel* parcel = make_parcel(program_like_size(random), uint32_t(random.next()));
        if (parcel == nullptr) {
          ++refused;
          continue;
        }
        ++own_made;
        mailboxes[random.chance(to_others) ? random.below(threads) : self].post(parcel);
        if (!random.chance(5)) continue;
        const long count = free_chain(mailboxes[self].take_all());
        if (count < 0) {
          ++damaged;
          return;
        }
        own_freed += count;
      }
      made += own_made;
      freed += own_freed;
    });
  }
  for (std::thread& worker : workers) worker.join();
  ASSERT_EQ(damaged, 0) << "FREEWAY_TEST_SEED=" << seed;
  EXPECT_EQ(refused, 0);
  for (unsigned self = 0; self < threads; ++self) {
    const long count = free_chain(mailboxes[self].take_all());
    ASSERT_GE(count, 0);
    freed += count;
  }
  EXPECT_EQ(made, freed);
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

TEST(RemoteFree, EightThreadsFreeingEachOthersBlocks) { exchange_parcels(8, 90); }
TEST(RemoteFree, SixteenThreadsFreeingMostlyTheirOwn) { exchange_parcels(16, 10); }
TEST(RemoteFree, ThirtyTwoThreadsFreeingEachOthersBlocks) { exchange_parcels(32, 50); }

// One allocates all, the others free: the classic way to make per-thread caches grow without bound.
TEST(RemoteFree, WhatOneThreadMakesOthersFreeAndItUsesAgain) {
  constexpr unsigned kConsumers = 7;
  constexpr size_t kInFlight = 2000;  // per consumer
  const uint64_t seed = test_seed();
  auto mailboxes = std::make_unique<ParcelStack[]>(kConsumers);
  std::atomic<long> in_flight[kConsumers] = {};
  std::atomic<bool> done{false}, damaged{false};
  std::vector<std::thread> consumers;
  for (unsigned self = 0; self < kConsumers; ++self) {
    consumers.emplace_back([&, self] {
      for (;;) {
        const bool last = done.load(std::memory_order_acquire);
        const long count = free_chain(mailboxes[self].take_all());
        if (count < 0) damaged = true;
        in_flight[self].fetch_sub(count, std::memory_order_relaxed);
        if (last) return;
        if (count == 0) std::this_thread::yield();
      }
    });
  }
  const size_t before = anonymous_rss();
  size_t peak = 0;
  Random random(seed);
  const uint64_t count = total_parcels();
  for (uint64_t i = 0; i < count && !damaged; ++i) {
    const unsigned to = unsigned(random.below(kConsumers));
    while (in_flight[to].load(std::memory_order_relaxed) >= long(kInFlight)) std::this_thread::yield();
    Parcel* parcel = make_parcel(16 + random.below(1000), uint32_t(i));
    ASSERT_NE(parcel, nullptr);
    in_flight[to].fetch_add(1, std::memory_order_relaxed);
    mailboxes[to].post(parcel);
    if (i % 50000 == 0) peak = std::max(peak, anonymous_rss());
  }
  done.store(true, std::memory_order_release);
  for (std::thread& consumer : consumers) consumer.join();
  EXPECT_FALSE(damaged) << "FREEWAY_TEST_SEED=" << seed;
  if (on_engine("hmalloc")) return;  // 4 MiB a class: papers/hmalloc/tests/footprint_test.cc
  // Alive at once: 7 x 2,000 blocks of at most 1 KiB; through the process went hundreds of megabytes.
  EXPECT_LE(peak, before + 2 * kConsumers * kInFlight * kKiB + 32 * kMiB);
}

}  // namespace
}  // namespace freeway::test
