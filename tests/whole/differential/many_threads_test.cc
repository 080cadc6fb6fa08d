// SPDX-License-Identifier: MIT
//
// many_threads_test.cc: random traces of many threads at once against one shared oracle. Blocks are handed from thread
// to thread through mailboxes, so that many are freed and resized where they were not allocated.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "heaps.h"
#include "random_trace.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

// One place for one block. Nobody waits: who finds it taken goes on.
class alignas(64) Mailbox {
 public:
  bool put(const Block& block) {
    int expected = kEmpty;
    if (!state_.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return false;
    block_ = block;
    state_.store(kFull, std::memory_order_release);
    return true;
  }
  bool take(Block* block) {
    int expected = kFull;
    if (!state_.compare_exchange_strong(expected, kBusy, std::memory_order_acquire)) return false;
    *block = block_;
    state_.store(kEmpty, std::memory_order_release);
    return true;
  }

 private:
  enum { kEmpty, kBusy, kFull };
  std::atomic<int> state_{kEmpty};
  Block block_;
};

constexpr size_t kMailboxes = 256;

template <class Heap> void run_threads(unsigned count, uint64_t length, unsigned hand_over_percent) {
  const uint64_t seed = test_seed();
  LiveSet live;
  auto mailboxes = std::make_unique<Mailbox[]>(kMailboxes);
  std::vector<std::string> faults(count);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < count; ++t) {
    threads.emplace_back([&, t] {
      RandomTrace steps(seed + t * 7919);
      Random random(seed ^ (t * 104729 + 1));
      TraceMachine<Heap> machine(live, t << 24, {.slots = 512, .live_bytes = size_t{8} << 20, .huge = false});
      bool sound = true;
      for (uint64_t i = 0; sound && i < length; ++i) {
        sound = machine.run(steps.next());
        if (!sound || !random.chance(hand_over_percent)) continue;
        const size_t slot = random.below(512);
        Mailbox& mailbox = mailboxes[random.below(kMailboxes)];
        if (Block received; mailbox.take(&received)) {
          sound = machine.put(slot, received);
        } else {
          const Block given = machine.take(slot);
          if (given.start != nullptr && !mailbox.put(given)) sound = machine.put(slot, given);
        }
      }
      if (sound) sound = machine.finish();
      if (!sound) faults[t] = machine.fault();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (unsigned t = 0; t < count; ++t)
    ASSERT_EQ(faults[t], "") << "thread " << t << " of " << count << " of FREEWAY_TEST_SEED=" << seed;
  TraceMachine<Heap> last(live, count << 24, {});
  for (size_t i = 0; i < kMailboxes; ++i) {
    if (Block block; mailboxes[i].take(&block)) { ASSERT_TRUE(last.put(0, block)) << last.fault(); }
  }
  ASSERT_TRUE(last.finish()) << last.fault();
  EXPECT_TRUE(live.empty());
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
  proof("fuzzing", "random traces, many threads", "operations", count * length);
}

// All threads together.
uint64_t total_steps() { return number_from_environment("FREEWAY_TEST_STEPS", 400000); }

TEST(ManyThreads, AsManyAsProcessorsKeepEveryPromise) { run_threads<FreewayHeap>(2, total_steps() / 2, 10); }
TEST(ManyThreads, MoreThanProcessorsKeepEveryPromise) { run_threads<FreewayHeap>(8, total_steps() / 8, 10); }
TEST(ManyThreads, ManyMoreThanProcessorsKeepEveryPromise) { run_threads<FreewayHeap>(32, total_steps() / 32, 10); }
TEST(ManyThreads, HandingOverMostBlocksKeepsEveryPromise) { run_threads<FreewayHeap>(8, total_steps() / 8, 80); }
#if !defined(FREEWAY_TEST_TWINS_ONLY)
TEST(ManyThreads, TheStandardNamesKeepEveryPromise) { run_threads<StandardHeap>(8, total_steps() / 8, 20); }
#endif

}  // namespace
}  // namespace freeway::test
