// SPDX-License-Identifier: MIT
//
// The queue of lockfree_producer_consumer: nothing is lost or doubled, order is kept, and no node is looked at after it
// was freed (freed nodes are overwritten at once, and only given back at the end).
#include "support/lock_free_fifo.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

namespace {

// Freed nodes become a value that no node may have, and stay so: whoever still reads one hands it out or runs into it.
constexpr std::uintptr_t kFreed = ~std::uintptr_t{0} - 15;

struct Quarantine {
  static inline std::mutex lock;
  static inline std::vector<void*> freed;
  static inline std::atomic<long> live{0};

  static void* allocate(std::size_t size) {
    live.fetch_add(1);
    return std::malloc(size);
  }
  static void free(void* block) {
    live.fetch_sub(1);
    auto* words = static_cast<std::atomic<std::uintptr_t>*>(block);
    words[0].store(kFreed);
    words[1].store(kFreed);
    const std::lock_guard guard(lock);
    freed.push_back(block);
  }
  static void give_back() {
    for (void* block : freed) std::free(block);
    freed.clear();
  }
};

// A value: its producer and its number, never 0 and never kFreed.
void* value_of(std::uintptr_t producer, std::uintptr_t number) {
  return reinterpret_cast<void*>((producer << 32) + number + 1);
}

TEST(LockFreeFifo, GivesBackInOrderWhatOneThreadPutIn) {
  {
    bench::LockFreeFifo<Quarantine> queue(1);
    EXPECT_EQ(queue.dequeue(0), nullptr);
    for (std::uintptr_t i = 0; i < 1000; ++i) queue.enqueue(0, value_of(0, i));
    for (std::uintptr_t i = 0; i < 1000; ++i) EXPECT_EQ(queue.dequeue(0), value_of(0, i));
    EXPECT_EQ(queue.dequeue(0), nullptr);
    // Retired nodes are freed while the queue lives, not only at its end.
    EXPECT_LT(Quarantine::live.load(), 100);
  }
  EXPECT_EQ(Quarantine::live.load(), 0);
  Quarantine::give_back();
}

TEST(LockFreeFifo, FreesEveryNodeWhenItEndsFull) {
  {
    bench::LockFreeFifo<Quarantine> queue(2);
    for (std::uintptr_t i = 0; i < 10; ++i) queue.enqueue(1, value_of(1, i));
  }
  EXPECT_EQ(Quarantine::live.load(), 0);
  Quarantine::give_back();
}

TEST(LockFreeFifo, ThreadsLoseAndDoubleNothingAndKeepEachProducersOrder) {
  constexpr std::uintptr_t kProducers = 2, kEach = 30'000;
  constexpr std::size_t kConsumers = 2;
  std::vector<std::vector<std::uintptr_t>> taken(kConsumers);
  {
    bench::LockFreeFifo<Quarantine> queue(kProducers + kConsumers);
    std::atomic<std::uintptr_t> left{kProducers * kEach};
    std::vector<std::thread> threads;
    for (std::uintptr_t producer = 0; producer < kProducers; ++producer)
      threads.emplace_back([&queue, producer] {
        for (std::uintptr_t i = 0; i < kEach; ++i) queue.enqueue(producer, value_of(producer, i));
      });
    for (std::size_t consumer = 0; consumer < kConsumers; ++consumer)
      threads.emplace_back([&queue, &left, &mine = taken[consumer], consumer] {
        while (left.load() > 0) {
          if (void* value = queue.dequeue(kProducers + consumer)) {
            mine.push_back(reinterpret_cast<std::uintptr_t>(value) - 1);
            left.fetch_sub(1);
          } else {
            sched_yield();
          }
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_EQ(Quarantine::live.load(), 0);
  Quarantine::give_back();

  std::vector<std::vector<int>> seen(kProducers, std::vector<int>(kEach, 0));
  for (const auto& mine : taken) {
    std::vector<std::uintptr_t> next(kProducers, 0);
    for (const std::uintptr_t value : mine) {
      const std::uintptr_t producer = value >> 32, number = value & 0xffff'ffffu;
      ASSERT_LT(producer, kProducers);
      ASSERT_LT(number, kEach);
      EXPECT_GE(number, next[producer]) << "out of order";
      next[producer] = number + 1;
      ++seen[producer][number];
    }
  }
  for (const auto& of_producer : seen)
    for (const int times : of_producer) ASSERT_EQ(times, 1);
}

}  // namespace
