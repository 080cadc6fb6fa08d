// SPDX-License-Identifier: MIT
//
// The transactional layer (transaction.h): a store succeeds if nothing came in between since the start, and is annulled
// after a preemption, a migration, a signal or a section of somebody's, wherever these fall.
#include "papers/lfmalloc/transaction.h"

#include <atomic>
#include <thread>

#include "papers/lfmalloc/tests/cpu_world.h"
#include "papers/lfmalloc/tests/interrupt.h"

extern "C" {
extern const freeway::lfmalloc::test::Section freeway_section_lfmalloc_transaction
    __attribute__((visibility("hidden")));
}

namespace freeway::lfmalloc::test {
namespace {

class Transactions : public CpuWorld {
 protected:
  // Starts, does `between`, stores 2 where 1 was. Whether it was stored; it is checked that only then the word changed.
  template <class F> bool store_after(F&& between) {
    word = 1;
    Transaction t;
    EXPECT_EQ(t.cpu(), cpus[0]);
    between(t);
    const bool done = t.store(const_cast<u64*>(&word), 2);
    EXPECT_EQ(word, done ? 2U : 1U);
    return done;
  }
  // A thread of the same CPU runs, and this one does not meanwhile.
  void lose_the_cpu() {
    std::atomic<bool> ran{false};
    std::thread other([&] {
      stay_on(cpus[0]);
      ran.store(true);
    });
    while (!ran.load()) ::sched_yield();
    other.join();
  }
  volatile u64 word = 1;
};

TEST_F(Transactions, UndisturbedOnesLoadAndStore) {
  int done = 0;
  for (int i = 0; i < 1000; ++i) {
    const long switched = switches();
    u64 seen = 0;
    bool loaded = false;
    const bool stored = store_after([&](Transaction& t) { loaded = t.load(const_cast<u64*>(&word), seen); });
    if (switches() != switched) continue;
    EXPECT_TRUE(loaded && stored);
    EXPECT_EQ(seen, 1U);
    ++done;
  }
  EXPECT_GT(done, 0);
}

TEST_F(Transactions, PreemptionBetweenStartAndStoreAnnulsTheStore) {
  EXPECT_FALSE(store_after([&](Transaction&) { lose_the_cpu(); }));
}
TEST_F(Transactions, PreemptionBetweenLoadAndStoreAnnulsTheStore) {
  u64 seen;
  EXPECT_FALSE(store_after([&](Transaction& t) {
    t.load(const_cast<u64*>(&word), seen);
    lose_the_cpu();
    EXPECT_FALSE(t.load(const_cast<u64*>(&word), seen)) << "loads are annulled, too";
  }));
}
TEST_F(Transactions, MigrationAnnulsTheStore) {
  if (cpus.size() < 2) GTEST_SKIP() << "one CPU only";
  EXPECT_FALSE(store_after([&](Transaction&) { stay_on(cpus[1]); }));
  EXPECT_TRUE(stay_on(cpus[0]));
  // There and back again: the CPU is the same, its data may not be.
  EXPECT_FALSE(store_after([&](Transaction&) {
    stay_on(cpus[1]);
    stay_on(cpus[0]);
  }));
}
TEST_F(Transactions, ASignalAnnulsTheStore) {
  static volatile int signals;
  signals = 0;
  ::signal(SIGUSR1, [](int) { signals = signals + 1; });
  EXPECT_FALSE(store_after([](Transaction&) { ::raise(SIGUSR1); }));
  EXPECT_EQ(signals, 1);
}
TEST_F(Transactions, AHandlersOwnTransactionAnnulsTheInterruptedOne) {
  static volatile u64 handlers_word;
  static volatile bool stored;
  ::signal(SIGUSR1, [](int) {
    do {
      Transaction t;
      stored = t.store(const_cast<u64*>(&handlers_word), 7);
    } while (!stored);
  });
  EXPECT_FALSE(store_after([](Transaction&) { ::raise(SIGUSR1); }));
  EXPECT_EQ(handlers_word, 7U);
  ::signal(SIGUSR1, [](int) { Transaction left_without_a_store; });
  EXPECT_FALSE(store_after([](Transaction&) { ::raise(SIGUSR1); }));
}
TEST_F(Transactions, ASectionInBetweenAnnulsTheStore) {
  EXPECT_FALSE(store_after([](Transaction&) { freeway_lfmalloc_pop(kClass + 1); }));
}
TEST_F(Transactions, OneStoreEndsIt) {
  EXPECT_TRUE([&] {
    for (int i = 0; i < 1000; ++i) {  // until nothing comes in between
      Transaction t;
      if (!t.store(const_cast<u64*>(&word), 3)) continue;
      return !t.store(const_cast<u64*>(&word), 4) && word == 3;
    }
    return false;
  }());
}
TEST_F(Transactions, WithoutRegistrationThereAreNone) {
  alignas(32) static thread_local int decoy[8] = {0, -1};
  const u64 place = freeway_rseq.area;
  freeway_rseq.area = reinterpret_cast<u64>(&decoy) - reinterpret_cast<u64>(__builtin_thread_pointer());
  {
    Transaction t;
    u64 seen;
    EXPECT_LT(t.cpu(), 0);
    EXPECT_FALSE(t.load(const_cast<u64*>(&word), seen));
    EXPECT_FALSE(t.store(const_cast<u64*>(&word), 5));
  }
  freeway_rseq.area = place;
  EXPECT_EQ(word, 1U);
}

// The operators themselves, interrupted at every instruction: annulled, unless the store had been made.
TEST_F(Transactions, EveryInstructionOfLoadAndStoreInterrupted) {
  const Section& section = freeway_section_lfmalloc_transaction;
  Interrupt interrupt;
  const std::vector<u64> all = instructions(section.start, section.start + section.length);
  ASSERT_GT(all.size(), 8U) << "objdump (Debian package binutils) gave no instructions";
  int in_store = 0;
  for (const u64 address : all) {
    word = 1;
    bool loaded = true, stored = false;
    u64 seen = 0;
    const u64 before = freeway_lfmalloc_restarts;
    interrupt.at(address, section, [] {});
    {
      Transaction t;
      loaded = t.load(const_cast<u64*>(&word), seen);
      const bool load_passed = !interrupt.arrived;
      stored = t.store(const_cast<u64*>(&word), 2);
      in_store += load_passed;
      if (!load_passed) { EXPECT_FALSE(loaded) << "interrupted at " << address - section.start; }
    }
    EXPECT_TRUE(interrupt.arrived && interrupt.aborted) << address - section.start;
    EXPECT_FALSE(stored) << "interrupted at " << address - section.start;
    EXPECT_EQ(word, 1U);
    EXPECT_GE(*const_cast<volatile u64*>(&freeway_lfmalloc_restarts), before + 1);
  }
  EXPECT_GT(in_store, 3);
  std::printf("  %zu instructions interrupted, %d of them on the way to the store\n", all.size(), in_store);
}

// What it is for: CPU-specific data in C, without an atomic instruction. Counters of each CPU, counted up by many
// threads of each, are exact.
TEST_F(Transactions, CountersOfACpuAreExact) {
  constexpr u64 kCounts = 50000;
  std::vector<u64> counters(RSEQ_IDS * 8);
  std::atomic<u64> annulled{0};
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id)
    threads.emplace_back([&, id] {
      stay_on(cpus[static_cast<std::size_t>(id) % (cpus.size() < 2 ? 1 : 2)]);
      u64 asked = ~u64{0};
      for (u64 i = 0; i < kCounts;) {
        Transaction t;
        u64 count;
        u64* counter = &counters[static_cast<std::size_t>(t.cpu()) * 8];
        const bool loaded = t.load(counter, count);
        if (i % 256 == 0 && asked != i) {  // now and then the other one has the CPU in between
          asked = i;
          ::sched_yield();
        }
        if (loaded && t.store(counter, count + 1)) ++i;
        else annulled.fetch_add(1);
      }
    });
  for (std::thread& each : threads) each.join();
  u64 sum = 0;
  for (const u64 counter : counters) sum += counter;
  EXPECT_EQ(sum, 4 * kCounts);
  EXPECT_GT(annulled.load(), 0U);
  std::printf("  %llu annulled\n", static_cast<unsigned long long>(annulled.load()));
}

}  // namespace
}  // namespace freeway::lfmalloc::test
