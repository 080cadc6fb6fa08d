// SPDX-License-Identifier: MIT
//
// one_thread_test.cc: random traces of one thread against the oracle (trace.h). FREEWAY_TEST_SEED repeats a run,
// FREEWAY_TEST_STEPS sets the length of each trace.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "heaps.h"
#include "random_trace.h"
#include "tests/support/proof.h"

namespace freeway::test {
namespace {

uint64_t trace_length() { return number_from_environment("FREEWAY_TEST_STEPS", 100000); }

// Nothing is broken when the trace is over either: every frame and block is accounted for.
void expect_sound_heap() {
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

template <class Heap> void run_random_traces(uint64_t traces, typename TraceMachine<Heap>::Limits limits) {
  const uint64_t seed = test_seed();
  for (uint64_t trace = 0; trace < traces; ++trace) {
    LiveSet live;
    RandomTrace steps(seed + trace * 1000003, limits.huge);
    TraceMachine<Heap> machine(live, uint32_t(trace << 24), limits);
    for (uint64_t i = trace_length(); i > 0; --i)
      if (!machine.run(steps.next()))
        FAIL() << machine.fault() << " in trace " << trace << " of FREEWAY_TEST_SEED=" << seed;
    ASSERT_TRUE(machine.finish()) << machine.fault() << " in trace " << trace << " of FREEWAY_TEST_SEED=" << seed;
    EXPECT_TRUE(live.empty());
    expect_sound_heap();
  }
  proof("fuzzing", "random traces", "operations", traces * trace_length());
}

TEST(OneThread, RandomTracesOnTheTwinsKeepEveryPromise) { run_random_traces<FreewayHeap>(4, {}); }

TEST(OneThread, TracesOverManySlotsKeepEveryPromise) {
  run_random_traces<FreewayHeap>(2, {.slots = 4096, .live_bytes = size_t{256} << 20, .huge = false});
}

TEST(OneThread, TracesWithHugeBlocksKeepEveryPromise) {
  run_random_traces<FreewayHeap>(1, {.slots = 1024, .live_bytes = size_t{64} << 20, .huge = true});
}

#if !defined(FREEWAY_TEST_TWINS_ONLY)
TEST(OneThread, RandomTracesOnTheStandardNamesKeepEveryPromise) { run_random_traces<StandardHeap>(2, {}); }
#endif

TEST(Replay, AnyBytesAreATrace) {
  Random random(test_seed());
  Turns turns;
  for (int i = 0; i < 20; ++i) {
    std::vector<uint8_t> bytes(random.below(20000));
    for (uint8_t& byte : bytes) byte = uint8_t(random.next());
    ASSERT_EQ(replay<FreewayHeap>(bytes.data(), bytes.size(), turns).fault, "");
  }
  EXPECT_EQ(replay<FreewayHeap>(nullptr, 0, turns).fault, "");
}

// The oracle itself must be able to say no: allocators with one planted fault each.
struct HandsOutTwice : FreewayHeap {
  static inline void* last = nullptr;
  static inline int calls = 0;
  static void* malloc(size_t size) {
    if (++calls % 100 == 0 && last != nullptr && usable_size(last) >= size) return last;
    return last = FreewayHeap::malloc(size);
  }
  // Only live blocks: a freed one is known to be free.
  static void forget(void* block) {
    if (block == last) last = nullptr;
  }
  static void free(void* block) { forget(block), FreewayHeap::free(block); }
  static void free_sized(void* block, size_t size) { forget(block), FreewayHeap::free_sized(block, size); }
  static void free_aligned_sized(void* block, size_t alignment, size_t size) {
    forget(block), FreewayHeap::free_aligned_sized(block, alignment, size);
  }
  static void free_batch(size_t count, void** blocks) {
    for (size_t i = 0; i < count; ++i) forget(blocks[i]);
    FreewayHeap::free_batch(count, blocks);
  }
  static void* realloc(void* block, size_t size) { return forget(block), FreewayHeap::realloc(block, size); }
  static void* reallocarray(void* block, size_t count, size_t size) {
    return forget(block), FreewayHeap::reallocarray(block, count, size);
  }
};
struct ForgetsToZero : FreewayHeap {
  static void* calloc(size_t count, size_t size) {
    void* block = FreewayHeap::calloc(count, size);  // which refuses products that are too large
    if (block != nullptr && count * size > 100) static_cast<unsigned char*>(block)[99] = 1;
    return block;
  }
};
struct LosesAByteOnRealloc : FreewayHeap {
  static void* realloc(void* block, size_t size) {
    auto* moved = static_cast<unsigned char*>(FreewayHeap::realloc(block, size));
    if (block != nullptr && moved != nullptr && size > 200) moved[64] ^= 1;
    return moved;
  }
};
struct WritesToLiveBlocks : FreewayHeap {
  static inline unsigned char* victim = nullptr;
  static void* malloc(size_t size) {
    void* block = FreewayHeap::malloc(size);
    if (victim == nullptr && size > 100) victim = static_cast<unsigned char*>(block);
    return block;
  }
  static void trim() {
    if (victim != nullptr) victim[50] ^= 1;
  }
};

template <class Heap> std::string fault_in_random_trace() {
  // The blocks of a broken heap are not worth freeing: what is left is leaked.
  static LiveSet live;
  RandomTrace steps(test_seed());
  TraceMachine<Heap> machine(live, 1, {});
  for (int i = 0; i < 100000; ++i)
    if (!machine.run(steps.next())) return machine.fault();
  return "";
}

TEST(Oracle, NoticesPlantedFaults) {
  EXPECT_NE(fault_in_random_trace<HandsOutTwice>().find("overlaps"), std::string::npos);
  EXPECT_NE(fault_in_random_trace<ForgetsToZero>().find("not 0"), std::string::npos);
  EXPECT_NE(fault_in_random_trace<LosesAByteOnRealloc>().find("lost contents"), std::string::npos);
  // Corrupts one block that may be freed or not when the trim comes; try until a trace has it alive.
  LiveSet live;
  TraceMachine<WritesToLiveBlocks> machine(live, 1, {});
  EXPECT_TRUE(machine.run({uint8_t(Action::kMalloc), kByteTable, 0, 1000}));
  EXPECT_TRUE(machine.run({uint8_t(Action::kTrim), 0, 0, 64}));
  EXPECT_FALSE(machine.run({uint8_t(Action::kFree), 0, 0, 0}));
  EXPECT_NE(machine.fault().find("contents changed"), std::string::npos);
}

}  // namespace
}  // namespace freeway::test
