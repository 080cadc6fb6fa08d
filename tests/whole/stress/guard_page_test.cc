// SPDX-License-Identifier: MIT
//
// guard_page_test.cc: programs make guard pages of malloc's memory: posix_memalign, then mprotect(PROT_NONE). Whoever
// touches such a page dies, so the allocator may not: not when it refills the same classes for other threads, not when
// it flushes, trims or purges.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "stress_test.h"

namespace freeway::test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kSizes[] = {kPage, 2 * kPage, 3 * kPage, 4 * kPage, 8 * kPage, 16 * kPage, 20 * kPage, 70 * kPage};

struct Guarded {
  unsigned char* start = nullptr;
  size_t size = 0;
  uint32_t stamp = 0;
  bool whole = false;  // else the first and the last page only
};

bool protect(const Guarded& block, int protection) {
  if (block.whole || block.size < 3 * kPage) return mprotect(block.start, block.size, protection) == 0;
  return mprotect(block.start, kPage, protection) == 0 &&
         mprotect(block.start + block.size - kPage, kPage, protection) == 0;
}

bool make_guarded(Guarded& slot, Random& random) {
  slot.size = kSizes[random.below(std::size(kSizes))];
  slot.stamp = uint32_t(random.next());
  slot.whole = random.chance(50);
  void* pointer = nullptr;
  if (posix_memalign(&pointer, kPage, slot.size) != 0) return false;
  slot.start = static_cast<unsigned char*>(pointer);
  pattern::write(slot.start, 0, slot.size, slot.stamp);
  return protect(slot, PROT_NONE);
}

bool release_guarded(Guarded& slot) {
  if (slot.start == nullptr) return true;
  const bool sound =
      protect(slot, PROT_READ | PROT_WRITE) && pattern::compare(slot.start, 0, slot.size, slot.stamp) == slot.size;
  free(slot.start);
  slot.start = nullptr;
  return sound;
}

TEST(GuardPages, AreNotTouchedWhileOthersChurnTheSameClasses) {
  const uint64_t seed = test_seed();
  const uint64_t rounds = number_from_environment("FREEWAY_TEST_STEPS", 2500);
  std::atomic<int> guards_running{3};
  std::atomic<int> faults{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + t);
      std::vector<Guarded> slots(64);
      for (uint64_t i = 0; i < rounds; ++i) {
        Guarded& slot = slots[random.below(slots.size())];
        if (!release_guarded(slot) || !make_guarded(slot, random)) ++faults;
      }
      for (Guarded& slot : slots)
        if (!release_guarded(slot)) ++faults;
      --guards_running;
    });
  }
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + 100 + t);
      std::vector<Parcel*> held(100, nullptr);
      while (guards_running > 0) {
        Parcel*& slot = held[random.below(held.size())];
        if (slot != nullptr && !is_intact(slot)) ++faults;
        free(slot);
        slot = make_parcel(kSizes[random.below(std::size(kSizes))] - random.below(2000), uint32_t(t));
        if (slot == nullptr) ++faults;
      }
      for (Parcel* parcel : held) free(parcel);
    });
  }
  threads.emplace_back([&] {
    while (guards_running > 0) {
      malloc_trim(0);
      usleep(2000);
    }
  });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(faults, 0) << "FREEWAY_TEST_SEED=" << seed;
}

TEST(GuardPages, ReadOnlyMemoryIsNotWrittenTo) {
  // Everything between is protected against writing and all around it is freed, refilled and trimmed.
  std::vector<void*> guards, others;
  for (int i = 0; i < 400; ++i) {
    void* guard = nullptr;
    ASSERT_EQ(posix_memalign(&guard, kPage, kPage), 0);
    memset(guard, i, kPage);
    ASSERT_EQ(mprotect(guard, kPage, PROT_READ), 0);
    guards.push_back(guard);
    others.push_back(hide(malloc(kPage)));
  }
  for (void* block : others) free(block);
  malloc_trim(0);
  for (int round = 0; round < 10; ++round) {
    for (void*& block : others) memset(block = hide(malloc(kPage)), 1, kPage);
    for (void* block : others) free(block);
  }
  malloc_trim(0);
  for (size_t i = 0; i < guards.size(); ++i) {
    EXPECT_EQ(*static_cast<unsigned char*>(guards[i]), i & 255);
    ASSERT_EQ(mprotect(guards[i], kPage, PROT_READ | PROT_WRITE), 0);
    free(guards[i]);
  }
}

}  // namespace
}  // namespace freeway::test
