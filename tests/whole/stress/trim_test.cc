// SPDX-License-Identifier: MIT
//
// trim_test.cc: after a random 90 % of the blocks were freed, malloc_trim leaves hardly more memory resident than the
// pages on which live blocks lie. The test computes that bound from the blocks' own addresses; its books lie in
// mappings made before.
#include <freeway/freeway.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "stress_test.h"

namespace freeway::test {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kBytes = 96 * kMiB;

struct Held {
  unsigned char* start;
  uint32_t size;
  uint32_t stamp;
};

// An array that does not come from the malloc whose memory is measured, and is resident from the start.
template <class T> class Book {
 public:
  explicit Book(size_t count) : count_(count) {
    void* pages = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (pages == MAP_FAILED) abort();
    items_ = static_cast<T*>(pages);
  }
  ~Book() { munmap(items_, bytes()); }
  Book(const Book&) = delete;
  T& operator[](size_t i) { return items_[i]; }
  T* begin() { return items_; }
  T* end() { return items_ + count_; }

 private:
  size_t bytes() const { return count_ * sizeof(T); }
  T* items_;
  size_t count_;
};

void free_most_and_trim(size_t least, size_t most) {
  const uint64_t seed = test_seed();
  Random random(seed);
  const size_t count = 2 * kBytes / (least + most);
  Book<Held> held(count);
  Book<uintptr_t> pages(2 * count + kBytes / kPage);
  if (!on_flagship() && least < 32 * kKiB)
    GTEST_SKIP() << "the papers' systems give back whole superblocks only; most keep their free lists in free blocks";
  malloc_trim(0);
  const size_t before = anonymous_rss();
  for (size_t i = 0; i < count; ++i) {
    const size_t size = least + random.below(most - least + 1);
    auto* start = static_cast<unsigned char*>(hide(malloc(size)));
    ASSERT_NE(start, nullptr);
    held[i] = {start, uint32_t(size), uint32_t(i)};
    pattern::write(start, 0, size, uint32_t(i));
  }
  const size_t full = anonymous_rss() - before;
  for (size_t i = 0; i < count; ++i) std::swap(held[i], held[random.below(count)]);
  const size_t kept = count / 10;
  for (size_t i = kept; i < count; ++i) free(held[i].start);
  malloc_trim(0);

  size_t touched = 0;
  for (size_t i = 0; i < kept; ++i) {
    const auto first = reinterpret_cast<uintptr_t>(held[i].start) / kPage;
    const auto last = (reinterpret_cast<uintptr_t>(held[i].start) + held[i].size - 1) / kPage;
    for (uintptr_t page = first; page <= last; ++page) pages[touched++] = page;
  }
  std::sort(pages.begin(), pages.begin() + touched);
  const auto distinct = static_cast<size_t>(std::unique(pages.begin(), pages.begin() + touched) - pages.begin());
  const size_t bound = distinct * kPage;
  const size_t after = anonymous_rss() - before;
  printf("%5zu..%6zu bytes: full %zu KiB, live blocks lie on %zu KiB, resident after trim %zu KiB\n", least, most,
         full / kKiB, bound / kKiB, after / kKiB);
  EXPECT_LE(after, bound + bound / 25 + 3 * kMiB)
      << "4 % and the metadata of " << full / kMiB << " MiB; FREEWAY_TEST_SEED=" << seed;
  for (size_t i = 0; i < kept; ++i) {
    ASSERT_EQ(pattern::compare(held[i].start, 0, held[i].size, held[i].stamp), held[i].size)
        << "FREEWAY_TEST_SEED=" << seed;
    free(held[i].start);
  }
}

TEST(Trim, LeavesThePagesOfLiveBlocksOfOneSize) { free_most_and_trim(1000, 1000); }
TEST(Trim, LeavesThePagesOfLiveSmallBlocks) { free_most_and_trim(16, 1024); }
TEST(Trim, LeavesThePagesOfLiveMediumBlocks) { free_most_and_trim(1000, 30000); }
TEST(Trim, LeavesThePagesOfLiveLargeBlocks) { free_most_and_trim(on_flagship() ? 30000 : 33000, 500000); }

TEST(Trim, WhileOthersAllocateDoesNotDisturbThem) {
  const uint64_t seed = test_seed();
  std::atomic<int> running{6};
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      Random random(seed + t);
      std::vector<Parcel*> held(300, nullptr);
      for (int i = 0; i < 20000; ++i) {
        Parcel*& slot = held[random.below(held.size())];
        if (slot != nullptr && !is_intact(slot)) ++damaged;
        free(slot);
        slot = make_parcel(program_like_size(random), uint32_t(i));
        if (slot == nullptr) ++damaged;
      }
      for (Parcel* parcel : held) free(parcel);
      --running;
    });
  }
  // Two at once: trimming must not get in the way of itself either.
  for (int t = 0; t < 2; ++t)
    threads.emplace_back([&] {
      while (running > 0) malloc_trim(0);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(damaged, 0) << "FREEWAY_TEST_SEED=" << seed;
  freeway_audit_t audit{};
  EXPECT_EQ(freeway_audit(&audit, sizeof audit), 0u);
  EXPECT_EQ(audit.frames_stranded, 0u);
}

}  // namespace
}  // namespace freeway::test
