// SPDX-License-Identifier: MIT
//
// Tests of arch/atomic.h: each operation does what its name says, for each width, and does it at once.
#include "arch/atomic.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace freeway::test {
namespace {

template <class T> class AtomicTest : public testing::Test {};
using Words = testing::Types<u8, u16, u32, u64, i64, std::size_t>;
TYPED_TEST_SUITE(AtomicTest, Words);

#define FREEWAY_FOR_EACH_ORDER(test) test(relaxed) test(acquire) test(release) test(acq_rel)

TYPED_TEST(AtomicTest, BeginsWithZeroOrWhatItIsGiven) {
  EXPECT_EQ(Atomic<TypeParam>().load_relaxed(), TypeParam{0});
  EXPECT_EQ(Atomic<TypeParam>(TypeParam{7}).load_acquire(), TypeParam{7});
  EXPECT_EQ(sizeof(Atomic<TypeParam>), sizeof(TypeParam));
}

TYPED_TEST(AtomicTest, StoresAreLoaded) {
  Atomic<TypeParam> word;
  word.store_relaxed(TypeParam{5});
  EXPECT_EQ(word.load_acquire(), TypeParam{5});
  word.store_release(static_cast<TypeParam>(~TypeParam{0}));
  EXPECT_EQ(word.load_relaxed(), static_cast<TypeParam>(~TypeParam{0}));
}

TYPED_TEST(AtomicTest, ReadModifyWritesAnswerWithWhatWasThere) {
  using T = TypeParam;
  Atomic<T> word;
#define FREEWAY_TRY(order)                          \
  word.store_relaxed(T{12});                        \
  EXPECT_EQ(word.exchange_##order(T{100}), T{12});  \
  EXPECT_EQ(word.fetch_add_##order(T{5}), T{100});  \
  EXPECT_EQ(word.fetch_sub_##order(T{2}), T{105});  \
  EXPECT_EQ(word.fetch_or_##order(T{24}), T{103});  \
  EXPECT_EQ(word.fetch_and_##order(T{60}), T{127}); \
  EXPECT_EQ(word.load_relaxed(), T{60});
  FREEWAY_FOR_EACH_ORDER(FREEWAY_TRY)
#undef FREEWAY_TRY
}

TYPED_TEST(AtomicTest, ACompareAndSwapSwapsWhatIsExpectedAndElseSaysWhatItSaw) {
  using T = TypeParam;
  Atomic<T> word;
#define FREEWAY_TRY(order)                                      \
  {                                                             \
    word.store_relaxed(T{3});                                   \
    T expected{4};                                              \
    EXPECT_FALSE(word.cas_##order(expected, T{9})) << #order;   \
    EXPECT_EQ(expected, T{3});                                  \
    EXPECT_EQ(word.load_relaxed(), T{3});                       \
    EXPECT_TRUE(word.cas_##order(expected, T{9})) << #order;    \
    EXPECT_EQ(word.load_relaxed(), T{9});                       \
  }
  FREEWAY_FOR_EACH_ORDER(FREEWAY_TRY)
  FREEWAY_TRY(relaxed_acquire)
  FREEWAY_TRY(acquire_acquire)
  FREEWAY_TRY(acq_rel_acquire)
#undef FREEWAY_TRY
}

TYPED_TEST(AtomicTest, BetweenThreadsNoChangeIsLost) {
  using T = TypeParam;
  constexpr int kThreads = 3, kRounds = 20000;
  Atomic<T> sum, swapped;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kRounds; ++i) {
        sum.fetch_add_relaxed(T{1});
        T seen = swapped.load_relaxed();
        while (!swapped.cas_acq_rel(seen, static_cast<T>(seen + 1))) {}
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum.load_relaxed(), static_cast<T>(kThreads * kRounds));
  EXPECT_EQ(swapped.load_relaxed(), static_cast<T>(kThreads * kRounds));
}

TEST(Atomic, WhatIsExchangedBetweenThreadsComesBackOnce) {
  constexpr u64 kThreads = 3, kRounds = 50000;
  Atomic<u64> word;
  std::vector<std::vector<u64>> received(kThreads);
  std::vector<std::thread> threads;
  for (u64 t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (u64 i = 0; i < kRounds; ++i) received[t].push_back(word.exchange_acq_rel(1 + t * kRounds + i));
    });
  for (auto& thread : threads) thread.join();
  std::vector<int> times(kThreads * kRounds + 1);
  for (const auto& values : received)
    for (u64 value : values) ++times[value];
  ++times[word.load_relaxed()];
  for (int n : times) ASSERT_EQ(n, 1);
}

TEST(Atomic, BitsThatThreadsSetAndClearAreTheirOwn) {
  Atomic<u64> word;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&word, bit = u64{1} << (7 * t)] {
      for (int i = 0; i < 50000; ++i) {
        ASSERT_EQ(word.fetch_or_release(bit) & bit, 0u);
        ASSERT_EQ(word.fetch_and_acquire(~bit) & bit, bit);
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(word.load_relaxed(), 0u);
}

TEST(Atomic, HoldsPointers) {
  int a = 0, b = 0;
  Atomic<int*> word(&a);
  int* expected = &b;
  EXPECT_FALSE(word.cas_release(expected, nullptr));
  EXPECT_EQ(expected, &a);
  EXPECT_TRUE(word.cas_release(expected, &b));
  EXPECT_EQ(word.load_acquire(), &b);
  EXPECT_EQ(word.exchange_acq_rel(nullptr), &b);
}

TEST(Atomic, WhatWasReleasedIsAcquired) {
  for (int round = 0; round < 2000; ++round) {
    Atomic<u32> flag;
    u64 data = 0;
    std::thread writer([&] {
      data = 42;
      flag.store_release(1);
    });
    while (flag.load_acquire() == 0) std::this_thread::yield();
    ASSERT_EQ(data, 42u);
    writer.join();
  }
}

TEST(Plain, IsWhatItWasSetTo) {
  Plain<u32> field;
  EXPECT_EQ(field.get(), 0u);
  field.set(9);
  EXPECT_EQ(field.get(), 9u);
  EXPECT_EQ(Plain<u32>(4).get(), 4u);
}

}  // namespace
}  // namespace freeway::test
